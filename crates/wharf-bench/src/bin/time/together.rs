//! The throughput of two threads at once, over that of one.
//!
//! A round counts only if both threads really ran side by side: they began together, and the scheduler sent neither away
//! meanwhile. On a busy machine few rounds count, and shorter ones are tried.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::contest::{count, median, nanoseconds};

/// What a thread, 0 or 1, does so many times.
pub(crate) type Task<'t> = &'t (dyn Fn(usize, u64) + Sync);

/// Rounds that are wanted, and rounds that are enough.
const ROUNDS: usize = if cfg!(test) { 3 } else { 101 };
const ENOUGH: usize = 5;
/// One run of one thread alone, to begin with and at least.
const RUN: Duration = Duration::from_micros(100);
const FEWEST: u64 = 1 << 10;
/// After so many rounds in a row that do not count, they become shorter.
const TOO_MANY: usize = 30;
/// How much of a round the two may begin apart.
const APART: f64 = 0.05;

pub(crate) struct Speedup {
    /// Of one time, alone.
    pub(crate) nanoseconds: f64,
    /// Together, over alone.
    pub(crate) speedup: f64,
    pub(crate) rounds: usize,
}

/// When a run began and ended.
#[derive(Clone, Copy)]
struct Span {
    begin: Instant,
    end: Instant,
    /// Whether the scheduler left it alone.
    whole: bool,
}

impl Span {
    /// `gather` is called right before the start.
    fn of(gather: impl FnOnce(), work: impl FnOnce()) -> Self {
        let before = sent_away();
        gather();
        let begin = Instant::now();
        work();
        let end = Instant::now();
        let whole = sent_away() == before;
        Self { begin, end, whole }
    }

    fn nanoseconds(&self) -> f64 {
        nanoseconds(self.end - self.begin)
    }
}

/// How often the scheduler has sent this thread away in favour of another one. Always zero where nobody says.
fn sent_away() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"))
        .and_then(|number| number.trim().parse().ok())
        .unwrap_or(0)
}

/// Where two threads meet, again and again.
#[derive(Default)]
struct Meeting(AtomicUsize);

impl Meeting {
    /// `round` counts the meetings from one. It spins, to leave at once, and gives way every `patience` spins.
    fn wait(&self, round: usize, patience: u32) {
        self.0.fetch_add(1, Ordering::AcqRel);
        let mut spins = 0;
        while self.0.load(Ordering::Acquire) < 2 * round {
            spins += 1;
            if spins % patience == 0 {
                std::thread::yield_now();
            }
            std::hint::spin_loop();
        }
    }
}

/// Spins, some tens of microseconds and some milliseconds.
const SHORT: u32 = 1 << 9;
const LONG: u32 = 1 << 17;

/// `None`: not enough rounds counted before `patience` was over.
pub(crate) fn speedup(task: Task<'_>, patience: Duration) -> Option<Speedup> {
    let times = AtomicU64::new(calibrate(task));
    // They come together, look at the clock and at the scheduler, and start at one moment.
    let [come, start, finish] = [const { Meeting(AtomicUsize::new(0)) }; 3];
    let theirs = Mutex::new(None);
    let theirs = || theirs.lock().unwrap_or_else(PoisonError::into_inner);
    let together = |who: usize, round: usize, times: u64| {
        let span = Span::of(|| start.wait(round, LONG), || task(who, times));
        if who == 1 {
            *theirs() = Some(span);
        }
        finish.wait(round, SHORT);
        span
    };
    let mut alone = Vec::new();
    let mut ratios = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1.. {
                come.wait(round, SHORT);
                match times.load(Ordering::Acquire) {
                    0 => return,
                    times => together(1, round, times),
                };
            }
        });
        let deadline = Instant::now() + patience;
        let mut lost = 0;
        for round in 1.. {
            if ratios.len() == ROUNDS || Instant::now() > deadline {
                times.store(0, Ordering::Release);
                come.wait(round, SHORT);
                break;
            }
            let now = times.load(Ordering::Acquire);
            // Alone: the other one waits for us.
            let single = Span::of(|| (), || task(0, now));
            come.wait(round, SHORT);
            let mine = together(0, round, now);
            let Some(theirs) = theirs().take() else {
                continue;
            };
            let first = mine.begin.min(theirs.begin);
            let apart = nanoseconds(mine.begin.max(theirs.begin) - first);
            let all = nanoseconds(mine.end.max(theirs.end) - first);
            if single.whole && mine.whole && theirs.whole && apart <= APART * all {
                lost = 0;
                alone.push(single.nanoseconds() / count(now));
                ratios.push(2.0 * single.nanoseconds() / all);
                continue;
            }
            lost += 1;
            if lost >= TOO_MANY && now > FEWEST {
                lost = 0;
                times.store(now / 2, Ordering::Release);
            }
        }
    });
    let rounds = ratios.len();
    (rounds >= ENOUGH.min(ROUNDS)).then(|| Speedup {
        nanoseconds: median(alone),
        speedup: median(ratios),
        rounds,
    })
}

/// How many times take one thread as long as a run should.
fn calibrate(task: Task<'_>) -> u64 {
    let mut times = FEWEST;
    loop {
        let run = |_| Span::of(|| (), || task(0, times)).nanoseconds();
        let fastest = (0..5).map(run).min_by(f64::total_cmp).unwrap_or_default();
        if fastest >= nanoseconds(RUN) || times > 1 << 40 {
            return times;
        }
        times *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_threads_do_the_same_number_of_times_when_they_meet() {
        let done = [AtomicU64::new(0), AtomicU64::new(0)];
        let task: Task<'_> = &|who, times| {
            done[who].fetch_add(times, Ordering::Relaxed);
            for time in 0..times {
                std::hint::black_box(time);
            }
        };
        let measured = speedup(task, Duration::from_secs(2));
        let [mine, theirs] = done.map(AtomicU64::into_inner);
        assert!(theirs > 0 && mine > theirs, "{mine} and {theirs}");
        if let Some(measured) = measured {
            assert!(measured.rounds <= ROUNDS && measured.speedup > 0.0);
        }
    }
}
