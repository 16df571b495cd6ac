//! Pitfall: a block is released by hand: with another layout, or to another source than it came from.
//! Instead: drop the `Block`, which knows both. After `into_raw`, put it together again with `from_raw`.

use core::alloc::Layout;
use wharf::prelude::*;
use wharf::source::{Block, BlockSource};

fn main() {
    let block = Block::new(HeapSource, Layout::new::<u64>()).unwrap();
    HeapSource.release(block.as_ptr(), Layout::new::<u32>());
}
