//! What a cargo is told of the queue it went through: that it was taken up, once, before it lands, and the number.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use wharf_engine::{
    Cargo, Command, CpuEngine, Descriptor, DescriptorQueue, Engine, Fault, Sequence, Stream,
};
use wharf_sync::Unsync;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    TakenUp(u64),
    Landed(u64, Result<(), Fault>),
    /// Landed, and no number.
    Unnumbered,
}
use Told::{Landed, TakenUp};

#[derive(Clone, Default)]
struct Log {
    told: Rc<RefCell<Vec<Told>>>,
    panics: bool,
}

impl Cargo for Log {
    fn landed(&mut self, _: Result<(), Fault>) {
        self.told.borrow_mut().push(Told::Unnumbered);
    }
    fn taken_up(&mut self, sequence: Sequence) {
        self.told.borrow_mut().push(TakenUp(sequence.get()));
        assert!(!self.panics, "this one does not want to");
    }
    fn landed_as(&mut self, sequence: Sequence, outcome: Result<(), Fault>) {
        self.told.borrow_mut().push(Landed(sequence.get(), outcome));
    }
}

type Queue = DescriptorQueue<Unsync, Log, 4>;

fn nothing() -> Descriptor {
    Descriptor::new(Command::Kernel(|_| Ok(())), &[]).unwrap()
}

#[test]
fn the_number_is_told_of_what_runs_is_aborted_or_closed_over() {
    let (queue, log) = (Queue::new(), Log::default());
    let push = || queue.push(nothing(), log.clone()).unwrap();
    let [first, second, third] = [push(), push(), push()];
    assert_eq!(log.told.take(), [], "queued is not taken up");
    let job = queue.next().unwrap();
    assert_eq!(log.told.take(), [TakenUp(first.get())]);
    // Ends unrun, while the other runs.
    queue.abort(second);
    let aborted = [TakenUp(2), Landed(second.get(), Err(Fault::Aborted))];
    assert_eq!(log.told.take(), aborted);
    job.finish(Ok(()));
    assert_eq!(log.told.take(), [Landed(1, Ok(()))]);
    queue.close();
    let closed = [TakenUp(3), Landed(third.get(), Err(Fault::Closed))];
    assert_eq!(log.told.take(), closed);
    drop(queue);
    assert_eq!(log.told.take(), [], "once");
}

#[test]
fn a_job_that_is_dropped_lands_under_its_number() {
    let (queue, log) = (Queue::new(), Log::default());
    queue.push(nothing(), log.clone()).unwrap();
    drop(queue.next());
    let told = [TakenUp(1), Landed(1, Err(Fault::Panicked))];
    assert_eq!(log.told.take(), told);
}

#[test]
fn a_cargo_that_panics_when_it_is_taken_up_lands_and_leaves_the_queue_usable() {
    let (queue, log) = (Queue::new(), Log::default());
    let mut unwilling = log.clone();
    unwilling.panics = true;
    // To run.
    let first = queue.push(nothing(), unwilling.clone()).unwrap();
    let second = queue.push(nothing(), log.clone()).unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| queue.next())).is_err());
    let told = [TakenUp(1), Landed(1, Err(Fault::Panicked))];
    assert_eq!(log.told.take(), told);
    assert!(queue.poll(first, None).is_ready());
    queue.next().unwrap().finish(Ok(()));
    assert!(queue.poll(second, None).is_ready());
    assert_eq!(log.told.take(), [TakenUp(2), Landed(2, Ok(()))]);
    // To end unrun: the cargo is lost, the slot is not.
    let third = queue.push(nothing(), unwilling).unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| queue.abort(third))).is_err());
    assert_eq!(queue.in_use(), 0);
}

#[test]
fn cargoes_inside_of_others_are_told_too() {
    let (queue, log) = (DescriptorQueue::<Unsync, _, 2>::new(), Log::default());
    let cargo = (Some(log.clone()), [log.clone(), log.clone()], None::<Log>);
    let ((a, b), c) = ((cargo.0, cargo.1), cargo.2);
    queue.push(nothing(), ((a, b), c)).unwrap();
    queue.next().unwrap().finish(Ok(()));
    let told = [[TakenUp(1); 3], [Landed(1, Ok(())); 3]].concat();
    assert_eq!(log.told.take(), told);
}

#[test]
fn a_cargo_that_does_not_care_lands_all_the_same() {
    struct Plain(Log);
    impl Cargo for Plain {
        fn landed(&mut self, outcome: Result<(), Fault>) {
            self.0.landed(outcome);
        }
    }
    let log = Log::default();
    let engine = CpuEngine::<Unsync, Plain>::new(Stream::claim().unwrap());
    // SAFETY: there are no operands.
    drop(unsafe { engine.submit(nothing(), Plain(log.clone())) });
    assert_eq!(log.told.take(), [Told::Unnumbered]);
}
