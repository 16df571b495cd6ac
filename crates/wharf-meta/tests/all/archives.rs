//! `.safetensors` files: the demo's own, and ones that lie.

use crate::common::{Device, Host, faulty};
use proptest::prelude::*;
use safetensors::Dtype;
use wharf_backend::{AllocError, Heap};
use wharf_meta::archive::{Archive, ArchiveError, LoadError};
use wharf_meta::{
    Adler32, Checksum, DType, NameTooLong, SetError, ShortName, TensorInfo, Typed, Usage, checksum,
};
use wharf_source::HeapSource;
use wharf_tensor::TensorError;

const MODEL: &[u8] = include_bytes!("../../../../examples/digits/data/digits-mlp.safetensors");
const TEST_SET: &[u8] = include_bytes!("../../../../examples/digits/data/digits-test.safetensors");

/// A file with this header and so many bytes of data.
fn file(header: &str, data: usize) -> Vec<u8> {
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend(crate::common::pattern(data));
    file
}

fn refused(header: &str, data: usize) -> ArchiveError {
    Archive::parse(&file(header, data)).unwrap_err()
}

fn short(name: &str) -> ShortName {
    ShortName::new(name)
}

#[test]
fn the_demos_model_is_read() {
    let archive = Archive::parse(MODEL).unwrap();
    let mut there: Vec<_> = archive
        .iter()
        .map(|t| (t.name(), t.dtype(), t.shape().to_vec()))
        .collect();
    there.sort_unstable();
    let expected = [
        ("hidden.bias", DType::F32, vec![32]),
        ("hidden.weight", DType::F32, vec![32, 64]),
        ("output.bias", DType::F32, vec![10]),
        ("output.weight", DType::F32, vec![10, 32]),
    ];
    assert_eq!(there, expected);
    assert_eq!((archive.len(), archive.is_empty()), (4, false));
    assert_eq!((&archive).into_iter().count(), 4);
    let nothing = file("{}", 0);
    let nothing = Archive::parse(&nothing).unwrap();
    assert_eq!((nothing.len(), nothing.is_empty()), (0, true));
    // Four bytes for each of 32 + 32 * 64 + 10 + 10 * 32.
    let total: usize = archive.iter().map(|tensor| tensor.bytes().len()).sum();
    assert_eq!(total, 9640);
    assert_eq!(archive.get("hidden").unwrap_err().name, short("hidden"));

    let test_set = Archive::parse(TEST_SET).unwrap();
    let images = test_set.get("images").unwrap();
    assert_eq!(
        (images.dtype(), images.shape().axes()),
        (DType::U8, &[360, 64][..])
    );
    assert_eq!(images.info(Usage::In).unwrap().size(), 23_040);
}

#[test]
fn tensors_are_loaded_onto_a_device() {
    let device = Device::open();
    let archive = Archive::parse(MODEL).unwrap();
    let set = archive
        .load(&device.target, device.device.channel())
        .unwrap();
    assert_eq!(set.len(), 4);
    for stored in &archive {
        let mut expected = Adler32::new();
        expected.update(stored.bytes());
        let tensor = set.get(stored.name()).unwrap();
        assert_eq!(checksum(tensor, Adler32::new()), Ok(expected.finish()));
    }
    let bias = archive.get("output.bias").unwrap();
    let tensor = set.get("output.bias").unwrap().clone();
    let typed = Typed::new(tensor, bias.dtype(), *bias.shape()).unwrap();
    let mut values = [0.0_f32; 10];
    typed.read_as(0, &mut values).unwrap();
    let first = f32::from_le_bytes(bias.bytes()[..4].try_into().unwrap());
    assert_eq!(values[0], first);
}

#[test]
fn a_model_is_held_against_its_description() {
    let archive = Archive::parse(MODEL).unwrap();
    let info = |name, dtype, axes: &[usize]| TensorInfo::input(name, dtype, axes).unwrap();
    let bias = info("output.bias", DType::F32, &[10]);
    assert_eq!(
        archive.check([&bias, &info("hidden.weight", DType::F32, &[32, 64])]),
        Ok(())
    );
    assert_eq!(
        archive.check([&bias, &info("bias", DType::F32, &[10])]),
        Err(ArchiveError::Missing {
            name: short("bias")
        })
    );
    assert_eq!(
        archive.check(&[info("output.bias", DType::Fp32R, &[10])]),
        Err(ArchiveError::WrongDType {
            name: short("output.bias"),
            expected: DType::Fp32R,
            found: Dtype::F32
        })
    );
    assert_eq!(
        archive.check(&[info("output.bias", DType::F32, &[10, 1])]),
        Err(ArchiveError::WrongRank {
            name: short("output.bias"),
            expected: 2,
            found: 1
        })
    );
    assert_eq!(
        archive.check(&[info("hidden.weight", DType::F32, &[32, 65])]),
        Err(ArchiveError::WrongAxis {
            name: short("hidden.weight"),
            axis: 1,
            expected: 65,
            found: 64
        })
    );
}

#[test]
fn types_are_mapped_and_unknown_ones_kept_as_bytes() {
    let known = [
        ("U8", 1, DType::U8),
        ("I8", 1, DType::I8),
        ("U16", 2, DType::U16),
        ("I16", 2, DType::I16),
        ("F16", 2, DType::F16),
        ("BF16", 2, DType::Bf16),
        ("U32", 4, DType::U32),
        ("I32", 4, DType::I32),
        ("F32", 4, DType::F32),
        ("U64", 8, DType::U64),
        ("I64", 8, DType::I64),
        ("F8_E4M3", 1, DType::Fp8E4),
        ("F8_E5M2", 1, DType::Fp8E5),
        ("F64", 8, DType::Unknown),
        ("BOOL", 1, DType::Unknown),
        ("F8_E4M3FNUZ", 1, DType::Unknown),
    ];
    for (name, size, dtype) in known {
        let header = format!(
            r#"{{"t":{{"dtype":"{name}","shape":[3],"data_offsets":[0,{}]}}}}"#,
            3 * size
        );
        let file = file(&header, 3 * size);
        let archive = Archive::parse(&file).unwrap();
        let stored = archive.get("t").unwrap();
        assert_eq!(
            (stored.dtype(), stored.bytes().len()),
            (dtype, 3 * size),
            "{name}"
        );
        assert_eq!(stored.stored_dtype().to_string(), name);
        assert_eq!(stored.info(Usage::In).unwrap().size(), 3 * size);
    }
    // Three elements of four bits are no whole number of bytes; four are two.
    let header = |n| format!(r#"{{"t":{{"dtype":"F4","shape":[{n}],"data_offsets":[0,2]}}}}"#);
    assert_eq!(
        refused(&header(3), 2),
        ArchiveError::Extent {
            name: short("t"),
            expected: 2,
            found: 2
        }
    );
    assert!(Archive::parse(&file(&header(4), 2)).is_ok());
}

#[test]
fn files_that_are_none_are_refused_with_the_numbers() {
    for len in 0..8 {
        assert_eq!(
            Archive::parse(&MODEL[..len]).unwrap_err(),
            ArchiveError::TooShort { found: len }
        );
    }
    let header =
        |length: u64| Archive::parse(&[&length.to_le_bytes()[..], b"{}"].concat()).map(drop);
    assert_eq!(header(2), Ok(()));
    for length in [3, u64::MAX, u64::MAX - 7, 1 << 63] {
        let past = ArchiveError::HeaderPastEnd {
            length,
            available: 2,
        };
        assert_eq!(header(length), Err(past));
    }
    for text in ["", "[]", "{", "{}x", "{}}", "null", "\0"] {
        let error = refused(text, 0);
        assert!(matches!(error, ArchiveError::Header { .. }), "{text}");
        assert_eq!(error.name(), None);
    }
    for body in [
        "1",
        "{}",
        r#"{"dtype":"F31","shape":[],"data_offsets":[0,0]}"#,
        r#"{"dtype":"U8","shape":[],"shape":[1],"data_offsets":[0,1]}"#,
        r#"{"dtype":"U8","shape":[1],"data_offsets":[0,1,1]}"#,
        r#"{"dtype":"U8","shape":[1],"data_offsets":[0,18446744073709551616]}"#,
    ] {
        let error = refused(&format!(r#"{{"bias":{body}}}"#), 1);
        assert!(matches!(error, ArchiveError::Entry { .. }), "{body}");
        assert_eq!(error.name(), Some(&short("bias")));
    }
    let length = 100_000_001;
    let mut long = vec![0; 8 + 100_000_001];
    long[..8].copy_from_slice(&u64::to_le_bytes(length));
    assert_eq!(
        Archive::parse(&long).unwrap_err(),
        ArchiveError::HeaderTooLong { length }
    );
    let negative = r#"{"bias":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}"#;
    let told = refused(negative, 4).to_string();
    assert!(told.contains("`bias`") && told.contains("-1"), "{told}");
    let deep = "[".repeat(1 << 16);
    assert!(matches!(refused(&deep, 0), ArchiveError::Header { .. }));
    // The metadata of a file is text by text.
    let metadata = r#"{"__metadata__":{"format":"pt"}}"#;
    assert!(Archive::parse(&file(metadata, 0)).unwrap().is_empty());
    let metadata = r#"{"__metadata__":{"format":7}}"#;
    assert!(matches!(refused(metadata, 0), ArchiveError::Refused { .. }));
}

fn entry(name: &str, shape: &str, begin: u64, end: u64) -> String {
    format!(r#""{name}":{{"dtype":"U8","shape":{shape},"data_offsets":[{begin},{end}]}}"#)
}

#[test]
fn tensors_that_lie_about_where_they_are_are_refused_with_the_numbers() {
    let one = |shape, begin, end| refused(&format!("{{{}}}", entry("t", shape, begin, end)), 8);
    let name = short("t");
    let reversed = ArchiveError::OffsetsReversed {
        name,
        begin: 8,
        end: 0,
    };
    assert_eq!(one("[8]", 8, 0), reversed);
    let past = |end| ArchiveError::PastEnd {
        name,
        end,
        available: 8,
    };
    assert_eq!(one("[9]", 0, 9), past(9));
    assert_eq!(one("[18446744073709551615]", 0, u64::MAX), past(usize::MAX));
    let extent = |expected| ArchiveError::Extent {
        name,
        expected,
        found: 8,
    };
    assert_eq!(one("[7]", 0, 8), extent(7));
    assert_eq!(one("[]", 0, 8), extent(1));
    // 2^32 * 2^32 * 2^3 wraps to 8 in none of the types that could hold it.
    assert_eq!(one("[4294967296,4294967296,8]", 0, 8), extent(u64::MAX));
    assert_eq!(
        one("[4294967296,4294967296,4294967296,4294967296,8]", 0, 8),
        extent(u64::MAX)
    );
    assert_eq!(
        one("[1,1,1,1,1,1,1,1,8]", 0, 8),
        ArchiveError::Rank { name, rank: 9 }
    );

    let two = |a: (u64, u64), b: (u64, u64)| {
        let shape = |(begin, end): (u64, u64)| format!("[{}]", end - begin);
        let entries = [
            entry("b", &shape(b), b.0, b.1),
            entry("a", &shape(a), a.0, a.1),
        ];
        Archive::parse(&file(&format!("{{{}}}", entries.join(",")), 8)).map(|archive| {
            archive
                .iter()
                .map(|tensor| tensor.name().to_owned())
                .collect::<Vec<_>>()
        })
    };
    // In the order of their bytes, not of the header.
    assert_eq!(two((0, 5), (5, 8)).unwrap(), ["a", "b"]);
    let (name, previous_end) = (short("b"), 5);
    assert_eq!(
        two((0, 5), (4, 8)),
        Err(ArchiveError::Overlap {
            name,
            begin: 4,
            previous_end
        })
    );
    assert_eq!(
        two((0, 5), (6, 8)),
        Err(ArchiveError::Gap {
            name,
            begin: 6,
            previous_end
        })
    );
    assert_eq!(
        two((0, 5), (5, 7)),
        Err(ArchiveError::TrailingBytes {
            end: 7,
            available: 8
        })
    );
    // Written differently, the same name.
    // That is told first, wherever they are.
    let twice = format!(
        "{{{},{}}}",
        entry("t", "[8]", 0, 8),
        entry("t", "[4]", 2, 6)
    );
    assert_eq!(
        refused(&twice, 8),
        ArchiveError::NameTwice { name: short("t") }
    );
    let twice = format!(
        "{{{},{}}}",
        entry("t", "[8]", 0, 8),
        entry("\\u0074", "[0]", 8, 8)
    );
    assert_eq!(
        refused(&twice, 8),
        ArchiveError::NameTwice { name: short("t") }
    );
}

#[test]
fn what_the_file_says_is_fit_to_be_printed() {
    let hostile = format!("{{{}}}", entry("\\u001b[2J", "[9]", 0, 8));
    let told = refused(&hostile, 8).to_string();
    assert_eq!(
        told,
        "`\\u{1b}[2J` takes 9 bytes by its shape, 8 by its offsets"
    );
    let long = refused(&format!(r#"{{"t":"{}"}}"#, "x".repeat(1000)), 0).to_string();
    assert!(long.len() < 200, "{long}");
}

#[test]
fn a_name_too_long_for_a_set_is_told_and_can_be_loaded_alone() {
    let long = "n".repeat(300);
    let file = file(&format!("{{{}}}", entry(&long, "[4]", 0, 4)), 4);
    let archive = Archive::parse(&file).unwrap();
    let target = Host::new(HeapSource);
    let refused = archive.load(&target, Heap::new()).map(drop).unwrap_err();
    assert_eq!(
        refused,
        LoadError::Set {
            name: short(&long),
            error: SetError::Name(NameTooLong { len: 300 })
        }
    );
    assert_eq!(
        refused.to_string(),
        format!(
            "`{}…` (300 bytes): a name of 300 bytes, at most 255 are kept",
            "n".repeat(62)
        )
    );
    let tensor = archive
        .get(&long)
        .unwrap()
        .load(&target, Heap::new())
        .unwrap();
    assert_eq!(*tensor.lend().unwrap(), [0, 1, 2, 3]);
}

#[test]
fn a_header_that_is_no_object_is_told_what_it_should_be() {
    let told = refused("[]", 0).to_string();
    assert!(
        told.contains("expected an object with one entry a tensor"),
        "{told}"
    );
}

#[test]
fn a_tensor_of_no_bytes_is_loaded_too() {
    let file = file(&format!("{{{}}}", entry("none", "[3,0]", 0, 0)), 0);
    let archive = Archive::parse(&file).unwrap();
    let device = Device::open();
    let set = archive
        .load(&device.target, device.device.channel())
        .unwrap();
    assert_eq!(checksum(set.get("none").unwrap(), Adler32::new()), Ok(1));
    let set = archive.load(&Host::new(HeapSource), Heap::new()).unwrap();
    assert!(set.get("none").unwrap().is_empty());
}

#[test]
fn every_refused_block_loses_nothing() {
    let (target, source) = faulty();
    let archive = Archive::parse(MODEL).unwrap();
    source.fail_nth(u64::MAX);
    drop(archive.load(&target, Heap::new()).unwrap());
    let blocks = source.calls();
    assert!(blocks >= 6, "four storages and two arrays: {blocks}");
    for nth in 1..=blocks {
        source.fail_nth(nth);
        match archive.load(&target, Heap::new()).map(drop).unwrap_err() {
            LoadError::Tensor {
                error: TensorError::Alloc(AllocError::Source(_)),
                ..
            } => {}
            LoadError::Set {
                error: SetError::Refused(_),
                ..
            } => {}
            other => panic!("block {nth}: {other}"),
        }
        // The target holds one count of the source, and so does this test: no tensor and no set does.
        assert_eq!(std::rc::Rc::strong_count(&source), 2, "block {nth}");
    }
    source.fail_nth(0);
    assert_eq!(archive.load(&target, Heap::new()).unwrap().len(), 4);
}

#[test]
fn a_full_device_names_the_tensor() {
    let device = Device::open();
    let filler = device.empty((1 << 20) - 8192);
    let archive = Archive::parse(MODEL).unwrap();
    let refused = archive
        .load(&device.target, device.device.channel())
        .unwrap_err();
    assert!(
        matches!(
            refused,
            LoadError::Tensor {
                error: TensorError::Alloc(_),
                ..
            }
        ),
        "{refused}"
    );
    let held = device.device.channel().ledger().census.in_use;
    drop(filler);
    assert_eq!(held, (1 << 20) - 8192, "what was loaded before went back");
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Archive::parse(&bytes).map_err(|error| error.to_string());
    }

    /// The demo's model with some bytes of its header replaced, and its end cut off.
    #[test]
    fn damaged_files_are_read_or_refused(
        damage in prop::collection::vec((0..470_usize, any::<u8>()), 0..4),
        digits in prop::collection::vec((8..464_usize, b'0'..=b'9'), 0..3),
        len in prop_oneof![3 => Just(MODEL.len()), 1 => 0..MODEL.len()],
    ) {
        let mut file = MODEL.to_vec();
        for (at, byte) in damage.into_iter().chain(digits.into_iter().filter(|&(at, _)| MODEL[at].is_ascii_digit())) {
            file[at] = byte;
        }
        file.truncate(len);
        match Archive::parse(&file) {
            // Whatever was taken is all of the file, each byte once.
            Ok(archive) => {
                let header = 8 + u64::from_le_bytes(file[..8].try_into().unwrap());
                let total: usize = archive.iter().map(|tensor| tensor.bytes().len()).sum();
                prop_assert_eq!(header + total as u64, file.len() as u64);
            }
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }

    /// Headers that have the form of one, with numbers of all sizes.
    #[test]
    fn lying_headers_are_read_or_refused(
        entries in prop::collection::vec(
            (
                "[ab]{0,2}",
                prop::sample::select(&["U8", "F32", "F4", "F6_E2M3", "C64", "X"][..]),
                prop::collection::vec(number(), 0..4),
                number(),
                number(),
            ),
            0..4,
        ),
        data in 0..40_usize,
    ) {
        let entries: Vec<String> = entries
            .into_iter()
            .map(|(name, dtype, shape, begin, end)| {
                format!(r#""{name}":{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[{begin},{end}]}}"#)
            })
            .collect();
        let file = file(&format!("{{{}}}", entries.join(",")), data);
        if let Ok(archive) = Archive::parse(&file) {
            let total: usize = archive.iter().map(|tensor| tensor.bytes().len()).sum();
            prop_assert_eq!(total, data);
        }
    }
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0..20_u64, 1 => any::<u64>(), 1 => (0..64_u32).prop_map(|bit| u64::MAX << bit)]
}
