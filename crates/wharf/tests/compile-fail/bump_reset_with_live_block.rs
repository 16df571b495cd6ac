//! Pitfall: a bump source is reset while a block of it is still used.
//! Instead: drop what was carved first; a block that must outlive the round comes from elsewhere.

use core::alloc::Layout;
use core::mem::MaybeUninit;
use wharf::source::{Block, BumpSource};

fn main() {
    let mut scratch = [MaybeUninit::uninit(); 64];
    let mut source = BumpSource::new(&mut scratch);
    let block = Block::new(&source, Layout::new::<u64>()).unwrap();
    source.reset();
    drop(block);
}
