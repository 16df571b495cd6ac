//! A timeline in a file.

use core::cell::Cell;
use core::fmt::{self, Write as _};
use core::time::Duration;
use std::collections::BTreeMap;
use std::io;
use std::string::String;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::vec::Vec;

use wharf_backend::MemSpace;
use wharf_sync::{Clock, StdClock};

use super::json::{Micros, Quoted};
use super::{TraceDetail, TraceEvent, TraceKind, TracePhase, TraceSink};

/// The process whose rows are threads, and the one whose rows are streams.
const THREADS: u32 = 1;
const STREAMS: u32 = 2;

/// Writes what it is told as a timeline: the JSON array that Chrome's trace viewer and Perfetto (`ui.perfetto.dev`) open.
///
/// * A row for each thread, with its name: reads, writes, waits and copies as nested bars (`B` and `E` events), what has no duration as a
///   mark. A bar `blocked` says for how many device accesses.
/// * A row for each stream, in a second group: what its engine worked on and when (`X` events), by number.
/// * A curve of the bytes that storages hold, by host and device.
///
/// ```
/// # use wharf_backend::Heap;
/// # use wharf_source::HeapSource;
/// use std::sync::Arc;
/// use wharf_sync::{Blocking, NoClock};
/// use wharf_tensor::{ChromeTrace, Parts, Tensor};
///
/// type Watched = Parts<Heap<Blocking>, HeapSource, NoClock, Arc<ChromeTrace<Vec<u8>>>>;
///
/// // Into a file, `BufWriter::new(File::create(path)?)`.
/// let trace = Arc::new(ChromeTrace::new(Vec::new(), "sketch"));
/// let target = Watched::with(HeapSource, NoClock, trace.clone());
/// Tensor::alloc(&target, Heap::new(), 64)?.fill(1)?;
/// let summary = trace.finish()?;
/// // Memory asked for, storage made, bytes in use; written; given up, memory given back, bytes in use.
/// assert_eq!((summary.events, summary.cut), (2 + 1 + 1 + 2 + 1 + 2 + 1, 0));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
///
/// # What is guaranteed
/// After [`finish`](Self::finish), which dropping it does, too, the file is valid JSON, and every begin has its end: what was still
/// going on is ended then, and [counted](ChromeSummary::cut). A panic that unwinds drops it. If the process ends without (it is killed,
/// it aborts, a static holds the trace), the file is what was written until then without the closing bracket: the viewers read
/// it, a JSON parser does not. A `BufWriter` then also keeps what it has buffered.
///
/// # Cost
/// An event is one line, written under a lock: for finding out how a program behaves, not for one that runs for days. What is kept in
/// memory is a line, and what is going on at the moment. Errors of the writer panic nowhere and stop nothing: the first is kept for `finish`,
/// and nothing is written after it. The writer must not use what is traced.
pub struct ChromeTrace<W: io::Write, C = StdClock> {
    book: Mutex<Book<W>>,
    clock: C,
    /// No other in the process has it, and none is zero.
    id: u64,
}

/// What a [`ChromeTrace`] came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChromeSummary {
    /// Events in the file, not counting the names of rows.
    pub events: u64,
    /// Calls and runs that were still going on, and were ended by [`finish`](ChromeTrace::finish).
    pub cut: u64,
    /// Events that came after the end, and are not in the file.
    pub late: u64,
}

struct Book<W> {
    out: W,
    line: String,
    /// Something is in the array.
    begun: bool,
    closed: bool,
    /// A write has failed or panicked: the file ends there.
    broken: bool,
    error: Option<io::Error>,
    summary: ChromeSummary,
    /// What each thread is in the middle of, outermost first. None of them is empty.
    calls: BTreeMap<u64, Vec<TraceKind>>,
    /// When each run began.
    runs: BTreeMap<(u8, u64), (Duration, TraceEvent)>,
    /// A bit for each stream whose row has its name.
    streams: u64,
    host: u64,
    device: u64,
    /// The latest time that was seen.
    last: Duration,
}

impl<W: io::Write> ChromeTrace<W> {
    /// Into `out`, by the system's clock. `name` is the program's, or whatever the rows of its threads are to be called.
    pub fn new(out: W, name: &str) -> Self {
        Self::with_clock(out, name, StdClock::new())
    }
}

impl<W: io::Write, C> ChromeTrace<W, C> {
    /// Into `out`, by `clock`. Where that stands still, so do the events.
    pub fn with_clock(out: W, name: &str, clock: C) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let mut book = Book {
            out,
            line: String::new(),
            begun: false,
            closed: false,
            broken: false,
            error: None,
            summary: ChromeSummary::default(),
            calls: BTreeMap::new(),
            runs: BTreeMap::new(),
            streams: 0,
            host: 0,
            device: 0,
            last: Duration::ZERO,
        };
        book.name("process_name", THREADS, 0, name);
        Self {
            book: Mutex::new(book),
            clock,
            // Only told apart, so no ordering.
            id: NEXT.fetch_add(1, Ordering::Relaxed),
        }
    }

    fn book(&self) -> MutexGuard<'_, Book<W>> {
        // A writer that panicked has left the mark that it did.
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<W: io::Write, C: Clock> ChromeTrace<W, C> {
    /// Ends what is still going on, closes the array and flushes. What comes later is dropped. Calling it again changes nothing.
    ///
    /// # Errors
    /// The first error of the writer: the file ends where it happened.
    pub fn finish(&self) -> io::Result<ChromeSummary> {
        let now = self.clock.now();
        self.book().finish(now)
    }
}

impl<W: io::Write, C: Clock> TraceSink for ChromeTrace<W, C> {
    fn record(&self, event: TraceEvent) {
        // Outside of the lock: a clock is code of others.
        let now = self.clock.now();
        let thread = thread_number();
        let unnamed = NAMED_IN.replace(self.id) != self.id;
        let mut book = self.book();
        if book.closed {
            book.summary.late += 1;
            return;
        }
        if unnamed {
            let current = std::thread::current();
            book.name(
                "thread_name",
                THREADS,
                thread,
                current.name().unwrap_or("unnamed"),
            );
        }
        book.record(now, thread, event);
    }
}

impl<W: io::Write, C> Drop for ChromeTrace<W, C> {
    fn drop(&mut self) {
        // The last event was the end. Nobody is left who could be told of an error.
        let book = self.book.get_mut().unwrap_or_else(PoisonError::into_inner);
        let now = book.last;
        let _ = book.finish(now);
    }
}

std::thread_local! {
    static NUMBER: Cell<u64> = const { Cell::new(0) };
    /// The trace that this thread was last told to. It has a row with a name there.
    static NAMED_IN: Cell<u64> = const { Cell::new(0) };
}

/// A number of the thread's own, from one.
fn thread_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    if NUMBER.get() == 0 {
        // Only told apart, so no ordering.
        NUMBER.set(NEXT.fetch_add(1, Ordering::Relaxed));
    }
    NUMBER.get()
}

impl<W: io::Write> Book<W> {
    fn record(&mut self, now: Duration, thread: u64, event: TraceEvent) {
        self.last = self.last.max(now);
        match (event.kind, event.phase, event.detail) {
            (TraceKind::Running, phase, TraceDetail::Launch { stream, sequence }) => {
                self.run(now, phase, (stream, sequence), event);
            }
            (kind, TracePhase::Start, _) => {
                self.calls.entry(thread).or_default().push(kind);
                self.event('B', THREADS, thread, now, kind.name());
                self.args(event);
                self.put();
            }
            (kind, TracePhase::Stop, _) => self.stop(now, thread, kind),
            (TraceKind::Launched, TracePhase::Instant, TraceDetail::Launch { sequence, .. }) => {
                let name = std::format!("launched #{sequence}");
                self.instant(now, thread, &name, event);
            }
            (kind, TracePhase::Instant, _) => self.instant(now, thread, kind.name(), event),
        }
        self.count_bytes(now, event);
    }

    fn instant(&mut self, now: Duration, thread: u64, name: &str, event: TraceEvent) {
        self.event('i', THREADS, thread, now, name);
        self.line.push_str(r#","s":"t""#);
        self.args(event);
        self.put();
    }

    fn stop(&mut self, now: Duration, thread: u64, kind: TraceKind) {
        let Some(calls) = self.calls.get_mut(&thread) else {
            return;
        };
        // Calls of a thread nest, so the last that began is the first to end.
        if calls.pop_if(|last| *last == kind).is_none() {
            return;
        }
        if calls.is_empty() {
            self.calls.remove(&thread);
        }
        self.event('E', THREADS, thread, now, kind.name());
        self.put();
    }

    fn run(&mut self, now: Duration, phase: TracePhase, run: (u8, u64), event: TraceEvent) {
        if phase == TracePhase::Start {
            self.runs.insert(run, (now, event));
            return;
        }
        let Some((began, _)) = self.runs.remove(&run) else {
            return;
        };
        self.ran(began, now, run, event);
    }

    fn ran(&mut self, began: Duration, now: Duration, run: (u8, u64), event: TraceEvent) {
        let (stream, sequence) = run;
        let bit = 1_u64.checked_shl(stream.into()).unwrap_or(0);
        if self.streams == 0 {
            self.name("process_name", STREAMS, 0, "queues");
        }
        if self.streams & bit == 0 {
            self.streams |= bit;
            let name = std::format!("stream {stream}");
            self.name("thread_name", STREAMS, stream.into(), &name);
        }
        let name = std::format!("#{sequence}");
        self.event('X', STREAMS, stream.into(), began, &name);
        self.write(format_args!(
            r#","dur":{}"#,
            Micros(now.saturating_sub(began))
        ));
        self.args(event);
        self.put();
    }

    /// The curve of the bytes that storages hold, where it moves.
    fn count_bytes(&mut self, now: Duration, event: TraceEvent) {
        let TraceDetail::Memory(space) = event.detail else {
            return;
        };
        let bytes = match space {
            MemSpace::Host => &mut self.host,
            MemSpace::Device => &mut self.device,
        };
        match (event.kind, event.phase) {
            (TraceKind::Alloc, _) => *bytes = bytes.saturating_add(event.bytes),
            (TraceKind::MemoryFree, TracePhase::Stop | TracePhase::Instant) => {
                *bytes = bytes.saturating_sub(event.bytes);
            }
            _ => return,
        }
        let (host, device) = (self.host, self.device);
        self.event('C', THREADS, 0, now, "bytes in tensors");
        self.write(format_args!(
            r#","args":{{"host":{host},"device":{device}}}"#
        ));
        self.put();
    }

    fn finish(&mut self, now: Duration) -> io::Result<ChromeSummary> {
        if !self.closed {
            let now = now.max(self.last);
            while let Some((thread, mut calls)) = self.calls.pop_first() {
                while let Some(kind) = calls.pop() {
                    self.summary.cut += 1;
                    self.event('E', THREADS, thread, now, kind.name());
                    self.put();
                }
            }
            while let Some((run, (began, event))) = self.runs.pop_first() {
                self.summary.cut += 1;
                self.ran(began, now, run, event);
            }
            self.closed = true;
            self.line.push_str("\n]\n");
            self.flush_line();
            self.guarded(io::Write::flush);
        }
        match self.error.take() {
            None if self.broken => Err(io::Error::other("the writer panicked")),
            None => Ok(self.summary),
            Some(error) => {
                // The next call gets the same, in a shorter form.
                self.error = Some(error.kind().into());
                Err(error)
            }
        }
    }

    /// Says what a row, or a group of rows, is called.
    fn name(&mut self, what: &str, process: u32, row: u64, name: &str) {
        self.open();
        let name = Quoted(name);
        self.write(format_args!(
            r#"{{"ph":"M","pid":{process},"tid":{row},"name":"{what}","args":{{"name":{name}}}"#
        ));
        self.close();
    }

    /// Begins the line of an event.
    fn event(&mut self, phase: char, process: u32, row: u64, at: Duration, name: &str) {
        self.open();
        let (at, name) = (Micros(at), Quoted(name));
        self.write(format_args!(
            r#"{{"ph":"{phase}","pid":{process},"tid":{row},"ts":{at},"name":{name}"#
        ));
    }

    /// What an event is about.
    fn args(&mut self, event: TraceEvent) {
        let TraceEvent { storage, bytes, .. } = event;
        self.write(format_args!(r#","args":{{"bytes":{bytes}"#));
        if storage != 0 {
            // As text: JSON's numbers are floats to many, and exact below 2^53 only.
            self.write(format_args!(r#","storage":"{storage:#x}""#));
        }
        match event.detail {
            TraceDetail::None => {}
            TraceDetail::Pending { reads, writes } => self.write(format_args!(
                r#","pending reads":{reads},"pending writes":{writes}"#
            )),
            TraceDetail::Memory(MemSpace::Host) => self.line.push_str(r#","space":"host""#),
            TraceDetail::Memory(MemSpace::Device) => self.line.push_str(r#","space":"device""#),
            TraceDetail::Left { accesses } => {
                self.write(format_args!(r#","accesses left":{accesses}"#));
            }
            TraceDetail::Launch { stream, sequence } => {
                self.write(format_args!(r#","stream":{stream},"sequence":{sequence}"#));
            }
        }
        self.line.push('}');
    }

    fn write(&mut self, text: fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = self.line.write_fmt(text);
    }

    /// Begins an element of the array.
    fn open(&mut self) {
        self.line.push_str(if self.begun { ",\n" } else { "[\n" });
        self.begun = true;
    }

    fn close(&mut self) {
        self.line.push('}');
        self.flush_line();
    }

    /// Ends the line of an event.
    fn put(&mut self) {
        self.summary.events += 1;
        self.close();
    }

    fn flush_line(&mut self) {
        let line = core::mem::take(&mut self.line);
        self.guarded(|out| out.write_all(line.as_bytes()));
        self.line = line;
        self.line.clear();
    }

    /// A step of the writer, if none has failed.
    fn guarded(&mut self, step: impl FnOnce(&mut W) -> io::Result<()>) {
        if self.broken {
            return;
        }
        // Until it has returned, it has panicked.
        self.broken = true;
        match step(&mut self.out) {
            Ok(()) => self.broken = false,
            Err(error) => self.error = Some(error),
        }
    }
}

impl<W: io::Write, C> fmt::Debug for ChromeTrace<W, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let book = self.book();
        f.debug_struct("ChromeTrace")
            .field("summary", &book.summary)
            .field("closed", &book.closed)
            .field("broken", &book.broken)
            .finish_non_exhaustive()
    }
}
