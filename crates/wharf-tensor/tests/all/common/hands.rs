//! A clock that a test moves by hand: a second passes whenever somebody idles, and then something may happen.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use wharf_sync::Clock;

/// What happens, and at which second.
type Step = (u64, Box<dyn FnOnce()>);

thread_local! {
    static NOW: Cell<u64> = const { Cell::new(0) };
    static LOOK: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
    static SCRIPT: RefCell<Vec<Step>> = const { RefCell::new(Vec::new()) };
}

/// The clock of the thread.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hands;

impl Hands {
    /// It is `now`, and nothing will happen.
    pub(crate) fn set(now: u64) {
        NOW.set(now);
        SCRIPT.take();
        LOOK.take();
    }
    /// Something happens while somebody looks at the clock, the next time.
    pub(crate) fn on_look(step: impl FnOnce() + 'static) {
        LOOK.set(Some(Box::new(step)));
    }
    /// At second `when` something happens, if somebody waits until then.
    pub(crate) fn at(when: u64, step: impl FnOnce() + 'static) {
        SCRIPT.with_borrow_mut(|script| script.push((when, Box::new(step))));
    }
    pub(crate) fn read() -> u64 {
        NOW.get()
    }
}

impl Clock for Hands {
    fn now(&self) -> Duration {
        if let Some(step) = LOOK.take() {
            step();
        }
        Duration::from_secs(NOW.get())
    }
    fn idle(&self) {
        let now = NOW.get() + 1;
        assert!(now < 1_000_000, "a wait that does not end");
        NOW.set(now);
        let due: Vec<_> = SCRIPT
            .with_borrow_mut(|script| script.extract_if(.., |(when, _)| *when == now).collect());
        for (_, step) in due {
            step();
        }
    }
}
