//! A growable array in a block.

mod claim;
mod elements;
mod into_iter;
mod memory;
mod views;

pub use self::claim::ArraySlot;
pub use self::elements::{BlockArray, InsertError};
pub use self::into_iter::ArrayIntoIter;
