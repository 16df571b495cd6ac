//! Beside `segment_outlives_*`, `borrowed_segment_stored`, `slab_touched_while_lent`, `rope_outlives_source`, `erased_into_owner`, `not_a_*`: the
//! backend is dropped last, lives in a `static`, or is counted.

use core::mem::MaybeUninit;
use std::sync::Arc;
use wharf::prelude::*;
use wharf::source::Owned;

use critical_section as _;

type Pool = StaticPool<Critical, 64, 4>;
type Shared = Arc<dyn MemBackend<Policy = Blocking> + Send + Sync>;

static POOL: Pool = Pool::new();

struct Inbox(Vec<Segment<&'static Pool>>);

fn receive(inbox: &mut Inbox) {
    let frame = POOL.alloc(8).unwrap().filled(7).unwrap();
    inbox.0.push(Segment::from(frame));
}

fn counted() -> SegmentMut<Shared> {
    let pool = Arc::new(StaticPool::<Blocking, 64, 4>::new());
    let frame = SegmentMut::alloc(Arc::clone(&pool), 8).unwrap();
    frame.filled(7).unwrap().erase::<Shared>()
}

fn main() {
    let mut slab = vec![MaybeUninit::uninit(); 256];
    let mut control = [const { SlotControl::NEW }; 4];
    let pool = PoolBackend::<Unsync>::new(&mut slab, &mut control, 64, 8).unwrap();
    let frame = pool.alloc(8).unwrap();
    drop(frame);
    drop(pool);
    slab[0].write(7);
    drop(slab);

    let mut inbox = Inbox(Vec::new());
    receive(&mut inbox);
    assert_eq!(inbox.0[0][7], 7);

    assert_eq!(counted().host().unwrap()[7], 7);

    let pool = StaticPoolSource::<Unsync, 256, 2>::new();
    assert_eq!(*Owned::new(&pool, 7_u32).unwrap(), 7);

    let mut frame = Rope::with_source(&pool);
    frame
        .push(POOL.alloc(1).unwrap().filled(7).unwrap())
        .unwrap();
    assert_eq!(frame, [7]);
    drop(frame);
    drop(pool);
}
