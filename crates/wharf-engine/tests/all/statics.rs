//! Engines and queues that exist before the program runs: constants, without a byte that is not zero.
#![cfg(all(feature = "std", feature = "critical-section"))]

use std::mem::{MaybeUninit, size_of};
use std::task::Poll;

use wharf_engine::{
    Cargo, Command, Descriptor, DescriptorQueue, Engine, Fault, StaticCpuEngine, Stream,
    StreamCell, TooManyStreams,
};
use wharf_sync::{Blocking, Critical, Unsync};

/// A cargo with niches at both ends: the layout must not put what is empty into one of them.
#[derive(Debug, PartialEq, Eq)]
struct Niches(bool, &'static u8, core::num::NonZeroU32, Option<bool>);
impl Cargo for Niches {}

static QUEUE: DescriptorQueue<Critical, Niches, 3> = DescriptorQueue::empty();
static BLOCKING: DescriptorQueue<Blocking, Niches, 3> = DescriptorQueue::empty();
static ENGINE: StaticCpuEngine<Critical, (), 2> = StaticCpuEngine::new();

/// Whether a `static` with this value is all zero bytes in the image, and so lies in `.bss`.
macro_rules! no_bits {
    ($value:expr, $ty:ty) => {{
        const VALUE: MaybeUninit<$ty> = MaybeUninit::new($value);
        static PLACE: Shared<MaybeUninit<$ty>> = Shared(VALUE);
        let base = core::ptr::from_ref(&PLACE.0).cast::<u8>();
        (0..size_of::<$ty>()).all(|at| {
            // SAFETY: inside of the static, whose bytes in the image all have a value, those of its padding too; volatile, so
            // that it is the image that answers.
            unsafe { base.add(at).read_volatile() == 0 }
        })
    }};
}

struct Shared<T>(T);
// SAFETY: read only, as bytes.
unsafe impl<T> Sync for Shared<T> {}

#[test]
#[cfg_attr(miri, ignore = "reads padding, of which only an image knows the value")]
fn a_static_queue_or_engine_is_all_zero_bytes() {
    assert!(no_bits!(
        DescriptorQueue::empty(),
        DescriptorQueue<Critical, Niches, 3>
    ));
    assert!(no_bits!(
        DescriptorQueue::empty(),
        DescriptorQueue<Unsync, Niches, 3>
    ));
    assert!(no_bits!(
        DescriptorQueue::empty(),
        DescriptorQueue<Blocking, Niches, 3>
    ));
    assert!(no_bits!(
        StaticCpuEngine::new(),
        StaticCpuEngine<Critical, Niches, 3>
    ));
    // The test would see one.
    assert!(!no_bits!(true, bool));
}

#[test]
fn a_static_queue_works() {
    static BYTE: u8 = 3;
    let cargo = || Niches(true, &BYTE, 1.try_into().unwrap(), Some(true));
    let nothing = || Descriptor::new(Command::Kernel(|_| Ok(())), &[]).unwrap();
    let first = QUEUE.push(nothing(), cargo()).unwrap();
    QUEUE.next().unwrap().finish(Ok(()));
    assert_eq!(QUEUE.poll(first, None), Poll::Ready(Some(Ok(cargo()))));
    let second = BLOCKING.push(nothing(), cargo()).unwrap();
    BLOCKING.abort(second);
    let Poll::Ready(Some(Err(aborted))) = BLOCKING.poll(second, None) else {
        panic!("aborted, so it is over");
    };
    assert_eq!((aborted.error, aborted.value), (Fault::Aborted, cargo()));
}

#[test]
fn a_static_engine_claims_one_stream_when_it_is_asked_for() {
    let engine = ENGINE.get().unwrap();
    let descriptor = Descriptor::new(Command::Kernel(|_| Ok(())), &[]).unwrap();
    // SAFETY: without operands there is nothing to keep.
    let sequence = unsafe { engine.submit(descriptor, ()) }.unwrap();
    assert_eq!(engine.poll(sequence, None), Poll::Ready(Some(Ok(()))));
    // From every thread the same, and nobody else gets it.
    let ids: Vec<_> = std::thread::scope(|scope| {
        let threads = [(); 4].map(|()| scope.spawn(|| ENGINE.get().unwrap().stream()));
        threads.map(|thread| thread.join().unwrap()).into()
    });
    assert_eq!(ids, [engine.stream(); 4]);
    assert_ne!(Stream::claim().unwrap().id(), engine.stream());
}

#[test]
fn a_cell_keeps_the_first_stream_and_gives_it_back() {
    let cell = StreamCell::<Blocking>::empty();
    assert_eq!(cell.get(), None);
    // SAFETY: numbers this high are claimed by nobody in this program.
    let assume = |number| unsafe { Stream::assume(number) }.unwrap();
    assert_eq!(cell.put(assume(62)).get(), 62);
    assert_eq!(cell.put(assume(63)).get(), 62, "the first one stays");
    assert_eq!(cell.claim().unwrap().get(), 62);
    assert_eq!(format!("{cell:?}"), "StreamCell(Some(StreamId(62)))");
    drop(cell);
    let engine = StaticCpuEngine::<Blocking, (), 1>::new();
    assert_eq!(engine.get_as(assume(61)).stream().get(), 61);
    assert_eq!(engine.get().unwrap().stream().get(), 61);
}

#[test]
fn a_claimed_stream_in_a_cell_comes_back_when_the_cell_goes() {
    // More often than there are streams.
    for _ in 0..100 {
        let engine = StaticCpuEngine::<Unsync, (), 1>::new();
        engine.get().unwrap();
        let cell = StreamCell::<Unsync>::holding(Stream::claim().unwrap());
        assert_eq!(cell.claim(), Ok(cell.get().unwrap()));
        // One too many comes back at once.
        cell.put(Stream::claim().unwrap());
    }
}

#[test]
fn an_assumed_stream_in_a_cell_is_not_the_registry_s_to_have_back() {
    let claimed = Stream::claim().unwrap();
    let number = claimed.id();
    // Nobody has it any more, and the registry does not know.
    core::mem::forget(claimed);
    let cell = StreamCell::<Unsync>::empty();
    // SAFETY: the one with this number was forgotten just now.
    cell.put(unsafe { Stream::assume(number.get()) }.unwrap());
    assert_eq!(cell.get(), Some(number));
    drop(cell);
    // The lowest free one comes first, so it would be among these.
    let next = [(); 4].map(|()| Stream::claim().unwrap());
    assert!(next.iter().all(|stream| stream.id() != number));
}

#[test]
fn numbers_that_are_no_stream_s_are_refused() {
    for number in [0, 64, u8::MAX] {
        // SAFETY: it is none.
        let error = unsafe { Stream::assume(number) }.unwrap_err();
        assert_eq!(error, TooManyStreams);
    }
    assert_eq!(
        TooManyStreams.to_string(),
        "a program has streams 1 to 63, and no more"
    );
}
