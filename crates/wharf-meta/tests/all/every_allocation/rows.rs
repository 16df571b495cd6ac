//! The table.

use super::Row;
use super::bench::{Bench, Swept, Took};
use wharf_backend::AllocError;
use wharf_meta::archive::{Archive, LoadError};
use wharf_meta::dump::Dump;
use wharf_meta::{
    Adler32, Checksum, Crc32, DType, SetError, Shape, TensorInfo, TensorSet, Typed, Usage,
    checksum, checksum_through, view, view_mut,
};
use wharf_tensor::{Tensor, TensorError};

fn of_tensor(error: TensorError) -> AllocError {
    match error {
        TensorError::Alloc(error) => error,
        other => panic!("{other}"),
    }
}

fn of_set(error: SetError) -> AllocError {
    match error {
        SetError::Refused(error) => error.into(),
        other => panic!("{other}"),
    }
}

/// Adds the tensor of the bench. If that is refused, it comes back, and the set is as it was.
fn insert(bench: &Bench, set: &mut TensorSet<Swept>, name: &str) -> Result<(), AllocError> {
    let before = set.len();
    match set.insert(name, bench.tensor.clone()) {
        Ok(replaced) => {
            assert!(replaced.is_none());
            Ok(())
        }
        Err(refused) => {
            assert_eq!(refused.value.storage_id(), bench.tensor.storage_id());
            assert_eq!((set.len(), set.contains(name)), (before, false));
            // Those before it are whole, names and all.
            assert!(
                set.iter()
                    .all(|(_, tensor)| *tensor.try_lend().unwrap() == [1, 2, 3, 4])
            );
            assert!(
                set.iter()
                    .map(|(name, _)| name)
                    .eq(LETTERS.iter().copied().take(before))
            );
            Err(of_set(refused.error))
        }
    }
}

const LETTERS: [&str; 9] = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];

/// Two tensors: `a` of four bytes and `bb` of three.
fn file() -> Vec<u8> {
    let header = concat!(
        r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"#,
        r#""bb":{"dtype":"U8","shape":[3],"data_offsets":[4,7]}}"#,
    );
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend([1, 2, 3, 4, 5, 6, 7]);
    file
}

/// The tensor of the bench as two `u16`.
fn typed(bench: &Bench) -> Typed<Swept> {
    let shape = Shape::new(&[2]).unwrap();
    Typed::new(bench.tensor.clone(), DType::U16, shape).unwrap()
}

pub(super) const ROWS: &[Row] = &[
    Row {
        title: "insert into a new set",
        through: &["set::new", "set::in_source", "set::insert", "set::is_empty"],
        segments: 0,
        blocks: &[Took::Names(20), Took::Entries(8)],
        run: |bench| {
            let mut set = TensorSet::new(&bench.target);
            assert!(TensorSet::<Swept>::in_source(bench.source.clone()).is_empty());
            if let Err(refused) = insert(bench, &mut set, "a name of 20 letters") {
                // It succeeds in the same set, and asks for what was refused and no more: no byte of the name was left behind.
                insert(bench, &mut set, "a name of 20 letters").unwrap();
                assert_eq!(bench.source.calls(), 3);
                return Err(refused);
            }
            assert_eq!(set.get("a name of 20 letters").unwrap().len(), 4);
            Ok(())
        },
    },
    Row {
        title: "insert until both arrays grow",
        through: &["set::insert"],
        segments: 0,
        blocks: &[
            Took::Names(8),
            Took::Entries(8),
            Took::Names(16),
            Took::Entries(16),
        ],
        run: |bench| {
            let mut set = TensorSet::new(&bench.target);
            LETTERS
                .iter()
                .try_for_each(|name| insert(bench, &mut set, name))?;
            assert!(set.iter().map(|(name, _)| name).eq(LETTERS));
            Ok(())
        },
    },
    Row {
        title: "try_reserve",
        through: &["set::try_reserve"],
        segments: 0,
        blocks: &[Took::Names(40), Took::Entries(3)],
        run: |bench| {
            let mut set = TensorSet::new(&bench.target);
            let reserved = set.try_reserve(3, 40);
            assert!(set.is_empty());
            Ok(reserved?)
        },
    },
    Row {
        title: "a set that has room",
        through: &[
            "set::insert",
            "set::get",
            "set::contains",
            "set::remove",
            "set::len",
            "set::iter",
            "set::check",
            "set::clear",
        ],
        segments: 0,
        blocks: &[],
        run: |bench| {
            let set = &mut *bench.set.borrow_mut();
            assert_eq!((set.len(), set.contains("zzz")), (2, false));
            set.insert("zzz", bench.tensor.clone()).unwrap();
            let replaced = set.insert("zzz", Tensor::empty()).unwrap();
            assert_eq!(replaced.unwrap().storage_id(), bench.tensor.storage_id());
            set.check(&[TensorInfo::input("yy", DType::U8, &[8]).unwrap()])
                .unwrap();
            assert!(set.remove("zzz").unwrap().is_empty());
            // Cleared, it keeps its memory.
            let (x, yy) = (
                set.get("x").unwrap().clone(),
                set.get("yy").unwrap().clone(),
            );
            set.clear();
            set.insert("x", x).unwrap();
            set.insert("yy", yy).unwrap();
            assert_eq!(set.iter().map(|(name, _)| name).collect::<String>(), "xyy");
            Ok(())
        },
    },
    Row {
        title: "an archive is loaded",
        through: &["archive::load"],
        segments: 2,
        blocks: &[
            Took::Control,
            Took::Names(8),
            Took::Entries(8),
            Took::Control,
        ],
        run: |bench| {
            let file = file();
            let archive = Archive::parse(&file).unwrap();
            let loaded = archive.load(&bench.target, bench.memory.clone());
            let set = loaded.map_err(|refused| match refused {
                LoadError::Tensor { error, .. } => of_tensor(error),
                LoadError::Set { error, .. } => of_set(error),
                other => panic!("{other}"),
            })?;
            assert_eq!(*set.get("a").unwrap().lend().unwrap(), [1, 2, 3, 4]);
            assert_eq!(*set.get("bb").unwrap().lend().unwrap(), [5, 6, 7]);
            Ok(())
        },
    },
    Row {
        title: "a tensor of an archive is loaded",
        through: &["archive::load", "archive::get"],
        segments: 1,
        blocks: &[Took::Control],
        run: |bench| {
            let file = file();
            let archive = Archive::parse(&file).unwrap();
            let stored = archive.get("bb").unwrap();
            let tensor = stored
                .load(&bench.target, bench.memory.clone())
                .map_err(of_tensor)?;
            assert_eq!(*tensor.lend().unwrap(), [5, 6, 7]);
            Ok(())
        },
    },
    Row {
        title: "an archive is looked at",
        through: &[
            "archive::parse",
            "archive::iter",
            "archive::check",
            "archive::name",
            "archive::info",
        ],
        segments: 0,
        blocks: &[],
        run: |_| {
            let file = file();
            let archive = Archive::parse(&file).unwrap();
            archive
                .check(&[TensorInfo::input("bb", DType::U8, &[3]).unwrap()])
                .unwrap();
            let first = archive.iter().next().unwrap();
            assert_eq!(
                (first.name(), first.info(Usage::In).unwrap().size()),
                ("a", 4)
            );
            Ok(())
        },
    },
    Row {
        title: "typed access",
        through: &[
            "typed::new",
            "typed::of",
            "typed::into_tensor",
            "typed::read_as",
            "typed::write_as",
            "view::view",
            "view::view_mut",
            "view::lend",
            "view::lend_mut",
            "view::read_whole",
            "view::write_whole",
        ],
        segments: 0,
        blocks: &[],
        run: |bench| {
            let info = TensorInfo::input("x", DType::U16, &[2]).unwrap();
            assert_eq!(Typed::of(bench.tensor.clone(), &info).unwrap().len(), 2);
            let typed = typed(bench);
            let mut values = [0_u16; 2];
            typed.read_as(0, &mut values).unwrap();
            assert_eq!(values, [0x0201, 0x0403]);
            typed.write_as(1, &[7_u16]).unwrap();
            typed.read_whole(0, &mut values).unwrap();
            assert_eq!(values, [0x0201, 7]);
            typed.lend_mut::<u16>().unwrap()[0] = 8;
            assert_eq!(typed.lend::<u16>().unwrap()[..], [8, 7]);
            typed.write_whole(0, &[0x0201_u16, 0x0403]).unwrap();
            assert_eq!(view::<u8>(&[1]).unwrap(), [1]);
            view_mut::<u8>(&mut [1]).unwrap()[0] = 2;
            assert_eq!(typed.into_tensor().storage_id(), bench.tensor.storage_id());
            Ok(())
        },
    },
    Row {
        title: "checksums",
        through: &[
            "checksum::new",
            "checksum::checksum",
            "checksum::checksum_through",
        ],
        segments: 0,
        blocks: &[],
        run: |bench| {
            // 1 + 1 + 2 + 3 + 4, and the sum of the sums.
            assert_eq!(checksum(&bench.tensor, Adler32::new()), Ok((24 << 16) + 11));
            let through = checksum_through(&bench.tensor, Crc32::new(), &mut [0; 1]);
            let mut whole = Crc32::new();
            whole.update(&[1, 2, 3, 4]);
            assert_eq!(through, Ok(whole.finish()));
            Ok(())
        },
    },
    Row {
        title: "dumps",
        through: &[
            "dump::create",
            "dump::create_temporary",
            "dump::directory",
            "dump::set_model",
            "dump::raw",
            "dump::npy",
            "dump::set",
            "dump::finish",
        ],
        segments: 0,
        blocks: &[],
        run: |bench| {
            let folder = tempfile::tempdir().unwrap();
            let mut dump = Dump::create(folder.path()).unwrap();
            dump.set_model("swept");
            let raw = dump.raw("x", &bench.tensor).unwrap();
            assert_eq!(std::fs::read(raw).unwrap(), [1, 2, 3, 4]);
            dump.npy("typed", &typed(bench)).unwrap();
            dump.set(&bench.set.borrow(), std::iter::empty()).unwrap();
            dump.finish().unwrap();
            let temporary = Dump::create_temporary().unwrap();
            std::fs::remove_dir_all(temporary.directory()).unwrap();
            Ok(())
        },
    },
];
