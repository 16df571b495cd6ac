//! Clocks, identities and names.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use wharf_sync::{Clock, ConstInit, Event, NoClock, SyncPolicy, Turn, Unsync, UnsyncEvent, Who};

/// A clock that counts what it is asked.
#[derive(Default)]
struct Asked {
    time: AtomicU64,
    idled: AtomicU64,
}

impl Clock for Asked {
    fn now(&self) -> Duration {
        Duration::from_millis(self.time.fetch_add(1, Relaxed) + 1)
    }
    fn idle(&self) {
        self.idled.fetch_add(1, Relaxed);
    }
}

fn ask<C: Clock>(clock: C) -> Duration {
    clock.idle();
    clock.now()
}

#[test]
fn a_reference_to_a_clock_is_that_clock() {
    let clock = Asked::default();
    assert_eq!(ask(&clock), Duration::from_millis(1));
    assert_eq!(ask(&clock), Duration::from_millis(2));
    assert_eq!(clock.idled.load(Relaxed), 2);
}

#[cfg(feature = "std")]
#[test]
fn a_shared_clock_is_that_clock() {
    let clock = std::sync::Arc::new(Asked::default());
    assert_eq!(ask(std::sync::Arc::clone(&clock)), Duration::from_millis(1));
    assert_eq!(clock.idled.load(Relaxed), 1);
}

#[test]
fn no_clock_stands_still() {
    assert_eq!(ask(NoClock), Duration::ZERO);
}

#[test]
fn whether_time_passes_is_what_the_clock_itself_says() {
    fn tells<C: Clock>(clock: C) -> bool {
        clock.tells_time()
    }
    // One that says nothing does.
    let (passes, still) = (&Asked::default(), &NoClock);
    assert!(tells(Asked::default()) && tells(passes));
    assert!(!tells(NoClock) && !tells(still));
    #[cfg(feature = "std")]
    {
        use std::sync::Arc;
        assert!(tells(Arc::new(Asked::default())) && !tells(Arc::new(NoClock)));
        assert!(tells(wharf_sync::StdClock::new()));
    }
}

#[cfg(feature = "std")]
#[test]
fn the_clock_of_the_system_starts_at_zero_and_goes_on() {
    for clock in [wharf_sync::StdClock::new(), wharf_sync::StdClock::default()] {
        let first = ask(clock);
        assert!(first < Duration::from_secs(10), "just started");
        std::thread::sleep(Duration::from_millis(2));
        assert!(ask(clock) >= first + Duration::from_millis(2));
    }
}

#[test]
fn an_identity_is_its_number() {
    assert_eq!(Who::SOLE.id(), 0);
    assert_eq!(Who::new(26).id(), 26);
    assert_eq!(Who::new(26).to_string(), "0x1a");
    assert_eq!(Unsync::who(), Who::SOLE);
}

#[cfg(feature = "critical-section")]
#[test]
fn critical_tells_nobody_apart() {
    assert_eq!(wharf_sync::Critical::who(), Who::SOLE);
}

#[cfg(all(feature = "spin", not(feature = "std")))]
#[test]
fn spin_tells_nobody_apart_without_threads() {
    assert_eq!(wharf_sync::Spin::who(), Who::SOLE);
}

#[test]
fn policies_go_by_their_names() {
    assert_eq!(Unsync::NAME, "Unsync");
    #[cfg(feature = "critical-section")]
    assert_eq!(wharf_sync::Critical::NAME, "Critical");
    #[cfg(feature = "spin")]
    assert_eq!(wharf_sync::Spin::NAME, "Spin");
    #[cfg(feature = "std")]
    assert_eq!(wharf_sync::Blocking::NAME, "Blocking");
}

#[test]
fn what_is_printed_says_what_it_is() {
    let event = UnsyncEvent::new();
    let turn = format!("{:?}", Turn::new(&event));
    assert!(turn.starts_with("Turn { place: WakerPlace"), "{turn}");
    #[cfg(feature = "critical-section")]
    {
        let event = wharf_sync::CriticalEvent::new();
        event.notify();
        assert_eq!(format!("{event:?}"), "IdleEvent { epoch: 1, .. }");
    }
}

#[test]
fn constants_are_zero() {
    fn initial<T: ConstInit>() -> T {
        T::INIT
    }
    assert_eq!((initial::<u8>(), initial::<u16>()), (0, 0));
    assert_eq!((initial::<u32>(), initial::<u64>()), (0, 0));
    assert_eq!(initial::<usize>(), 0);
    assert!(!initial::<bool>());
    initial::<()>();
    assert_eq!(initial::<Cell<u32>>().get(), 0);
    assert_eq!(initial::<RefCell<u32>>().take(), 0);
    assert_eq!(initial::<Option<u32>>(), None);
    let PhantomData = initial::<PhantomData<str>>();
}
