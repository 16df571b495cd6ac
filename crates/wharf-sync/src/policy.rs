//! The traits. They are `unsafe` because the memory safety of every layer above rests on their laws.
#![allow(
    unsafe_code,
    reason = "declares the unsafe traits; contains no unsafe operation"
)]

use core::fmt;
use core::task::Waker;
use core::time::Duration;

use crate::{Clock, WakerPlace};

/// How one program protects what its contexts share.
///
/// A policy is a type without values. It is chosen once, where a pool or a target is named, and from
/// there the auto traits follow: what is built of `P::Lock`, `P::Count`, `P::Word` and `P::Event` is
/// `Send` and `Sync` exactly when those are.
///
/// # Safety
/// The four associated types must be usable together by every context (thread, core or interrupt)
/// that the type system lets reach them: if `Lock<T>`, `Count`, `Word` or `Event` is `Sync`, it must
/// really work between those contexts.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a synchronisation policy",
    note = "the policies of wharf-sync are `Unsync`, `Critical` (feature `critical-section`), `Blocking` (feature `std`), and `Spin` or, on bare metal, `SpinMulticore` (feature `spin`)"
)]
pub unsafe trait SyncPolicy: Sized + 'static {
    /// Guards a few words for a short, bounded time.
    type Lock<T>: Lock<T>;
    /// A reference counter.
    type Count: Count;
    /// A 32-bit state word.
    type Word: Word;
    /// Something to wait for.
    type Event: Event;

    /// The name of the policy, for diagnostics and for the reports of the conformance suite.
    const NAME: &'static str;

    /// Whether its operations may be called from an interrupt handler: true exactly where the policy is [`IsrSafe`]. For
    /// reports (`Caps` of a pool); what rests on it demands the trait.
    const ISR_SAFE: bool = false;

    /// Whether its locks never wait for an operating system. Spinning for a bounded section is not waiting.
    const NONBLOCKING: bool = false;

    /// Who is running. A context gets the same answer as long as it lives; two that run at the same time get
    /// different ones where the policy can tell them apart, and [`Who::SOLE`] where it cannot.
    ///
    /// For spreading load and for reports. No memory safety may rest on it.
    fn who() -> Who;
}

/// Marks the policies whose every operation may be called from an interrupt handler, also from one
/// that preempted another such operation.
///
/// # Safety
/// No operation of the policy may block on a context that the interrupt has preempted.
#[diagnostic::on_unimplemented(
    message = "`{Self}` must not be used in an interrupt handler",
    note = "use `Critical`, whose sections mask interrupts"
)]
pub unsafe trait IsrSafe: SyncPolicy {}

/// A short critical section around a value.
///
/// The section lends `&T`, never `&mut T`: under [`Unsync`](crate::Unsync) and `Critical` sections
/// nest (a section may be entered again inside itself), and two `&mut` to one value would be unsound.
/// Put cells inside.
///
/// # Safety
/// If `Self: Sync`, two contexts are never inside `with` on the same lock at once, unless one is
/// nested in the other on the same context; and what one wrote inside, the next one sees. It is `Sync` only
/// where `T: Send`, because each context may take the value out.
pub unsafe trait Lock<T> {
    /// A lock around `value`. Where a `const` is needed, see [`ConstInit`](crate::ConstInit).
    fn new(value: T) -> Self;

    /// Runs `section` alone. Keep it to a bounded handful of instructions: under `Critical` no
    /// interrupt is served meanwhile. It must not wait, wake or call code that is not yours. It may enter another lock, if all
    /// who do so enter them in the same order: locks of one policy must not all be one that cannot be entered again.
    fn with<R>(&self, section: impl FnOnce(&T) -> R) -> R;

    /// The value, without a section: `&mut` proves that nobody else is there.
    fn get_mut(&mut self) -> &mut T;
}

/// A reference counter that cannot wrap.
///
/// A count that would pass [`LIMIT`](Self::LIMIT) sticks there for ever: the memory behind it leaks, and nothing is
/// freed too early. It takes more than two thousand million forgotten clones.
///
/// # Safety
/// `decrement` returns `true` to exactly one caller, the one that took the last reference, and
/// everything that other holders did before their own `decrement` happens before that return. A `decrement` that leaves holders
/// does not touch the counter once they can see it: the last of them may free it at once.
pub unsafe trait Count {
    /// From here on a count is saturated.
    const LIMIT: u32 = 1 << 31;

    /// A counter that stands at `count`.
    fn new(count: u32) -> Self;
    /// One more holder.
    fn increment(&self);
    /// One holder less; `true` when that was the last.
    #[must_use]
    fn decrement(&self) -> bool;
    /// Whether the caller's reference is the only one. If so, everything the former holders did is
    /// visible to the caller.
    fn is_unique(&self) -> bool;
    /// The present count, for diagnostics: another context may change it at once.
    fn get(&self) -> u32;
}

/// A 32-bit word that several contexts move from state to state.
///
/// # Safety
/// Updates are atomic between all contexts that the type system lets reach the word. A successful
/// update acquires what earlier updates released, and releases what its caller did before. It does not touch the word
/// once others can see what it did: whoever does may free the word at once (the fence of a tensor's storage goes that way). So no
/// lock beside the number, which is opened afterwards.
pub unsafe trait Word {
    /// A word that holds `value`.
    fn new(value: u32) -> Self;
    /// The present value. Acquires.
    fn load(&self) -> u32;
    /// Replaces the word by `step(word)`; where `step` refuses (`None`), leaves it alone.
    ///
    /// `step` may run several times and must be a pure function of its argument.
    ///
    /// # Errors
    /// The value at which `step` refused.
    fn update(&self, step: impl FnMut(u32) -> Option<u32>) -> Result<u32, u32>;
}

/// Something that happens again and again, and that contexts wait for.
///
/// The protocol that loses no wake: the waiter samples [`epoch`](Self::epoch), *then* tests its condition, then
/// [`wait`](Self::wait)s with the sample. The other side changes the condition, *then* calls
/// [`notify`](Self::notify). An asynchronous waiter [`register`](Self::register)s its waker first and tests its condition
/// afterwards.
///
/// For what is handed out one by one there is a second pair: [`notify_one`](Self::notify_one) on the one side, and on
/// the other [`queue`](Self::queue) in place of `register`. Its law is on `notify_one`, and [`Turn`](crate::Turn) keeps it.
/// On one event use one pair or the other; `notify` is always in place, it only wakes more than it must.
///
/// # Safety
/// As for [`SyncPolicy`]: if `Self: Sync`, it works between threads. (No memory safety rests on
/// wakes arriving.)
pub unsafe trait Event {
    /// An event that has not happened yet.
    fn new() -> Self;
    /// How often it has happened. Wraps.
    fn epoch(&self) -> Epoch;
    /// Waits until it has happened since `seen`, or until `clock` passes `deadline`. Runs the clock's
    /// idle hook where the policy has no better way to wait. Blocks; never call it in an interrupt.
    fn wait<C: Clock + ?Sized>(&self, seen: Epoch, clock: &C, deadline: Option<Duration>) -> Wake;
    /// It happens: every waiter and every registered waker is woken. No waker runs inside a section.
    fn notify(&self);
    /// It happens, for one: at least one waiter is woken if there is one. Cheaper than [`notify`](Self::notify) where
    /// many wait and one of them can go on. No waker runs inside a section.
    ///
    /// Woken are one of those who sleep in [`wait`](Self::wait), the first of those who [`queue`](Self::queue), and every
    /// waker that is [`register`](Self::register)ed without a place (behind such a one there may be nobody left).
    /// A waiter that has sampled the epoch and does not sleep yet will not fall asleep.
    ///
    /// *The law of who is woken*: test the condition **after** it. Whoever is woken and goes away without such a test
    /// calls `notify_one` in turn; so does whoever tests and leaves behind what could serve another waiter. Kept by
    /// all, this loses no wake.
    ///
    /// * A wait that said [`Wake::Notified`] was woken. One that [timed out](Wake::TimedOut) was not, and owes nothing.
    /// * A task that ends its wait, served or cancelled, [withdraws](Self::withdraw) and learns whether a wake was
    ///   spent on it since it queued. If so it passes that on, even if it was served: its wake may have come after its
    ///   test. [`Turn`](crate::Turn) does all of it.
    ///
    /// As provided, it wakes them all. An event that does better overrides `queue` and `withdraw`, too.
    fn notify_one(&self) {
        self.notify();
    }
    /// Has `waker` woken by the next [`notify`](Self::notify). A waker that must make room for another is woken at
    /// once, so none is ever lost.
    fn register(&self, waker: &Waker);
    /// Puts `waker` at the end of the queue from which [`notify_one`](Self::notify_one) takes the first, or, if `place` is
    /// still there, in that place. Otherwise as [`register`](Self::register). Test the condition afterwards.
    ///
    /// Whoever queues must [`withdraw`](Self::withdraw) in the end, or a wake may be spent on nobody. `place` must
    /// not be taken to another event meanwhile.
    fn queue(&self, place: &mut WakerPlace, waker: &Waker) {
        let _ = place;
        self.register(waker);
    }
    /// Leaves the queue. `false`: `place` was not there any more, so a wake was spent on it; pass that on by
    /// [`notify_one`](Self::notify_one).
    #[must_use = "a wake that was spent on this place must be passed on"]
    fn withdraw(&self, place: &mut WakerPlace) -> bool {
        let _ = place;
        true
    }
}

/// A sample of [`Event::epoch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Epoch(pub(crate) u32);

impl Epoch {
    /// For events of your own.
    #[must_use]
    pub const fn new(count: u32) -> Self {
        Self(count)
    }
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Wake {
    /// The event happened, or may have: test the condition again.
    Notified,
    /// The deadline passed first.
    TimedOut,
    /// Nobody else exists under this policy who could make it happen. Waiting would be for ever.
    Never,
}

/// Identifies a context under its policy: a thread, a core, or whoever there may be.
///
/// Different values mean different contexts. Equal values mean the same context only under a policy that tells all of
/// its contexts apart (see [`SyncPolicy::who`]); a value is used again once its context has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Who(usize);

impl Who {
    /// The only context of a program that has one, and all of them under a policy that cannot tell.
    pub const SOLE: Self = Self(0);

    /// For policies of your own: `id` is unique among the contexts alive. Best a small number: what is spread over
    /// shards takes it modulo their number.
    #[must_use]
    pub const fn new(id: usize) -> Self {
        Self(id)
    }

    /// The number that it was made of.
    #[must_use]
    pub const fn id(self) -> usize {
        self.0
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}
