//! Pitfall: a segment is written while the engine still transfers it.
//! Instead: take it back from the completion (`poll`) first. Tensors keep the handle, and wait by themselves.

use wharf::engine::{Descriptor, Operand};
use wharf::prelude::*;

type Frame<'b> = SegmentMut<&'b StaticPool<Unsync, 64, 4>>;

fn clear<'b>(engine: &CpuEngine<Unsync, Frame<'b>>, mut frame: Frame<'b>) {
    let operand = Operand::write(frame.place(), frame.len());
    let clear = Descriptor::new(Command::Fill(0), &[operand]).unwrap();
    // SAFETY: the operand is the cargo, out of anybody's reach until it lands.
    let _ = unsafe { engine.submit(clear, frame) };
    frame[0] = 1;
}

fn main() {
    let _ = clear;
}
