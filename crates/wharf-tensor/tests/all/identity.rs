//! Names and the identity blocks behind them: who has one, where it comes from, when it goes.

use std::alloc::Layout;
use std::sync::Arc;

use crate::common::{Books, Stepped};
use wharf_backend::{AllocError, FaultInject, Heap, MemBackend, SegmentMut, StaticPool};
use wharf_engine::Command;
use wharf_source::{BlockSource, SourceError, StaticPoolSource};
use wharf_sync::{Blocking, Critical, NoClock, Unsync};
use wharf_tensor::{
    Directory, Firmware, Hosted, Launch, NamedError, NoTrace, Parts, Target, Tensor, TensorError,
    TraceEvent, TraceKind, TraceSink,
};

type Names = Arc<Directory<Blocking, Arc<Books>>>;
type Memory = FaultInject<StaticPool<Blocking, 64, 8>>;
type Listed = Parts<Arc<Memory>, Arc<Books>, NoClock, NoTrace, Names>;

struct Bench {
    memory: Arc<Memory>,
    books: Arc<Books>,
    names: Names,
    target: Listed,
}

fn bench() -> Bench {
    let memory = Arc::new(FaultInject::new(StaticPool::new()));
    let (books, names) = (Arc::new(Books::default()), Names::default());
    Bench {
        target: Listed::with_directory(books.clone(), NoClock, NoTrace, names.clone()),
        memory,
        books,
        names,
    }
}

impl Bench {
    fn tensor(&self, len: usize) -> Tensor<Listed> {
        Tensor::alloc(&self.target, self.memory.clone(), len).unwrap()
    }
    /// Segments, blocks, names.
    fn held(&self) -> (usize, usize, Vec<String>) {
        let names = self.names.iter().map(|entry| entry.name().to_owned());
        (
            self.memory.census().in_use,
            self.books.blocks(),
            names.collect(),
        )
    }
}

#[test]
fn clones_share_a_name_and_slices_and_parts_have_none() {
    let bench = bench();
    let tensor = bench.tensor(8).named(&bench.target, "w").unwrap();
    let clone = tensor.clone();
    assert_eq!((tensor.name(), clone.name()), (Some("w"), Some("w")));
    let slice = tensor.slice(..).unwrap();
    assert_eq!(slice.name(), None);
    assert!(slice.completions().is_none());
    let (left, right) = tensor.split(4).unwrap();
    assert_eq!((left.name(), right.name()), (None, None));
    drop((left, right));

    // The count is one, too.
    clone.completions().unwrap().complete();
    assert_eq!(tensor.completions().unwrap().count(), 1);

    // A slice may have a name of its own, and a clone another one.
    let slice = slice.named(&bench.target, "w.all").unwrap();
    let clone = clone.named(&bench.target, "alias").unwrap();
    assert_eq!(clone.completions().unwrap().count(), 0);
    assert_eq!(
        [&tensor, &slice, &clone].map(Tensor::name),
        [Some("w"), Some("w.all"), Some("alias")]
    );
    assert_eq!(
        bench.held(),
        (1, 4, ["w", "w.all", "alias"].map(str::to_owned).into())
    );
    drop(tensor);
    assert_eq!(
        bench.held(),
        (1, 3, ["w.all", "alias"].map(str::to_owned).into())
    );
    drop((slice, clone));
    assert_eq!((bench.held(), bench.books.foreign()), ((0, 0, vec![]), 0));
}

#[test]
fn names_are_data() {
    let bench = bench();
    let long = "n".repeat(64 << 10);
    let names = ["", "/", "a\0b", "../../etc/passwd\n", "\u{1F4A9}", &long];
    let tensors = names.map(|name| bench.tensor(1).named(&bench.target, name).unwrap());
    assert_eq!(
        tensors.each_ref().map(|tensor| tensor.name().unwrap()),
        names
    );
    assert_eq!(bench.held().2, names);
    drop(tensors);
    assert_eq!((bench.held(), bench.books.foreign()), ((0, 0, vec![]), 0));
}

#[test]
fn renaming_leaves_the_old_name_to_the_others() {
    let bench = bench();
    let tensor = bench.tensor(4).named(&bench.target, "old").unwrap();
    let other = tensor.clone();
    let tensor = tensor.named_static(&bench.target, "new").unwrap();
    assert_eq!((tensor.name(), other.name()), (Some("new"), Some("old")));
    let tensor = tensor.named(&bench.target, "newer").unwrap();
    assert_eq!(bench.held().2, ["old", "newer"]);
    drop((tensor, other));
    assert_eq!(bench.held(), (0, 0, vec![]));
}

#[test]
fn a_tensor_without_storage_has_no_name() {
    let bench = bench();
    let refused = Tensor::empty().named(&bench.target, "nothing").unwrap_err();
    assert_eq!(refused.error, TensorError::NoStorage);
    assert_eq!(bench.books.blocks(), 0);
    // A placeholder has a storage.
    let later = Tensor::placeholder(&bench.target, 1 << 40).unwrap();
    let later = later.named(&bench.target, "later").unwrap();
    let entry = bench.names.iter().next().unwrap();
    assert_eq!((entry.len(), entry.space()), (1 << 40, None));
    assert_eq!(bench.names.bytes(), 0);
    drop(later);
}

#[test]
fn an_exchanged_storage_takes_the_name_along() {
    let bench = bench();
    let mut tensor = bench.tensor(4).named(&bench.target, "first").unwrap();
    let clone = tensor.clone();
    let segment = SegmentMut::alloc(bench.memory.clone(), 4).unwrap();
    let segment = segment.filled(7).unwrap();
    tensor.attach(&bench.target, segment).unwrap();
    assert_eq!((tensor.name(), clone.name()), (None, Some("first")));
    let entry = bench.names.iter().next().unwrap();
    assert_eq!(Some(entry.storage_id()), clone.storage_id());
}

#[test]
fn a_segment_is_taken_back_from_a_named_tensor_or_the_name_stays() {
    let bench = bench();
    let tensor = bench.tensor(4).named(&bench.target, "mine").unwrap();
    tensor.fill(9).unwrap();
    let slice = tensor.slice(..2).unwrap();
    let tensor = tensor.into_segment().unwrap_err().value;
    assert_eq!(tensor.name(), Some("mine"));
    drop(slice);
    let segment = tensor.into_segment().unwrap();
    assert_eq!(*segment, [9; 4]);
    assert_eq!(bench.held(), (1, 0, vec![]));
}

#[test]
fn a_report_keeps_the_name_and_not_the_memory() {
    let bench = bench();
    let tensor = bench.tensor(4).named(&bench.target, "gone").unwrap();
    let entry = bench.names.iter().next().unwrap();
    let again = entry.clone();
    drop((tensor, entry));
    assert_eq!(bench.held(), (0, 1, vec![]));
    assert_eq!((again.name(), again.len(), again.holders()), ("gone", 4, 1));
    std::thread::spawn(move || drop(again)).join().unwrap();
    assert_eq!(bench.held(), (0, 0, vec![]));
}

#[test]
fn work_in_flight_keeps_the_count_and_not_the_place_in_the_directory() {
    let bench = bench();
    let engine = Stepped::<Listed>::new();
    let tensor = bench.tensor(4).named(&bench.target, "out").unwrap();
    let done = engine.launch(Command::Fill(3), &[tensor.output()]).unwrap();
    drop(tensor);
    assert_eq!(bench.held(), (1, 2, vec![]));
    assert!(engine.step());
    assert_eq!(bench.held(), (0, 0, vec![]));
    done.wait().unwrap();
}

/// Names three tensors of one byte in three ways.
fn setup(bench: &Bench) -> Result<[Tensor<Listed>; 3], TensorError> {
    let target = &bench.target;
    let one = Tensor::alloc_named(target, bench.memory.clone(), 1, "one")?;
    let two = Tensor::alloc(target, bench.memory.clone(), 1)?;
    let two = two.named(target, "two").map_err(|refused| refused.error)?;
    let three = one.slice(..)?.named_static(target, "three");
    Ok([one, two, three.map_err(|refused| refused.error)?])
}

#[test]
fn each_block_that_is_refused_leaves_nothing_behind() {
    let bench = bench();
    let before = setup(&bench).unwrap();
    let held = bench.held();
    assert_eq!((held.0, held.1), (2, 5));
    for nth in 1..=5 {
        bench.books.refuse_nth(nth);
        let refused = setup(&bench).map(drop).unwrap_err();
        let TensorError::Alloc(AllocError::Source(SourceError::Exhausted { requested, .. })) =
            refused
        else {
            panic!("block {nth}: {refused:?}");
        };
        assert!(requested > 0);
        assert_eq!(
            (bench.books.calls(), bench.held()),
            (nth, held.clone()),
            "block {nth}"
        );
    }
    bench.books.refuse_nth(6);
    drop((setup(&bench).unwrap(), before));
    assert_eq!(bench.books.calls(), 5, "there is no sixth");
    assert_eq!((bench.held(), bench.books.foreign()), ((0, 0, vec![]), 0));
}

#[test]
fn a_tensor_that_finds_no_identity_block_comes_back_as_it_was() {
    let bench = bench();
    let tensor = bench.tensor(3).named(&bench.target, "old").unwrap();
    tensor.write(0, b"abc").unwrap();
    bench.books.refuse_nth(1);
    let refused = tensor.named(&bench.target, "new").unwrap_err();
    assert!(matches!(
        refused.error,
        TensorError::Alloc(AllocError::Source(_))
    ));
    let tensor = refused.value;
    assert_eq!(
        (tensor.name(), &*tensor.lend().unwrap()),
        (Some("old"), &b"abc"[..])
    );
    assert_eq!(bench.held().2, ["old"]);
}

#[test]
fn out_of_memory_says_for_which_tensor() {
    let bench = bench();
    let refused = Tensor::alloc_named(&bench.target, bench.memory.clone(), 65, "conv1\n.bias");
    let refused = refused.unwrap_err();
    let too_large = AllocError::TooLarge {
        requested: 65,
        max: 64,
    };
    let error = TensorError::Alloc(too_large);
    let name = "conv1\n.bias";
    assert_eq!(refused, NamedError { name, error });
    assert_eq!(
        refused.to_string(),
        "conv1\\n.bias: 65 bytes asked, a segment of this backend holds at most 64"
    );
    assert_eq!(TensorError::from(refused), error);
}

/// What `Firmware` and `docs/memory.md` say; `digits-firmware` asserts the same of a Cortex-M3.
#[cfg(target_arch = "x86_64")]
#[test]
fn the_blocks_of_a_firmwares_tensors_are_as_large_as_the_pages_say() {
    type Board = Firmware<Critical, StaticPoolSource<Critical, { 1 << 10 }, 2>>;
    let sizes = [
        Tensor::<Board>::CONTROL_BLOCK.size(),
        Tensor::<Board>::IDENTITY_BLOCK.size(),
    ];
    assert_eq!(sizes, [160, 232]);
}

#[test]
fn a_static_name_takes_a_block_of_the_size_that_is_told() {
    const CONTROL: usize = Tensor::<Board>::CONTROL_BLOCK.size();
    const IDENTITY: usize = Tensor::<Board>::IDENTITY_BLOCK.size();
    type Blocks = StaticPoolSource<Critical, { 1 << 10 }, 2>;
    type Board = Firmware<Critical, Blocks, NoClock, &'static Directory<Critical, &'static Blocks>>;
    static BLOCKS: Blocks = StaticPoolSource::new();
    static NAMES: Directory<Critical, &'static Blocks> = Directory::new();
    static POOL: StaticPool<Critical, 64, 2> = StaticPool::new();
    static TARGET: Board = Board::with_directory(&BLOCKS, NoClock, NoTrace, &NAMES);

    let in_use = || BlockSource::census(&&BLOCKS).bytes_in_use();
    let tensor = Tensor::alloc(&TARGET, &POOL, 8).unwrap();
    let before = in_use();
    let tensor = tensor.named_static(&TARGET, "frame").unwrap();
    let taken = in_use() - before;
    assert_eq!(
        taken,
        Layout::from_size_align(IDENTITY, 8)
            .unwrap()
            .pad_to_align()
            .size()
    );
    assert_ne!(CONTROL, IDENTITY);
    assert_eq!(NAMES.iter().next().unwrap().name(), "frame");
    drop(tensor);
    assert!(NAMES.iter().next().is_none());
    // A pool keeps what it has carved; the same block serves the next name.
    let full = in_use();
    let again = Tensor::alloc(&TARGET, &POOL, 8).unwrap();
    drop(again.named_static(&TARGET, "another frame").unwrap());
    assert_eq!(in_use(), full);
}

#[test]
fn a_tensor_is_four_words_and_an_anonymous_one_takes_one_block() {
    assert_eq!(size_of::<Tensor<Hosted>>(), 4 * size_of::<usize>());
    let books = Arc::new(Books::default());
    let target = Parts::<Heap<Unsync>, _>::new(books.clone());
    let tensor = Tensor::alloc(&target, Heap::new(), 4).unwrap();
    let others = (tensor.clone(), tensor.slice(1..).unwrap());
    assert_eq!(books.calls(), 1);
    drop((tensor, others));
}

#[test]
fn a_hosted_target_has_a_directory() {
    let target = Hosted::default();
    let memory = Arc::new(StaticPool::<Blocking, 64, 2>::new());
    let tensor = Tensor::alloc_named(&target, memory, 64, "input").unwrap();
    let names: Vec<_> = target
        .directory()
        .iter()
        .map(|entry| entry.holders())
        .collect();
    assert_eq!(names, [1]);
    // The directory may go first, in name: the tensor keeps it.
    drop(target);
    drop(tensor);
}

/// Looks for a storage in the directory when it is freed.
#[derive(Clone)]
struct Looks(Names);

impl TraceSink for Looks {
    fn record(&self, event: TraceEvent) {
        if event.kind == TraceKind::Free {
            let mut listed = self.0.iter().map(|entry| entry.storage_id().get());
            assert!(listed.all(|storage| storage != event.storage));
        }
    }
}

#[test]
fn a_name_goes_before_its_storage() {
    type Looked = Parts<Arc<Memory>, Arc<Books>, NoClock, Looks, Names>;
    let (memory, names) = (
        Arc::new(FaultInject::new(StaticPool::new())),
        Names::default(),
    );
    let sink = Looks(names.clone());
    let target = Looked::with_directory(Arc::default(), NoClock, sink, names.clone());
    let tensor = || Tensor::alloc_named(&target, Arc::clone(&memory), 4, "t").unwrap();
    drop(tensor());
    drop(tensor().into_segment().unwrap());
    let mut attached = tensor();
    let segment = SegmentMut::alloc(Arc::clone(&memory), 4).unwrap();
    attached
        .attach(&target, segment.filled(1).unwrap())
        .unwrap();
    assert_eq!(names.iter().count(), 0);
}
