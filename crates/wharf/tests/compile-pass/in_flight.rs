//! Beside `segment_touched_in_flight`, `rope_changed_in_flight`, `cargo_borrows_stack`, `tensor_borrows_stack`, `kernel_captures`,
//! `engine_without_tickets`: the cargo comes back with the completion, and what flies lives long enough.

use core::task::Poll;
use wharf::engine::{Descriptor, Operand};
use wharf::prelude::*;

use critical_section as _;

static POOL: StaticPool<Critical, 64, 4> = StaticPool::new();
type Frame = SegmentMut<&'static StaticPool<Critical, 64, 4>>;
type Board = Parts<&'static StaticPool<Critical, 64, 4>, HeapSource>;

fn clear(engine: &CpuEngine<Critical, Frame>, frame: Frame) {
    let operand = Operand::write(frame.place(), frame.len());
    let clear = Descriptor::new(Command::Fill(0), &[operand]).unwrap();
    // SAFETY: the operand is the cargo, out of anybody's reach until it lands.
    let sequence = unsafe { engine.submit(clear, frame) }.unwrap();
    let Poll::Ready(Some(Ok(mut frame))) = engine.poll(sequence, None) else {
        panic!("it runs inline");
    };
    frame[0] = 1;
    assert_eq!(frame[..2], [1, 0]);
}

fn send(bytes: &[u8]) {
    let mut frame = Rope::new();
    let unique = POOL.alloc(bytes.len()).unwrap().init_from(bytes).unwrap();
    frame.push(unique).unwrap();
    let flight = frame.clone().hand_over();
    frame.truncate(1).unwrap();
    assert!(flight.places().map(|(_, len)| len).eq([bytes.len()]));
    flight.land().clear();
    assert_eq!(frame, bytes[..1]);
}

/// The factor is an operand.
fn scale(operands: &mut [Lent<'_>]) -> Result<(), KernelFault> {
    let [Lent::Read([factor]), Lent::Write(bytes)] = operands else {
        return Err(KernelFault(1));
    };
    bytes.iter_mut().for_each(|byte| *byte *= *factor);
    Ok(())
}

fn main() {
    send(b"bytes");
    let engine = CpuEngine::new(Stream::claim().unwrap());
    clear(&engine, POOL.alloc(8).unwrap().filled(7).unwrap());

    let engine = CpuEngine::<Critical, Tickets<Board>>::new(Stream::claim().unwrap());
    let target = Board::new(HeapSource);
    let factor = Tensor::alloc(&target, &POOL, 1).unwrap();
    let bytes = Tensor::alloc(&target, &POOL, 2).unwrap();
    factor.fill(3).unwrap();
    bytes.write(0, &[1, 2]).unwrap();
    let operands = [factor.input(), bytes.output()];
    engine
        .launch(Command::Kernel(scale), &operands)
        .unwrap()
        .wait()
        .unwrap();
    assert_eq!(bytes.lend().unwrap()[..], [3, 6]);
}
