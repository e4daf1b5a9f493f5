//! What is measured of the calls to one dependency.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

use super::super::event::CallOutcome;
use super::table::{
    AMPLIFICATION, ATTEMPTS, BACKOFF, BALANCE, CALL_ATTEMPTS, CALLS, DEADLINE_LEFT, DENIALS,
    DURATION, FALLBACKS, PARKED, RETRIES,
};
use crate::classify::verdict::Verdict;
use crate::error::Stopped;

const VERDICTS: [&str; 10] = [
    "success",
    "transient",
    "overloaded",
    "unreachable",
    "throttled",
    "ambiguous",
    "terminal",
    "blocked",
    "refused_below",
    DROPPED,
];
const DROPPED: &str = "dropped";
const RETRIED: [&str; 5] = [
    "transient",
    "overloaded",
    "unreachable",
    "throttled",
    "ambiguous",
];
/// All but `not_retryable`: there no retry was wanted.
const DENIED: [&str; 9] = [
    "not_idempotent",
    "attempts_exhausted",
    "retries_disabled",
    "not_replayable",
    "breaker",
    "call_cap",
    "hint_too_long",
    "deadline",
    "budget_exhausted",
];

/// What a call weighs in the moving average.
const WEIGHT: f64 = 0.01;

pub(super) struct CallMetrics {
    dependency: &'static str,
    calls: Labelled,
    duration: Histogram,
    call_attempts: Histogram,
    amplification: Average,
    attempts: Labelled,
    retries: Labelled,
    denials: Labelled,
    backoff: Histogram,
    balance: Gauge,
    deadline_left: Histogram,
    parked: Gauge,
    fallbacks: Mutex<HashMap<(usize, bool), Counter>>,
}

impl CallMetrics {
    pub(super) fn register(dependency: &'static str) -> Self {
        let outcomes = CallOutcome::ALL.map(CallOutcome::as_str);
        let labelled = |name, label, values: &[&'static str]| {
            Labelled::register(name, dependency, label, values)
        };
        Self {
            dependency,
            calls: labelled(CALLS, "outcome", &outcomes),
            duration: histogram!(DURATION, "dependency" => dependency),
            call_attempts: histogram!(CALL_ATTEMPTS, "dependency" => dependency),
            amplification: Average {
                value: AtomicU64::new(NOTHING),
                gauge: gauge!(AMPLIFICATION, "dependency" => dependency),
            },
            attempts: labelled(ATTEMPTS, "verdict", &VERDICTS),
            retries: labelled(RETRIES, "reason", &RETRIED),
            denials: labelled(DENIALS, "reason", &DENIED),
            backoff: histogram!(BACKOFF, "dependency" => dependency),
            balance: gauge!(BALANCE, "dependency" => dependency),
            deadline_left: histogram!(DEADLINE_LEFT, "dependency" => dependency),
            parked: gauge!(PARKED, "dependency" => dependency),
            fallbacks: Mutex::default(),
        }
    }

    pub(super) fn attempt(&self, verdict: Option<Verdict>) {
        let verdict = verdict.as_ref().map_or(DROPPED, Verdict::as_str);
        self.attempts.count(verdict);
    }

    pub(super) fn ended(
        &self,
        outcome: CallOutcome,
        attempts: u32,
        elapsed: Duration,
        deadline_left: Option<Duration>,
    ) {
        self.calls.count(outcome.as_str());
        self.duration.record(elapsed);
        self.call_attempts.record(attempts);
        self.amplification.add(f64::from(attempts));
        if let Some(left) = deadline_left {
            self.deadline_left.record(left);
        }
    }

    pub(super) fn balance(&self, balance: Option<f64>) {
        if let Some(balance) = balance {
            self.balance.set(balance);
        }
    }

    pub(super) fn parked(&self, more: f64) {
        self.parked.increment(more);
    }

    pub(super) fn retry(&self, delay: Duration, verdict: Verdict) {
        self.retries.count(verdict.as_str());
        self.backoff.record(delay);
    }

    pub(super) fn denied(&self, stopped: Stopped) {
        if stopped != Stopped::NotRetryable {
            self.denials.count(stopped.as_str());
        }
    }

    pub(super) fn fallback(&self, entry: usize, served: bool) {
        let lock = || {
            self.fallbacks
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        let known = lock().get(&(entry, served)).cloned();
        let counter = known.unwrap_or_else(|| {
            // Outside of the lock, as the recorder is another's code.
            let counter = counter!(
                FALLBACKS,
                "dependency" => self.dependency,
                "entry" => entry.to_string(),
                "result" => if served { "served" } else { "failed" },
            );
            lock().insert((entry, served), counter.clone());
            counter
        });
        counter.increment(1);
    }
}

/// One counter for each value of a label.
pub(super) struct Labelled {
    name: &'static str,
    dependency: &'static str,
    label: &'static str,
    known: Box<[(&'static str, Counter)]>,
}

impl Labelled {
    pub(super) fn register(
        name: &'static str,
        dependency: &'static str,
        label: &'static str,
        values: &[&'static str],
    ) -> Self {
        let known = values.iter().map(|value| {
            let labels = [("dependency", dependency), (label, *value)];
            (*value, counter!(name, &labels))
        });
        Self {
            name,
            dependency,
            label,
            known: known.collect(),
        }
    }

    pub(super) fn count(&self, value: &'static str) {
        match self.known.iter().find(|(known, _)| *known == value) {
            Some((_, counter)) => counter.increment(1),
            None => {
                let labels = [("dependency", self.dependency), (self.label, value)];
                counter!(self.name, &labels).increment(1);
            }
        }
    }
}

/// A moving average over all threads.
struct Average {
    /// The bits of a number.
    value: AtomicU64,
    gauge: Gauge,
}

/// No call yet: the bits of a number that no average is.
const NOTHING: u64 = u64::MAX;

impl Average {
    /// Relaxed: the word stands for itself alone.
    fn add(&self, next: f64) {
        let averaged = |bits| {
            if bits == NOTHING {
                return next;
            }
            let before = f64::from_bits(bits);
            before + (next - before) * WEIGHT
        };
        let (new, old) = (Ordering::Relaxed, Ordering::Relaxed);
        let updated = |bits| Some(averaged(bits).to_bits());
        // The closure always gives a value, so both are the bits before.
        let before = self
            .value
            .fetch_update(new, old, updated)
            .unwrap_or_else(|bits| bits);
        self.gauge.set(averaged(before));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_average_begins_at_the_first_call_and_follows_slowly() {
        let average = Average {
            value: AtomicU64::new(NOTHING),
            gauge: Gauge::noop(),
        };
        let value = || f64::from_bits(average.value.load(Ordering::Relaxed));
        average.add(3.0);
        assert_eq!(value(), 3.0);
        average.add(1.0);
        assert!((value() - 2.98).abs() < 1e-9);
        for _ in 0..1_000 {
            average.add(0.0);
        }
        assert!(value() < 0.001);
    }

    #[test]
    fn the_label_values_are_those_that_the_types_have() {
        for verdict in [
            Verdict::success(),
            Verdict::transient(),
            Verdict::overloaded(None),
            Verdict::unreachable(),
            Verdict::throttled(None),
            Verdict::ambiguous(),
            Verdict::terminal(),
            Verdict::blocked(),
            Verdict::refused_below(),
        ] {
            assert!(VERDICTS.contains(&verdict.as_str()));
            let again = verdict.again() == crate::Again::AfterDelay;
            assert_eq!(RETRIED.contains(&verdict.as_str()), again);
        }
        for stopped in [
            Stopped::NotIdempotent,
            Stopped::AttemptsExhausted,
            Stopped::RetriesDisabled,
            Stopped::NotReplayable,
            Stopped::HintTooLong,
            Stopped::Deadline,
            Stopped::BudgetExhausted,
        ] {
            assert!(DENIED.contains(&stopped.as_str()));
        }
    }
}
