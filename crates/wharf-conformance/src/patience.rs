//! Waiting for what others do, and not for ever.

use core::time::Duration;

use wharf_sync::{Clock, Event, Wake};

use crate::Failure;

/// Turns of the idle hook, where nothing better can be waited for.
const TURNS: u32 = 100_000;

/// Waits until `test` has an answer: on `event`, where what is waited for runs `apart`; otherwise the clock's idle hook is run.
pub(crate) fn wait_for<E: Event, K: Clock + ?Sized, T>(
    event: &E,
    clock: &K,
    apart: bool,
    mut test: impl FnMut() -> Option<T>,
) -> Result<T, Failure> {
    let deadline = clock.now().saturating_add(Duration::from_secs(10));
    let mut turns = 0;
    loop {
        let seen = event.epoch();
        if let Some(answer) = test() {
            return Ok(answer);
        }
        // What runs on our context only would be waited for in vain.
        let wake = if apart {
            event.wait(seen, clock, Some(deadline))
        } else {
            Wake::Never
        };
        match wake {
            Wake::Notified => {}
            Wake::Never if turns < TURNS => {
                turns += 1;
                clock.idle();
            }
            Wake::Never | Wake::TimedOut => {
                return Err(Failure::new("what is waited for happens"));
            }
        }
    }
}
