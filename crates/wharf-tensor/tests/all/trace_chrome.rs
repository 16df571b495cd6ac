//! The timeline in a file: read back by a JSON parser, whatever happened.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{Books, Device, Stepped};
use serde_json::{Value, json};
use wharf_engine::{Command, Engine};
use wharf_sync::{Blocking, Clock, NoClock};
use wharf_tensor::{
    ChromeTrace, Launch, Parts, Target, Tensor, TraceDetail, TraceEvent, TraceKind, TracePhase,
    TraceSink,
};

/// A file that stays when its writer goes.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Shared {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
    fn events(&self) -> Vec<Value> {
        serde_json::from_str(&self.text()).unwrap()
    }
}

/// A microsecond passes whenever it is read.
#[derive(Default)]
struct Ticks(AtomicU64);

impl Clock for Ticks {
    fn now(&self) -> Duration {
        Duration::from_micros(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

/// Of events: phase, row, name.
fn outline(events: &[Value]) -> Vec<(&str, u64, &str)> {
    events
        .iter()
        .map(|event| {
            let (phase, name) = (event["ph"].as_str(), event["name"].as_str());
            (
                phase.unwrap(),
                event["tid"].as_u64().unwrap(),
                name.unwrap(),
            )
        })
        .collect()
}

/// Panics unless on each row every end is that of the last beginning, and none is left.
fn assert_balanced(events: &[Value]) {
    let mut rows = BTreeMap::<(u64, u64), Vec<&Value>>::new();
    for event in events {
        let row = (
            event["pid"].as_u64().unwrap(),
            event["tid"].as_u64().unwrap(),
        );
        let row = rows.entry(row).or_default();
        match event["ph"].as_str().unwrap() {
            "B" => row.push(event),
            "E" => {
                let began = row.pop().expect("an end without a beginning");
                assert_eq!(began["name"], event["name"]);
                assert!(began["ts"].as_f64() <= event["ts"].as_f64());
            }
            _ => {}
        }
    }
    assert!(
        rows.values().all(Vec::is_empty),
        "a beginning without an end"
    );
}

fn start(kind: TraceKind) -> TraceEvent {
    TraceEvent::instant(kind, 0x40, 8).at(TracePhase::Start)
}

const LAUNCH: TraceDetail = TraceDetail::Launch {
    stream: 5,
    sequence: 7,
};

#[test]
fn each_kind_of_event_becomes_what_the_format_has_for_it() {
    let file = Shared::default();
    let trace = ChromeTrace::with_clock(file.clone(), "a \"name\"\\\n\u{1}é", Ticks::default());
    let thread = std::thread::Builder::new().name("worker \"1\"".into());
    std::thread::scope(|scope| {
        let told = thread.spawn_scoped(scope, || {
            let (reads, writes) = (1, 2);
            let blocked = start(TraceKind::Blocked).with(TraceDetail::Pending { reads, writes });
            trace.record(start(TraceKind::Write));
            trace.record(blocked);
            trace.record(blocked.at(TracePhase::Stop));
            trace.record(start(TraceKind::Write).at(TracePhase::Stop));
            let run = start(TraceKind::Running).with(LAUNCH);
            trace.record(run);
            trace.record(TraceEvent::instant(TraceKind::Launched, 0, u64::MAX).with(LAUNCH));
            trace.record(run.at(TracePhase::Stop));
        });
        told.unwrap().join().unwrap();
    });
    assert_eq!(trace.finish().unwrap().events, 6);
    let events = file.events();
    let row = events[1]["tid"].as_u64().unwrap();
    let expected = json!([
        {"ph": "M", "pid": 1, "tid": 0, "name": "process_name", "args": {"name": "a \"name\"\\\n\u{1}é"}},
        {"ph": "M", "pid": 1, "tid": row, "name": "thread_name", "args": {"name": "worker \"1\""}},
        {"ph": "B", "pid": 1, "tid": row, "ts": 0.0, "name": "write", "args": {"bytes": 8, "storage": "0x40"}},
        {"ph": "B", "pid": 1, "tid": row, "ts": 1.0, "name": "blocked",
            "args": {"bytes": 8, "storage": "0x40", "pending reads": 1, "pending writes": 2}},
        {"ph": "E", "pid": 1, "tid": row, "ts": 2.0, "name": "blocked"},
        {"ph": "E", "pid": 1, "tid": row, "ts": 3.0, "name": "write"},
        {"ph": "i", "pid": 1, "tid": row, "ts": 5.0, "name": "launched #7", "s": "t",
            "args": {"bytes": u64::MAX, "stream": 5, "sequence": 7}},
        {"ph": "M", "pid": 2, "tid": 0, "name": "process_name", "args": {"name": "queues"}},
        {"ph": "M", "pid": 2, "tid": 5, "name": "thread_name", "args": {"name": "stream 5"}},
        {"ph": "X", "pid": 2, "tid": 5, "ts": 4.0, "name": "#7", "dur": 2.0,
            "args": {"bytes": 8, "storage": "0x40", "stream": 5, "sequence": 7}},
    ]);
    assert_eq!(Value::from(events), expected);
}

#[test]
fn the_bytes_in_tensors_rise_and_fall_to_zero_in_both_spaces() {
    type Any = Arc<dyn wharf_backend::MemBackend<Policy = Blocking> + Send + Sync>;
    type Watched = Parts<Any, Arc<Books>, NoClock, Arc<ChromeTrace<Shared, Ticks>>>;
    let file = Shared::default();
    let trace = Arc::new(ChromeTrace::with_clock(
        file.clone(),
        "bytes",
        Ticks::default(),
    ));
    let target = Watched::with(Arc::default(), NoClock, trace.clone());
    let device: Any = Arc::new(Device::<Blocking>::new());
    let host: Any = Arc::new(wharf_backend::StaticPool::<Blocking, 64, 4>::new());
    let far = Tensor::alloc(&target, device.clone(), 100).unwrap();
    let near = Tensor::alloc(&target, host, 20).unwrap();
    assert!(Tensor::alloc(&target, device, 2 << 20).is_err());
    // Neither parts nor placeholders count, and what is taken out leaves.
    let parts = near.split(4).unwrap();
    let nothing = Tensor::placeholder(&target, 1000).unwrap();
    drop((parts, nothing));
    let segment = near.into_segment().unwrap();
    drop(far);
    drop(segment);
    trace.finish().unwrap();
    let events = file.events();
    assert_balanced(&events);
    let curve: Vec<_> = events
        .iter()
        .filter(|event| event["ph"] == "C")
        .map(|event| {
            let of = |space: &str| event["args"][space].as_u64().unwrap();
            (of("host"), of("device"))
        })
        .collect();
    assert_eq!(curve, [(0, 100), (20, 100), (0, 100), (0, 0)]);
    assert_eq!(target.source().blocks(), 0);
}

#[test]
fn runs_are_rows_of_their_streams_also_those_that_are_aborted() {
    type Watched = Parts<
        Arc<wharf_backend::StaticPool<Blocking, 64, 4>>,
        Arc<Books>,
        NoClock,
        Arc<ChromeTrace<Shared, Ticks>>,
    >;
    let file = Shared::default();
    let trace = Arc::new(ChromeTrace::with_clock(
        file.clone(),
        "runs",
        Ticks::default(),
    ));
    let target = Watched::with(Arc::default(), NoClock, trace.clone());
    let tensor = Tensor::alloc(&target, Arc::new(wharf_backend::StaticPool::new()), 64).unwrap();
    let engine = Stepped::<Watched>::new();
    let launch = || engine.launch(Command::Fill(1), &[tensor.output()]).unwrap();
    let (first, second) = (launch(), launch());
    let job = engine.start().unwrap();
    second.abort();
    job.finish(Ok(()));
    first.wait().unwrap();
    assert!(second.wait().is_err());
    let stream = u64::from(engine.stream().get());
    assert_eq!(trace.finish().unwrap().cut, 0);
    let events = file.events();
    let runs: Vec<_> = outline(&events)
        .into_iter()
        .filter(|(phase, ..)| *phase == "X")
        .collect();
    assert_eq!(runs, [("X", stream, "#2"), ("X", stream, "#1")]);
    let launches = events.iter().filter(|event| event["ph"] == "i");
    let launches = launches.filter(|event| event["name"].as_str().unwrap().starts_with("launched"));
    assert_eq!(launches.count(), 2);
    // The rows are named once each, however much runs in them.
    for (name, value) in [
        ("process_name", "queues".to_owned()),
        ("thread_name", format!("stream {stream}")),
    ] {
        let named =
            |event: &&serde_json::Value| event["name"] == name && event["args"]["name"] == value;
        assert_eq!(events.iter().filter(named).count(), 1, "{name}");
    }
}

#[test]
fn what_is_still_going_on_is_ended_at_the_end() {
    let file = Shared::default();
    let trace = ChromeTrace::with_clock(file.clone(), "cut", Ticks::default());
    trace.record(start(TraceKind::Read));
    trace.record(start(TraceKind::CopyOut));
    std::thread::scope(|scope| {
        scope.spawn(|| trace.record(start(TraceKind::Write)));
    });
    trace.record(start(TraceKind::Running).with(LAUNCH));
    let summary = trace.finish().unwrap();
    assert_eq!(
        (summary.events, summary.cut, summary.late),
        (3 + 3 + 1, 4, 0)
    );
    let at_the_end = file.text();
    let events = file.events();
    assert_balanced(&events);
    assert_eq!(events.last().unwrap()["ph"], "X");
    // What comes later is not in the file, and counted.
    trace.record(start(TraceKind::Read).at(TracePhase::Stop));
    let late = trace.finish().unwrap();
    assert_eq!((late.events, late.cut, late.late), (7, 4, 1));
    drop(trace);
    assert_eq!(file.text(), at_the_end);
}

#[test]
fn ends_whose_beginning_was_not_told_are_left_out() {
    let file = Shared::default();
    let trace = ChromeTrace::with_clock(file.clone(), "ends", Ticks::default());
    trace.record(start(TraceKind::Read).at(TracePhase::Stop));
    trace.record(start(TraceKind::Write));
    trace.record(start(TraceKind::Read).at(TracePhase::Stop));
    trace.record(start(TraceKind::Write).at(TracePhase::Stop));
    trace.record(start(TraceKind::Running).with(LAUNCH).at(TracePhase::Stop));
    assert_eq!(trace.finish().unwrap().events, 2);
    assert_balanced(&file.events());
}

#[test]
fn a_panic_ends_the_file() {
    let file = Shared::default();
    let trace = ChromeTrace::new(file.clone(), "panics");
    let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        trace.record(start(TraceKind::Read));
        panic!("in the middle of it");
    }));
    assert!(ran.is_err());
    assert_balanced(&file.events());
}

#[test]
fn a_program_that_ends_without_leaves_all_but_the_bracket() {
    let file = Shared::default();
    let trace = ChromeTrace::new(file.clone(), "killed");
    trace.record(start(TraceKind::Read));
    let killed = std::mem::ManuallyDrop::new(trace);
    let events: Vec<Value> = serde_json::from_str(&(file.text() + "]")).unwrap();
    assert_eq!(events.last().unwrap()["ph"], "B");
    // For the leak checker.
    drop(std::mem::ManuallyDrop::into_inner(killed));
}

/// Takes so many bytes, and then fails or panics.
struct Full {
    room: usize,
    panics: bool,
    file: Shared,
}

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let part = &bytes[..bytes.len().min(self.room)];
        if part.is_empty() {
            assert!(!self.panics, "no more room");
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.room -= part.len();
        self.file.write(part)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_writer_that_fails_is_told_of_at_the_end_and_stops_nothing() {
    for room in [0, 20, 100, 200] {
        let file = Shared::default();
        let panics = false;
        let out = Full {
            room,
            panics,
            file: file.clone(),
        };
        let trace = ChromeTrace::new(out, "full");
        for _ in 0..9 {
            trace.record(start(TraceKind::Read));
            trace.record(start(TraceKind::Read).at(TracePhase::Stop));
        }
        for _ in 0..2 {
            let error = trace.finish().unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        }
        assert_eq!(
            file.text().len(),
            room,
            "nothing is written after the error"
        );
    }
}

#[test]
fn a_writer_that_panics_is_not_called_again() {
    let file = Shared::default();
    let (room, panics) = (100, true);
    let out = Full {
        room,
        panics,
        file: file.clone(),
    };
    let trace = ChromeTrace::new(out, "");
    let tell = || trace.record(start(TraceKind::Read));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(tell)).is_err());
    tell();
    assert_eq!(file.text().len(), 100);
    assert_eq!(
        trace.finish().unwrap_err().to_string(),
        "the writer panicked"
    );
}

#[test]
fn a_flush_that_fails_is_told_of() {
    struct Stuck;
    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
    }
    let trace = ChromeTrace::new(Stuck, "stuck");
    assert_eq!(
        trace.finish().unwrap_err().kind(),
        io::ErrorKind::BrokenPipe
    );
}

#[test]
fn threads_have_rows_of_their_own_in_every_trace() {
    let files = [Shared::default(), Shared::default()];
    let traces = [0, 1].map(|index| ChromeTrace::new(files[index].clone(), "threads"));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..20 {
                    for trace in &traces {
                        trace.record(start(TraceKind::Write));
                        trace.record(start(TraceKind::CopyIn));
                        trace.record(start(TraceKind::CopyIn).at(TracePhase::Stop));
                        trace.record(start(TraceKind::Write).at(TracePhase::Stop));
                    }
                }
            });
        }
    });
    for (trace, file) in traces.iter().zip(&files) {
        assert_eq!(trace.finish().unwrap().events, 3 * 20 * 4);
        let events = file.events();
        assert_balanced(&events);
        let outline = outline(&events);
        let rows = |phase| -> std::collections::BTreeSet<_> {
            let of = outline
                .iter()
                .filter(|(one, row, _)| *one == phase && *row != 0);
            of.map(|(_, row, _)| *row).collect()
        };
        assert_eq!(rows("B").len(), 3);
        assert_eq!(rows("M"), rows("B"), "and each has a name");
    }
}
