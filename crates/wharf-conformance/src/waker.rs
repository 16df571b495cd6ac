//! Wakers that count, without a heap.
//!
//! Invariants:
//! 1. the data pointer of a waker is a number and never followed; the counters are statics;
//! 2. `HOOKS` holds null, or a pointer to an [`Armed`] that is alive until it holds null again.
#![allow(unsafe_code, reason = "builds wakers, and calls back through a hook")]

use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, Ordering};
use core::task::{RawWaker, RawWakerVTable, Waker};

use wharf_sync::Word;

use crate::Failure;
use crate::lease::{self, LEASES, Lease, add, subtract};

/// Tasks that a probe can stand for.
pub(crate) const TASKS: usize = 32;

/// Hands out the wakers of up to [`TASKS`] tasks, and sees what becomes of them.
#[derive(Debug)]
pub(crate) struct Probe {
    lease: Lease,
}

impl Probe {
    pub(crate) fn claim() -> Result<Self, Failure> {
        Lease::claim().map(|lease| Self { lease })
    }

    /// The waker of a task. Those of one task wake the same.
    pub(crate) fn waker(&self, task: usize) -> Waker {
        let [_, _, alive, _] = self.lease.words();
        add(alive, 1);
        let data = self.lease.index() * TASKS + task % TASKS;
        // SAFETY: the functions of the table keep the contract of a waker for any data: it is a
        // number (invariant 1), the counters are atomic, and a clone wakes the same task.
        unsafe { Waker::from_raw(RawWaker::new(ptr::without_provenance(data), &TABLE)) }
    }

    /// Whether the task was ever woken.
    pub(crate) fn woken(&self, task: usize) -> bool {
        let [tasks, ..] = self.lease.words();
        tasks.load() & bit(task) != 0
    }

    /// How often any task was woken.
    pub(crate) fn wakes(&self) -> u32 {
        let [_, wakes, ..] = self.lease.words();
        wakes.load()
    }

    /// Wakers that were neither woken nor dropped.
    pub(crate) fn alive(&self) -> u32 {
        let [_, _, alive, _] = self.lease.words();
        alive.load()
    }

    /// Runs `body`; meanwhile, whenever a waker of this probe is cloned, woken or dropped, it first
    /// calls `call(scene)`, but not from inside of such a call.
    ///
    /// # Safety
    /// Until `body` returns, no other context clones, wakes or drops a waker of this probe.
    pub(crate) unsafe fn hooked<T, R>(
        &self,
        scene: &T,
        call: fn(&T),
        body: impl FnOnce() -> R,
    ) -> R {
        struct Disarm<'h>(&'h AtomicPtr<Armed>);
        impl Drop for Disarm<'_> {
            fn drop(&mut self) {
                self.0.store(ptr::null_mut(), Ordering::Release);
            }
        }

        let scene = (scene, call);
        let mut armed = Armed {
            scene: NonNull::from(&scene).cast(),
            run: run_scene::<T>,
        };
        let Some(hook) = HOOKS.get(self.lease.index()) else {
            return body();
        };
        // Also when `body` unwinds: invariant 2.
        let _disarm = Disarm(hook);
        hook.store(&raw mut armed, Ordering::Release);
        body()
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        // A waker that is still about will count in the lease.
        if self.alive() != 0 {
            self.lease.retire();
        }
    }
}

const fn bit(task: usize) -> u32 {
    1 << (task % TASKS)
}

/// What to do when a waker is touched.
struct Armed {
    scene: NonNull<()>,
    run: unsafe fn(NonNull<()>),
}

static HOOKS: [AtomicPtr<Armed>; LEASES] = [const { AtomicPtr::new(ptr::null_mut()) }; LEASES];

/// # Safety
/// `scene` points to a live `(&T, fn(&T))`.
unsafe fn run_scene<T>(scene: NonNull<()>) {
    // SAFETY: the caller's promise.
    let (scene, call) = unsafe { scene.cast::<(&T, fn(&T))>().read() };
    call(scene);
}

fn touched(data: *const ()) {
    let Some(hook) = HOOKS.get(data.addr() / TASKS) else {
        return;
    };
    let Some(armed) = NonNull::new(hook.load(Ordering::Acquire)) else {
        return;
    };
    hook.store(ptr::null_mut(), Ordering::Release);
    {
        // SAFETY: invariant 2; we are inside of `body` on its own context, by the promise of whoever
        // called `hooked`, so it lives until we return.
        let armed = unsafe { armed.as_ref() };
        // SAFETY: `scene` and `run` were made for each other, and `scene` lives as long as `armed`.
        unsafe { (armed.run)(armed.scene) };
    }
    hook.store(armed.as_ptr(), Ordering::Release);
}

fn wake_task(data: *const ()) {
    if let Some([tasks, wakes, ..]) = lease::words(data.addr() / TASKS) {
        let _ = tasks.update(|tasks| Some(tasks | bit(data.addr())));
        add(wakes, 1);
    }
}

fn release(data: *const ()) {
    if let Some([_, _, alive, _]) = lease::words(data.addr() / TASKS) {
        subtract(alive, 1);
    }
}

static TABLE: RawWakerVTable = RawWakerVTable::new(
    |data| {
        touched(data);
        if let Some([_, _, alive, _]) = lease::words(data.addr() / TASKS) {
            add(alive, 1);
        }
        RawWaker::new(data, &TABLE)
    },
    |data| {
        touched(data);
        wake_task(data);
        release(data);
    },
    |data| {
        touched(data);
        wake_task(data);
    },
    |data| {
        touched(data);
        release(data);
    },
);
