//! Runs of the device as its sink sees them: on the worker, and contained when the sink panics.

use std::sync::{Arc, Mutex};
use std::thread::ThreadId;

use wharf_engine::{Command, Engine, EngineExt};
use wharf_softdma::{Config, SoftDma};
use wharf_source::HeapSource;
use wharf_sync::{NoClock, StdClock};
use wharf_tensor::{
    Hosted, Launch, Parts, Target, Tensor, Tickets, TraceEvent, TraceKind, TracePhase, TraceSink,
};

/// Remembers runs, and panics at those of one phase, if at any.
#[derive(Default)]
struct Runs {
    seen: Mutex<Vec<(ThreadId, TraceEvent)>>,
    panics: Option<TracePhase>,
}

impl TraceSink for Runs {
    fn record(&self, event: TraceEvent) {
        if event.kind != TraceKind::Running {
            return;
        }
        self.seen
            .lock()
            .unwrap()
            .push((std::thread::current().id(), event));
        assert!(Some(event.phase) != self.panics, "the sink gave up");
    }
}

type Watched = Parts<<Hosted as Target>::Memory, HeapSource, StdClock, Arc<Runs>>;

fn run_two(panics: Option<TracePhase>) -> (Arc<Runs>, SoftDma<Tickets<Watched>>) {
    let runs = Arc::new(Runs {
        panics,
        ..Runs::default()
    });
    let target = Watched::with(HeapSource, StdClock::new(), runs.clone());
    let device = SoftDma::<Tickets<Watched>>::open(Config::new(4096)).expect("a device");
    let tensor = Tensor::alloc(&target, device.channel(), 64).expect("room");
    for byte in [1, 2] {
        let launched = device.launch(Command::Fill(byte), &[tensor.output()]);
        let sequence = launched.expect("room").into_sequence();
        device
            .drain(&NoClock, None)
            .expect("this is not the worker");
        // The access has ended with the run, whatever the sink did, and although nobody took the cargo out.
        let mut bytes = [0; 64];
        tensor.try_read(0, &mut bytes).expect("the device let go");
        assert_eq!(bytes, [byte; 64]);
        device.detach(sequence);
    }
    (runs, device)
}

#[test]
fn a_run_starts_and_stops_on_the_worker_under_its_number() {
    let (runs, device) = run_two(None);
    let seen = runs.seen.lock().unwrap();
    let worker = seen[0].0;
    assert_ne!(worker, std::thread::current().id());
    assert!(
        seen.iter()
            .all(|(thread, event)| *thread == worker && event.bytes == 64)
    );
    let story: Vec<_> = seen.iter().map(|(_, event)| event.phase).collect();
    let (start, stop) = (TracePhase::Start, TracePhase::Stop);
    assert_eq!(story, [start, stop, start, stop]);
    assert_eq!(seen[0].1.at(stop), seen[1].1);
    assert_ne!(seen[0].1.detail, seen[2].1.detail, "another number");
    assert_eq!(device.stats().cargo_panics, 0);
}

#[test]
fn a_sink_that_panics_on_the_worker_is_contained_and_the_fence_opens() {
    for phase in [TracePhase::Start, TracePhase::Stop] {
        let (runs, device) = run_two(Some(phase));
        assert_eq!(runs.seen.lock().unwrap().len(), 4);
        let stats = device.stats();
        assert_eq!((stats.completed, stats.cargo_panics), (2, 2));
    }
}
