//! A policy whose contexts a test names, so that one thread can be several.

use core::cell::Cell;
use core::marker::PhantomData;

use wharf_sync::{SyncPolicy, Who};

thread_local!(static POST: Cell<usize> = const { Cell::new(0) });

/// As `P`, except that [`stand_at`] says who one is.
pub(crate) struct Posted<P>(PhantomData<P>);

// SAFETY: all that is shared is shared as under `P`.
unsafe impl<P: SyncPolicy> SyncPolicy for Posted<P> {
    type Lock<T> = P::Lock<T>;
    type Count = P::Count;
    type Word = P::Word;
    type Event = P::Event;
    const NAME: &'static str = P::NAME;
    const ISR_SAFE: bool = P::ISR_SAFE;
    const NONBLOCKING: bool = P::NONBLOCKING;

    fn who() -> Who {
        Who::new(POST.get())
    }
}

/// From here on the calling thread is context `who`.
pub(crate) fn stand_at(who: usize) {
    POST.set(who);
}
