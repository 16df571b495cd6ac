//! Tensors over memory that nobody may write: they do all that reads, and refuse all that writes before anything is waited for.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use std::{future::Future, pin::pin};

use crate::common::Books;
use wharf_backend::{
    BorrowedBackend, BorrowedShared, Heap, Init, MemBackend, OwnerBackend, ReadOnly, SegmentMut,
    SharedBytes, StaticPool,
};
use wharf_engine::{Command, CpuEngine, Engine, KernelFault, Lent, Stream, StreamId};
use wharf_source::{HeapSource, StaticPoolSource};
use wharf_sync::{Blocking, Critical, StdClock, Unsync};
use wharf_tensor::{
    Access, BatchError, CopyFault, Firmware, Launch, LaunchError, NoTrace, Parts, Tensor,
    TensorError, Tickets,
};

const TABLE: [u8; 8] = *b"in flash";

type Rom = Arc<dyn MemBackend<Policy = Blocking> + Send + Sync>;
type Shelf = Parts<Rom, Arc<Books>, StdClock>;

/// A target, and a tensor over read-only memory.
fn table() -> (Arc<Books>, Shelf, Tensor<Shelf>) {
    let books = Arc::<Books>::default();
    let shelf = Shelf::with(books.clone(), StdClock::new(), NoTrace);
    let rom = Arc::new(BorrowedBackend::<_, Blocking>::fresh(SharedBytes::new(
        &TABLE,
    )));
    let segment = BorrowedBackend::lend_by(rom).unwrap();
    let table = Tensor::from_segment(&shelf, segment).unwrap();
    (books, shelf, table)
}

/// A tensor of as many bytes that may be written.
fn scratch(shelf: &Shelf) -> Tensor<Shelf> {
    Tensor::alloc(shelf, Arc::new(Heap::new()), 8).unwrap()
}

fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("it waits"),
    }
}

#[test]
fn it_is_read_in_every_way() {
    let (books, shelf, table) = table();
    assert!(table.is_read_only());
    assert!(!scratch(&shelf).is_read_only() && !Tensor::<Shelf>::empty().is_read_only());
    let mut bytes = [0; 8];
    table.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, TABLE);
    assert_eq!(*table.lend().unwrap(), TABLE);
    assert_eq!(
        table.lend().unwrap().as_ptr(),
        table.host_ptr().unwrap().as_ptr().cast_const(),
        "in place"
    );

    let second = table.slice(3..).unwrap();
    assert!(second.is_read_only());
    let mut word = [0; 5];
    second.try_read(0, &mut word).unwrap();
    assert_eq!(&word, b"flash");
    let other = scratch(&shelf);
    other.copy_from(&table).unwrap();
    assert_eq!(*other.lend().unwrap(), TABLE);
    Tensor::read_batch(&mut [second.read_op(4, &mut word[..1])]).unwrap();
    assert_eq!(&word, b"hlash");

    // Parts of it are read-only, too.
    let (first, last) = table.split(2).unwrap();
    assert!(first.is_read_only() && last.is_read_only());
    let mut head = [0; 2];
    first.read(0, &mut head).unwrap();
    last.read(4, &mut word[..2]).unwrap();
    assert_eq!((&head, &word[..2]), (b"in", &b"sh"[..]));
    let storage = first.storage_id().unwrap();
    assert_eq!(first.fill(0), Err(TensorError::ReadOnly { storage }));
    drop((first, last, second, table, other));
    assert_eq!((books.blocks(), books.foreign()), (0, 0));
}

/// Everything that writes, on a tensor that is lent, from one that is lent to be written: whoever asked a fence would be told of
/// the guard.
#[test]
fn whatever_would_write_it_is_refused_before_the_fence_is_asked() {
    let (_, shelf, table) = table();
    let stream = Stream::claim().unwrap();
    let source = scratch(&shelf);
    source.write(0, b"RAM bank").unwrap();
    let (id, moment) = (stream.id(), Duration::from_secs(3600));
    let (reading, busy) = (table.lend().unwrap(), source.lend_mut().unwrap());

    let storage = table.storage_id().unwrap();
    let refused = Err(TensorError::ReadOnly { storage });
    let within = || table.within(moment);
    let soon = || table.when_ready();
    assert_eq!(table.write(0, b"RAM"), refused);
    assert_eq!(table.try_write(0, b"RAM"), refused);
    assert_eq!(within().write(0, b"RAM"), refused);
    assert_eq!(ready(soon().write(0, b"RAM")), refused);
    assert_eq!(table.fill(1), refused);
    assert_eq!(table.try_fill(1), refused);
    assert_eq!(within().fill(1), refused);
    assert_eq!(ready(soon().fill(1)), refused);
    assert_eq!(table.copy_from(&source), refused);
    assert_eq!(table.try_copy_from(&source), refused);
    assert_eq!(within().copy_from(&source), refused);
    assert_eq!(ready(soon().copy_from(&source)), refused);
    let inside = (table.slice(..4).unwrap(), table.slice(4..).unwrap());
    assert_eq!(inside.0.copy_from(&inside.1), refused, "in one storage");
    assert_eq!(table.lend_mut().map(drop), refused);
    assert_eq!(table.try_lend_mut().map(drop), refused);
    assert_eq!(within().lend_mut().map(drop), refused);
    assert_eq!(ready(soon().lend_mut()).map(drop), refused);
    let begun = |stream: StreamId| {
        [
            table.begin(Access::Write, stream).map(drop),
            table.try_begin(Access::Write, stream).map(drop),
            within().begin(Access::Write, stream).map(drop),
            ready(soon().begin(Access::Write, stream)).map(drop),
        ]
    };
    assert_eq!(begun(id), [refused; 4]);
    // SAFETY: nothing is written.
    unsafe {
        assert_eq!(table.write_unfenced(0, b"RAM"), refused);
        assert_eq!(table.fill_unfenced(1), refused);
    }

    // Of a batch the operation is named, and those before it have not happened either.
    let other = scratch(&shelf);
    let ops = [other.write_op(0, b"RAM"), table.write_op(0, b"RAM")];
    let named = Err(BatchError::Refused {
        op: 1,
        error: TensorError::ReadOnly { storage },
    });
    assert_eq!(Tensor::write_batch(&ops), named);
    assert_eq!(Tensor::try_write_batch(&ops), named);
    assert_eq!(Tensor::write_batch_within(moment, &ops), named);
    assert_eq!(ready(Tensor::write_batch_when_ready(&ops)), named);
    // SAFETY: nothing is written.
    assert_eq!(unsafe { Tensor::write_batch_unfenced(&ops) }, named);
    let mut bytes = [0; 8];
    other.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [0; 8]);

    let engine = CpuEngine::<Blocking, Tickets<Shelf>>::new(stream);
    let operand = |operand| LaunchError::Operand {
        operand,
        error: TensorError::ReadOnly { storage },
    };
    let uses = [source.input(), table.output()];
    let launched = [
        engine.launch(Command::Copy, &uses).err(),
        engine.try_launch(Command::Copy, &uses).err(),
        engine.launch_within(moment, Command::Copy, &uses).err(),
        ready(engine.launch_when_ready(Command::Copy, &uses)).err(),
    ];
    assert_eq!(launched, [Some(operand(1)); 4]);
    let read_only = CopyFault::Tensor(TensorError::ReadOnly { storage });
    let through = table.copy_through(&source, &other, &engine, &engine);
    assert_eq!(through.unwrap_err().cause, read_only);
    drop((reading, busy));
    let by_way = source.copy_through(&other, &table, &engine, &engine);
    assert_eq!(by_way.unwrap_err().cause, read_only);

    assert_eq!(*table.lend().unwrap(), TABLE);
    assert_eq!(table.in_flight(), (0, 0));
}

/// Two storages are taken in the order of their addresses; who may not write asks for neither.
#[test]
fn a_copy_into_it_waits_for_no_source_on_either_side() {
    type Blocks = StaticPoolSource<Critical, 2048, 1>;
    type Board = Firmware<Critical, Blocks>;
    static BLOCKS: Blocks = StaticPoolSource::new();
    static FLASH: BorrowedShared<'static, Critical> = BorrowedShared::shared(&TABLE);
    static RAM: StaticPool<Critical, 8, 3> = StaticPool::new();
    let board = Board::new(&BLOCKS);
    let ram = || Tensor::alloc(&board, &RAM, 8).unwrap();
    let below = ram();
    let table = Tensor::from_segment(&board, FLASH.lend().unwrap()).unwrap();
    let (above, bounce) = (ram(), ram());
    let ids = [&below, &table, &above].map(|one| one.storage_id().unwrap().get());
    assert!(ids.is_sorted(), "fresh blocks ascend: {ids:?}");

    let engine = CpuEngine::<Critical, Tickets<Board>>::new(Stream::claim().unwrap());
    let storage = table.storage_id().unwrap();
    let error = TensorError::ReadOnly { storage };
    for source in [&below, &above] {
        let _lent = source.lend_mut().unwrap();
        assert_eq!(table.copy_from(source), Err(error));
        let through = table.copy_through(source, &bounce, &engine, &engine);
        assert_eq!(through.unwrap_err().cause, CopyFault::Tensor(error));
    }
}

#[test]
fn a_launch_reads_it() {
    let (_, shelf, table) = table();
    let engine = CpuEngine::<Blocking, Tickets<Shelf>>::new(Stream::claim().unwrap());
    fn upper(operands: &mut [Lent<'_>]) -> Result<(), KernelFault> {
        let [Lent::Read(from), Lent::Write(to)] = operands else {
            return Err(KernelFault::OPERANDS);
        };
        to.copy_from_slice(from);
        to.make_ascii_uppercase();
        Ok(())
    }
    let shout = scratch(&shelf);
    let done = engine.launch(Command::Kernel(upper), &[table.input(), shout.output()]);
    done.unwrap().wait().unwrap();
    assert_eq!(&*shout.lend().unwrap(), b"IN FLASH");
    // Twice at a time, and while the host reads it.
    let tickets = [0; 2].map(|_| table.begin(Access::Read, engine.stream()).unwrap());
    assert_eq!((tickets[1].len(), tickets[1].place()), (8, table.place()));
    assert_eq!(*table.lend().unwrap(), TABLE);
}

#[test]
fn the_segment_comes_back_as_what_it_was() {
    let (books, shelf, table) = table();
    let storage = table.storage_id().unwrap();
    let refused = table.into_segment().unwrap_err();
    assert_eq!(refused.error, TensorError::ReadOnly { storage });
    let table = refused.value;
    let slice = table.slice(3..).unwrap();
    let refused = slice.into_read_only_segment().unwrap_err();
    let shared = TensorError::Held { storage, others: 1 };
    assert_eq!((refused.error, refused.value.len()), (shared, 5));
    drop(table);
    let segment = refused.value.into_read_only_segment().unwrap();
    assert_eq!((segment.host().unwrap(), books.blocks()), (&TABLE[..], 0));

    let other = scratch(&shelf);
    let storage = other.storage_id().unwrap();
    let refused = other.into_read_only_segment().unwrap_err();
    assert_eq!(refused.error, TensorError::NotReadOnly { storage });
    assert_eq!(
        refused.value.into_segment().unwrap().host().unwrap(),
        [0; 8]
    );
}

#[test]
fn attached_it_replaces_what_was_written_and_a_refusal_gives_it_back() {
    type Owners = OwnerBackend<Vec<u8>, Unsync, HeapSource, ReadOnly>;
    type Owned = Parts<Owners, Arc<Books>>;
    let books = Arc::<Books>::default();
    let target = Owned::new(books.clone());
    let adopt = || {
        let adopted = Owners::new(HeapSource).adopt_shared(vec![7; 4]);
        adopted.ok().unwrap()
    };
    let mut tensor = Tensor::empty();
    books.refuse_nth(1);
    let refused = tensor.attach(&target, adopt()).unwrap_err();
    assert!(matches!(refused.error, TensorError::Alloc(_)));
    // It is read-only still: nothing else would compile here.
    let segment: SegmentMut<Owners, ReadOnly> = refused.value;
    assert_eq!(&*segment, [7; 4]);
    assert!(tensor.is_empty() && books.blocks() == 0);

    tensor.attach(&target, segment).unwrap();
    assert!(tensor.is_read_only());
    books.refuse_nth(1);
    let refused = Tensor::from_segment(&target, adopt()).unwrap_err();
    assert!(matches!(refused.error, TensorError::Alloc(_)));
    assert_eq!(&*refused.value, [7; 4]);
    // A part has no block to be had.
    books.refuse_nth(2);
    assert!(matches!(tensor.split(1), Err(TensorError::Alloc(_))));
    assert_eq!(&*tensor.into_read_only_segment().unwrap(), [7; 4]);
    assert_eq!((books.blocks(), books.foreign()), (0, 0));
}

#[test]
fn a_firmware_has_its_weights_in_a_static() {
    type Blocks = StaticPoolSource<Critical, 1024, 2>;
    type Board = Firmware<Critical, Blocks>;
    static BLOCKS: Blocks = StaticPoolSource::new();
    static WEIGHTS: [u8; 4] = [1, 2, 3, 4];
    static FLASH: BorrowedShared<'static, Critical> = BorrowedShared::shared(&WEIGHTS);
    static RAM: StaticPool<Critical, 64, 1> = StaticPool::new();
    let board = Board::new(&BLOCKS);
    let weights = Tensor::from_segment(&board, FLASH.lend().unwrap()).unwrap();
    assert!(FLASH.lend().is_err(), "it is out once");
    let sums = Tensor::alloc(&board, &RAM, 4).unwrap();
    // When all control blocks are taken, the segment comes back.
    static MORE: BorrowedShared<'static, Critical> = BorrowedShared::shared(b"more");
    let mut others = Vec::new();
    while let Ok(other) = Tensor::placeholder(&board, 0) {
        others.push(other);
    }
    let refused = Tensor::from_segment(&board, MORE.lend().unwrap()).unwrap_err();
    assert!(matches!(refused.error, TensorError::Alloc(_)));
    drop(refused);
    assert!(MORE.lend().is_ok());
    sums.copy_from(&weights).unwrap();
    assert_eq!(*sums.lend().unwrap(), WEIGHTS);
    let storage = weights.storage_id().unwrap();
    assert_eq!(
        weights.copy_from(&sums),
        Err(TensorError::ReadOnly { storage })
    );
    drop(weights.into_read_only_segment().unwrap());
    assert!(FLASH.lend().is_ok(), "and goes back");
}

/// What may be written is as it ever was.
#[test]
fn the_states_do_not_mix() {
    type OnHeap = Parts<Heap<Unsync>, HeapSource>;
    let target = OnHeap::new(HeapSource);
    let segment: SegmentMut<Heap<Unsync>, Init> = SegmentMut::alloc(Heap::new(), 2)
        .unwrap()
        .filled(9)
        .unwrap();
    let tensor = Tensor::from_segment(&target, segment).unwrap();
    tensor.write(0, &[8]).unwrap();
    let segment: SegmentMut<Heap<Unsync>, Init> = tensor.into_segment().unwrap();
    assert_eq!(*segment, [8, 9]);
}
