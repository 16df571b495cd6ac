//! Pools: blocks carved from a slab once, then recycled by shape.

mod borrowed;
mod classes;
mod fixed;
mod front;
mod shape;
mod state;

pub use borrowed::PoolSource;
pub use classes::SizeClass;
pub use fixed::{StaticPoolSource, StaticPoolState};
