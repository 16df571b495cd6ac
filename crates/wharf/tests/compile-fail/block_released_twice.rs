//! Pitfall: a block is released twice.
//! Instead: nothing: it is released once, when its owner goes.

use core::alloc::Layout;
use wharf::prelude::*;
use wharf::source::Block;

fn main() {
    let block = Block::new(HeapSource, Layout::new::<u64>()).unwrap();
    drop(block);
    drop(block);
}
