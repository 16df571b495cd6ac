//! Segments that become shorter than they were asked for.

use wharf_backend::{BackendRef, HostBackend, MemBackend, SegmentMut, Shortens, TransferError};

use crate::check::{Demand, ensure, equal, refused};
use crate::view::{in_use, settles};
use crate::{Check, Failure, Outcome, Report, Tally, run};
use wharf_segment::Segment;

use crate::writer::subject;

/// Holds a backend whose segments may become shorter to what [`Shortens`] promises. It must vend a segment of 16 bytes; all that it
/// vends at a time is held, as long as that is fewer than 64 segments. Nobody else uses it meanwhile.
///
/// ```
/// use wharf_backend::StaticPool;
/// use wharf_conformance::shortens;
/// use wharf_sync::Unsync;
///
/// let mine = StaticPool::<Unsync, 16, 3>::new();
/// assert!(shortens("mine", &mine, &mut ()).is_clean());
/// ```
pub fn shortens<R>(name: &'static str, backend: R, report: &mut dyn Report) -> Tally
where
    R: BackendRef + Clone,
    R::Backend: HostBackend + Shortens,
{
    run(subject::<R>("shortens", name), &backend, &checks(), report)
}

fn checks<R>() -> [Check<R>; 4]
where
    R: BackendRef + Clone,
    R::Backend: HostBackend + Shortens,
{
    [
        Check {
            name: "a segment gives up its end",
            run: |backend| settles(backend, shorter),
        },
        Check {
            name: "it does not become longer",
            run: |backend| settles(backend, longer),
        },
        Check {
            name: "what was given up is there for the next one",
            run: |backend| settles(backend, whole_again),
        },
        Check {
            name: "a writer ends where it has come to",
            run: |backend| settles(backend, finished),
        },
    ]
}

const LEN: usize = 16;
const BYTES: [u8; LEN] = *b"frames are short";

fn segment<R: BackendRef + Clone>(backend: &R) -> Result<SegmentMut<R>, Failure> {
    crate::view::segment(backend, &BYTES)
}

/// It is the first so many bytes.
#[inline(never)]
fn shows<R: BackendRef>(segment: &SegmentMut<R>, len: usize) -> Result<(), Failure> {
    equal("its length", segment.len(), len)?;
    for (at, &expected) in BYTES.iter().take(len).enumerate() {
        let mut byte = [!expected];
        segment.read(at, &mut byte).demand("a read")?;
        let [found] = byte;
        equal("a byte of it", found, expected)?;
    }
    let beyond = TransferError::OutOfBounds {
        offset: len,
        len: 1,
        size: len,
    };
    refused("a read beyond it", segment.read(len, &mut [0]), beyond)
}

fn shorter<R>(backend: &R) -> Outcome
where
    R: BackendRef + Clone,
    R::Backend: Shortens,
{
    let mut segment = segment(backend)?;
    let (place, during) = (segment.place(), in_use(backend));
    for len in [LEN, LEN - 1, 6, 6, 1, 0, 0] {
        segment.truncate(len).demand("a shorter one")?;
        shows(&segment, len)?;
        ensure(segment.place() == place, "it is where it was")?;
        equal("units in use: all of them still", in_use(backend), during)?;
    }
    drop(segment);
    // As what it has become it is shared, and thawed.
    let mut segment = self::segment(backend)?;
    segment.truncate(6).demand("a shorter one")?;
    let shared = Segment::from(segment);
    equal("the length of a shared one", shared.len(), 6)?;
    let clone = shared.clone();
    drop(shared);
    let segment = clone.try_mut().ok().demand("the only holder")?;
    shows(&segment, 6)?;
    Ok(())
}

fn longer<R>(backend: &R) -> Outcome
where
    R: BackendRef + Clone,
    R::Backend: Shortens,
{
    let mut segment = segment(backend)?;
    for size in [LEN, 6, 0] {
        segment.truncate(size).demand("a shorter one")?;
        for len in [size + 1, LEN + 1, isize::MAX.unsigned_abs(), usize::MAX] {
            let error = TransferError::OutOfBounds {
                offset: 0,
                len,
                size,
            };
            refused("a longer one", segment.truncate(len), error)?;
        }
        shows(&segment, size)?;
    }
    Ok(())
}

/// All that there are at a time, but some.
const MOST: usize = 64;

fn whole_again<R>(backend: &R) -> Outcome
where
    R: BackendRef + Clone,
    R::Backend: Shortens,
{
    let before = backend.backend().census();
    let mut most = None;
    // The last round finds what the ones before have left.
    for keeps in [0, 1, LEN / 2, LEN] {
        let mut held = [const { None }; MOST];
        let mut count = 0_usize;
        for place in &mut held {
            let Ok(fresh) = SegmentMut::alloc(backend.clone(), LEN) else {
                break;
            };
            *place = Some(fresh.init_from(&BYTES).demand("all its bytes")?);
            count = count.saturating_add(1);
        }
        ensure(count > 0, "there is one")?;
        equal("segments at a time", count, *most.get_or_insert(count))?;
        for segment in held.iter_mut().flatten() {
            // Nobody's bytes have come to be another one's.
            shows(segment, LEN)?;
            segment.truncate(keeps).demand("a shorter one")?;
        }
        for segment in held.iter().flatten() {
            shows(segment, keeps)?;
        }
        drop(held);
        let after = backend.backend().census();
        equal("units in use", after.in_use, before.in_use)?;
        equal("the capacity", after.capacity, before.capacity)?;
    }
    Ok(())
}

fn finished<R>(backend: &R) -> Outcome
where
    R: BackendRef + Clone,
    R::Backend: HostBackend + Shortens,
{
    for len in [0, 1, 6, LEN] {
        let fresh = SegmentMut::alloc(backend.clone(), LEN).demand("a segment")?;
        let mut writer = fresh.writer();
        let during = in_use(backend);
        let some = BYTES.get(..len).unwrap_or_default();
        writer.append(some).ok().demand("room for them")?;
        let segment = writer.finish();
        shows(&segment, len)?;
        equal("units in use: all of them still", in_use(backend), during)?;
    }
    // All of it is there for the next one.
    let next = segment(backend)?;
    shows(&next, LEN)?;
    Ok(())
}
