//! Pitfall: a transfer that outlives the call is given memory of the calling function.
//! Instead: memory in a `static`, behind an `Arc`, or on the heap.

use wharf::engine::{Descriptor, Operand};
use wharf::prelude::*;
use wharf_softdma::{Config, SoftDma};

type Pool = StaticPool<Blocking, 64, 4>;

fn main() {
    let pool = Pool::new();
    let device = SoftDma::<SegmentMut<&Pool>>::open(Config::new(4096)).unwrap();
    let frame = pool.alloc(8).unwrap().filled(0).unwrap();
    let operand = Operand::write(frame.place(), frame.len());
    let clear = Descriptor::new(Command::Fill(0), &[operand]).unwrap();
    // SAFETY: the operand is the cargo, out of anybody's reach until it lands.
    let _ = unsafe { device.submit(clear, frame) };
}
