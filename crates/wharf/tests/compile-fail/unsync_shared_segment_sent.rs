//! Pitfall: a clone of an `Unsync` segment goes to another thread, and both count in one cell.
//! Instead: name a shared policy where the backend is named: `Critical` or `Blocking`.

use wharf::prelude::*;

fn to_another_thread<T: Send>(_: T) {}

fn main() {
    let text = SegmentMut::alloc(Heap::<Unsync>::new(), 4).unwrap();
    let text = Segment::from(text.filled(0).unwrap());
    to_another_thread(text.clone());
}
