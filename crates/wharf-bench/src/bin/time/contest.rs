//! Several cases by turns, and the medians.

use std::time::{Duration, Instant};

/// What runs so many times.
pub(crate) type Case<'c> = &'c dyn Fn(u64);

/// One run of a case. Far shorter than a time slice, so that most runs are not interrupted.
const RUN: Duration = Duration::from_micros(150);
const ROUNDS: usize = if cfg!(test) { 5 } else { 401 };

/// Nanoseconds of one time of each case, and the ratios to the first case of the others: medians of all rounds.
pub(crate) fn medians(cases: &[Case<'_>]) -> (Vec<f64>, Vec<f64>) {
    let times: Vec<u64> = cases.iter().map(|case| calibrate(case)).collect();
    let mut all: Vec<Vec<f64>> = vec![Vec::with_capacity(ROUNDS); cases.len()];
    let mut ratios = all.clone();
    for round in 0..ROUNDS {
        let mut once = vec![0.0; cases.len()];
        // Each round begins with another one, so that nobody always comes after the same.
        for turn in 0..cases.len() {
            let index = (round + turn) % cases.len();
            once[index] = nanoseconds(run(cases[index], times[index])) / count(times[index]);
        }
        for (index, once_of) in once.iter().enumerate() {
            all[index].push(*once_of);
            ratios[index].push(once[0] / once_of);
        }
    }
    let median_of = |samples: Vec<Vec<f64>>| samples.into_iter().map(median).collect();
    (median_of(all), median_of(ratios))
}

/// How many times take as long as a run should, at the fastest of a few attempts.
fn calibrate(case: Case<'_>) -> u64 {
    let mut times = 64;
    loop {
        let fastest = (0..5).map(|_| run(case, times)).min().unwrap_or_default();
        if fastest >= RUN || times > 1 << 40 {
            return times;
        }
        times *= 2;
    }
}

fn run(case: Case<'_>, times: u64) -> Duration {
    let start = Instant::now();
    case(times);
    start.elapsed()
}

pub(crate) fn nanoseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e9
}

#[expect(clippy::cast_precision_loss, reason = "a figure of three digits")]
pub(crate) fn count(times: u64) -> f64 {
    times as f64
}

/// Of at least one sample.
pub(crate) fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

/// Says on stderr what is measured now.
pub(crate) fn progress(what: &str) {
    eprintln!("measuring {what}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn the_middle_one_is_the_median() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![5.0]), 5.0);
    }

    #[test]
    fn every_case_has_a_turn_in_every_round() {
        let turns = [Cell::new(0), Cell::new(0)];
        let work = |tally: &Cell<usize>, times| {
            tally.set(tally.get() + 1);
            for time in 0..times {
                std::hint::black_box(time);
            }
        };
        let first: Case<'_> = &|times| work(&turns[0], times);
        let second: Case<'_> = &|times| work(&turns[1], times);
        let cases = [first, second];
        let (all, ratios) = medians(&cases);
        assert_eq!((all.len(), ratios.len()), (2, 2));
        assert_eq!(ratios[0], 1.0, "the first is compared with itself");
        // Five attempts at least, to see how many times a run is.
        assert!(turns.iter().all(|turns| turns.get() >= 5 + ROUNDS));
    }
}
