//! The floor of a pool that threads share: the bare list behind a spin lock, the one that `Spin` uses.
#![allow(unsafe_code, reason = "a floor is what unchecked code would cost")]

use spin::mutex::SpinMutex;

use crate::Lifo;

/// A [`Lifo`] behind a spin lock.
#[derive(Debug, Default)]
pub struct SpinLifo<const PAYLOAD: usize, const SLOTS: usize>(SpinMutex<Lifo<PAYLOAD, SLOTS>>);

/// A slot: its number, and the pool.
#[derive(Debug)]
pub struct SpinHandle<'p, const PAYLOAD: usize, const SLOTS: usize> {
    slot: usize,
    pool: &'p SpinLifo<PAYLOAD, SLOTS>,
}

impl<const PAYLOAD: usize, const SLOTS: usize> SpinLifo<PAYLOAD, SLOTS> {
    /// The next slot.
    #[inline]
    pub fn alloc(&self) -> Option<SpinHandle<'_, PAYLOAD, SLOTS>> {
        let slot = self.0.lock().take()?;
        Some(SpinHandle { slot, pool: self })
    }
}

impl<const PAYLOAD: usize, const SLOTS: usize> Drop for SpinHandle<'_, PAYLOAD, SLOTS> {
    #[inline]
    fn drop(&mut self) {
        let list = self.pool.0.lock();
        // SAFETY: from `alloc`, and put back here alone.
        unsafe { list.put(self.slot) };
    }
}
