//! What the fence costs: reading and writing a tensor in host memory, beside the bare copy.

use std::hint::black_box;

use wharf_backend::Heap;
use wharf_source::HeapSource;
use wharf_sync::{Spin, SyncPolicy, Unsync};
use wharf_tensor::{Parts, Tensor};

use crate::alone::hold;
use crate::contest::{Case, medians, progress};
use crate::table::{Goal, Row};

/// What the design allows a fenced copy beyond the bare one, in nanoseconds.
const FENCE: f64 = 8.0;
/// How much of the bandwidth of the bare copy a fenced one is to have.
const BANDWIDTH: f64 = 0.95;

const SMALL: usize = 64;
const LARGE: usize = 1 << 20;

type Sketch<P> = Parts<Heap<P>, HeapSource>;

fn tensor<P: SyncPolicy>(len: usize) -> Tensor<Sketch<P>> {
    let target = Sketch::<P>::new(HeapSource);
    Tensor::alloc(&target, Heap::new(), len).expect("memory")
}

fn writes<P: SyncPolicy>(tensor: &Tensor<Sketch<P>>, bytes: &[u8], times: u64) {
    let (tensor, bytes) = (black_box(tensor), black_box(bytes));
    for _ in 0..times {
        hold(tensor.write(0, bytes));
    }
}

fn reads<P: SyncPolicy>(tensor: &Tensor<Sketch<P>>, bytes: &mut [u8], times: u64) {
    let tensor = black_box(tensor);
    for _ in 0..times {
        hold(tensor.read(0, black_box(&mut *bytes)));
    }
}

fn copies(to: &mut [u8], from: &[u8], times: u64) {
    let from = black_box(from);
    for _ in 0..times {
        black_box(&mut *to).copy_from_slice(from);
    }
}

/// One way of one size: the fenced copy beside the bare one.
fn contest(rows: &mut Vec<Row>, name: String, fenced: Case<'_>, bare: Case<'_>, len: usize) {
    progress(&name);
    let (nanoseconds, ratios) = medians(&[fenced, bare]);
    let over = nanoseconds[0] - nanoseconds[1];
    let (ratio, goal, note) = if len == SMALL {
        let goal = Goal::Over(over, FENCE);
        (ratios[1], goal, format!("{:.2} ns", nanoseconds[1]))
    } else {
        // Of throughputs, so the other way up.
        let goal = Goal::AtLeast(BANDWIDTH);
        (1.0 / ratios[1], goal, format!("{:.0} ns", nanoseconds[1]))
    };
    rows.push(Row {
        name,
        nanoseconds: Some(nanoseconds[0]),
        beside: "memcpy",
        ratio: Some(ratio),
        goal,
        note,
    });
}

fn of<P: SyncPolicy>(rows: &mut Vec<Row>) {
    for (len, size) in [(SMALL, "64 B"), (LARGE, "1 MiB")] {
        // Each side its own bytes: of one size, and as warm.
        let (written, read) = (tensor::<P>(len), tensor::<P>(len));
        let (from, mut to) = (vec![1; len], vec![2; len]);
        let (plain_from, mut plain_to) = (vec![3; len], vec![4; len]);
        let policy = P::NAME;
        let cell = std::cell::RefCell::new(&mut plain_to);
        let bare: Case<'_> = &|times| copies(&mut cell.borrow_mut(), &plain_from, times);
        let fenced: Case<'_> = &|times| writes(&written, &from, times);
        contest(
            rows,
            format!("tensor write {size}, {policy}"),
            fenced,
            bare,
            len,
        );
        let into = std::cell::RefCell::new(&mut to);
        let fenced: Case<'_> = &|times| reads(&read, &mut into.borrow_mut(), times);
        contest(
            rows,
            format!("tensor read {size}, {policy}"),
            fenced,
            bare,
            len,
        );
    }
}

pub(crate) fn measure(rows: &mut Vec<Row>) {
    of::<Unsync>(rows);
    of::<Spin>(rows);
}
