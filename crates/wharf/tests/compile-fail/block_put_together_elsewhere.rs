//! Pitfall: a block that was taken apart is put together with another source, which would release it.
//! Instead: drop the `Block`; after `into_raw`, give `from_raw` the handle that came with the parts.

use core::alloc::Layout;
use core::mem::MaybeUninit;
use wharf::source::{Block, BumpSource};

fn main() {
    let (mut one, mut other) = ([MaybeUninit::uninit(); 64], [MaybeUninit::uninit(); 64]);
    let (one, other) = (BumpSource::new(&mut one), BumpSource::new(&mut other));
    let (address, layout, _) = Block::new(&one, Layout::new::<u64>()).unwrap().into_raw();
    drop(Block::from_raw(address, layout, &other));
}
