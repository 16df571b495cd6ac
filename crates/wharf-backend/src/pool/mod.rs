//! Fixed slots over a slab: the bounded, deterministic backend.
//!
//! Control and slab are separate objects. The control block (a lock around a [`FreeList`], and one
//! [`Header`](crate::Header) per slot) is all zero bytes to begin with and links by index, so it lies in `.bss` and may move
//! before use. The slab is bytes without any structure, in any section; no header shares a cache line with a payload.
//!
//! Its census counts slots: `unit` is the bytes from one payload to the next, `peak` the slots that were ever carved, `refused`
//! both what was too large and what found no slot, `dropped` nothing.
//!
//! Fresh slots come in ascending order, recycled ones last-in first-out. Both take constant time without division.

mod borrowed;
mod core;
mod free_list;
mod inline;
mod sharded;

pub use borrowed::{PoolBackend, PoolError, SlotControl};
pub use free_list::FreeList;
pub use inline::StaticPool;
pub use sharded::ShardedPool;

/// What every pool is. Whether it may be used in an interrupt is the policy's fact: see [`wharf_sync::IsrSafe`].
const fn caps<P: wharf_sync::SyncPolicy>() -> crate::Caps {
    use crate::Caps;
    let mut caps = Caps::OWNS_BYTES.union(Caps::PLAIN_COPIES);
    if P::NONBLOCKING {
        caps = caps.union(Caps::NONBLOCKING);
    }
    if P::ISR_SAFE {
        caps = caps.union(Caps::ISR_SAFE);
    }
    caps
}
