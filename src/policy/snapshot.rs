//! All that a policy knows at one instant, for a health endpoint.

use std::time::Duration;

use serde::{Serialize, Serializer};

use super::Policy;
use crate::breaker::BreakerSettings;
use crate::breaker::config::WindowKind;
use crate::breaker::rules::{PARTS, Recovery, Rules};
use crate::breaker::snapshot::{BreakerSnapshot, seconds};
use crate::moment::Moment;
use crate::retry::RetrySettings;
use crate::retry::budget::Terms;

/// All that a [`Policy`] knows at one instant; feature `serde`.
///
/// Meant to be serialised, for a health endpoint or a log: settings, state, and
/// the warnings of [`Policy::describe`]. Times are in seconds, shares from 0 to
/// 1, names in snake case; what is not there is `null`. Members may be added.
///
/// | member | value |
/// |---|---|
/// | `dependency` | the policy's name |
/// | `calls_in_flight` | calls that were begun, were not refused at once, and whose future is not dropped |
/// | `budget_balance` | as [`Policy::budget_balance`] |
/// | `breakers` | one [`BreakerSnapshot`] each, with its `key` if its registry names its keys (`Breakers::naming_keys`); all keys, so this is as long as the registry |
/// | `settings` | as last configured: `deadline_seconds`, `attempt_timeout_seconds`, `max_attempts`, `backoff`, `largest_hint_seconds`, `min_useful_time_seconds`, `retry_budget`, `breaker` |
/// | `warnings` | settings that do not agree, in sentences |
///
/// # Examples
///
/// ```
/// use steadfast::{BreakerState, Policy};
///
/// let policy = Policy::builder("inventory").build()?;
/// policy.breaker().unwrap().force_open("maintenance");
/// let snapshot = policy.snapshot();
/// assert_eq!(snapshot.breakers()[0].state(), BreakerState::ForcedOpen);
///
/// let json = serde_json::to_value(&snapshot)?;
/// assert_eq!(json["dependency"], "inventory");
/// assert_eq!(json["breakers"][0]["state"], "forced_open");
/// assert_eq!(json["settings"]["deadline_seconds"], 30.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Serialize)]
pub struct PolicySnapshot {
    dependency: &'static str,
    calls_in_flight: usize,
    budget_balance: Option<f64>,
    breakers: Vec<NamedBreaker>,
    settings: Settings,
    warnings: Vec<String>,
}

/// A breaker of a [`PolicySnapshot`], by its key where there are several.
#[derive(Clone, Debug, Serialize)]
pub struct NamedBreaker {
    key: Option<String>,
    #[serde(flatten)]
    breaker: BreakerSnapshot,
}

impl NamedBreaker {
    pub(crate) const fn new(key: Option<String>, breaker: BreakerSnapshot) -> Self {
        Self { key, breaker }
    }

    /// What its registry calls the key; `None` for a breaker without one.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }
}

impl std::ops::Deref for NamedBreaker {
    type Target = BreakerSnapshot;

    fn deref(&self) -> &BreakerSnapshot {
        &self.breaker
    }
}

impl PolicySnapshot {
    /// The dependency's name.
    #[must_use]
    pub const fn dependency(&self) -> &'static str {
        self.dependency
    }

    /// Calls that were begun, were not refused at once, and whose future is not
    /// dropped.
    #[must_use]
    pub const fn calls_in_flight(&self) -> usize {
        self.calls_in_flight
    }

    /// The retry budget's balance, as [`Policy::budget_balance`].
    #[must_use]
    pub const fn budget_balance(&self) -> Option<f64> {
        self.budget_balance
    }

    /// Its breakers: none, one, or one per key.
    #[must_use]
    pub fn breakers(&self) -> &[NamedBreaker] {
        &self.breakers
    }

    /// Settings that do not agree, in whole sentences.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

pub(super) fn snapshot<C, B: BreakerSettings>(policy: &Policy<C, B>) -> PolicySnapshot {
    let shared = &policy.shared;
    let retry = shared.settings.get();
    let breakers = &shared.stage.breakers;
    PolicySnapshot {
        dependency: shared.dependency,
        calls_in_flight: shared.handles(),
        budget_balance: policy.budget_balance(),
        breakers: breakers.snapshots(Moment::now()),
        settings: Settings {
            deadline: policy.total,
            attempt_timeout: shared.stage.attempt.timeout(),
            max_attempts: retry.max_attempts,
            backoff: Backoff::from(&*retry),
            largest_hint: retry.largest_hint,
            min_useful_time: retry.min_useful_time,
            retry_budget: shared.budget.as_ref().map(|budget| budget.terms().into()),
            breaker: breakers.rules().map(Breaker::from),
        },
        warnings: policy.describe().warnings().to_vec(),
    }
}

#[derive(Clone, Debug, Serialize)]
struct Settings {
    #[serde(rename = "deadline_seconds", serialize_with = "seconds::option")]
    deadline: Option<Duration>,
    #[serde(rename = "attempt_timeout_seconds", serialize_with = "seconds::option")]
    attempt_timeout: Option<Duration>,
    max_attempts: u32,
    backoff: Backoff,
    #[serde(rename = "largest_hint_seconds", serialize_with = "seconds::plain")]
    largest_hint: Duration,
    #[serde(rename = "min_useful_time_seconds", serialize_with = "seconds::plain")]
    min_useful_time: Duration,
    retry_budget: Option<Budget>,
    breaker: Option<Breaker>,
}

#[derive(Clone, Debug, Serialize)]
struct Backoff {
    #[serde(rename = "base_seconds", serialize_with = "seconds::plain")]
    base: Duration,
    #[serde(rename = "cap_seconds", serialize_with = "seconds::plain")]
    cap: Duration,
    factor: f64,
    full_jitter: bool,
}

impl From<&RetrySettings> for Backoff {
    fn from(retry: &RetrySettings) -> Self {
        let (base, cap, factor, full_jitter) = retry.backoff.terms();
        Self {
            base,
            cap,
            factor,
            full_jitter,
        }
    }
}

#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Budget {
    Ratio {
        ratio: f64,
        cap: f64,
        opening_balance: f64,
        refill_per_second: f64,
        refill_up_to: f64,
    },
    Concurrent {
        share: f64,
        min_concurrent: u32,
    },
}

impl From<Terms> for Budget {
    fn from(terms: Terms) -> Self {
        match terms {
            Terms::Bucket {
                ratio,
                cap,
                opening_balance,
                refill_per_second,
                refill_up_to,
            } => Self::Ratio {
                ratio,
                cap,
                opening_balance,
                refill_per_second,
                refill_up_to,
            },
            Terms::Concurrent {
                share,
                min_concurrent,
            } => Self::Concurrent {
                share,
                min_concurrent,
            },
        }
    }
}

#[derive(Clone, Debug, Serialize)]
struct Breaker {
    consecutive: Option<u32>,
    failure_rate: Option<f64>,
    slow_call_rate: Option<f64>,
    #[serde(rename = "slow_call_seconds", serialize_with = "seconds::option")]
    slow_call: Option<Duration>,
    window: Window,
    min_calls: u32,
    last_failed: Option<u32>,
    #[serde(rename = "abandoned_after_seconds", serialize_with = "seconds::option")]
    abandoned_after: Option<Duration>,
    concurrency_limit: Option<u32>,
    #[serde(flatten)]
    recovery: AfterTrip,
}

#[derive(Clone, Debug)]
struct Window(WindowKind);

impl Serialize for Window {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            WindowKind::Count(calls) => serializer.collect_map([("calls", f64::from(calls))]),
            WindowKind::Time(length) => serializer.collect_map([("seconds", length.as_secs_f64())]),
        }
    }
}

#[derive(Clone, Debug, Serialize)]
struct AfterTrip {
    #[serde(rename = "open_time_seconds", serialize_with = "seconds::plain")]
    open_time: Duration,
    growth: f64,
    #[serde(rename = "max_open_time_seconds", serialize_with = "seconds::plain")]
    max_open_time: Duration,
    open_jitter: f64,
    #[serde(rename = "max_hint_open_seconds", serialize_with = "seconds::plain")]
    max_hint_open: Duration,
    probes: u32,
    successes: u32,
    #[serde(rename = "probe_lease_seconds", serialize_with = "seconds::plain")]
    probe_lease: Duration,
    #[serde(rename = "ramp_seconds", serialize_with = "seconds::plain")]
    ramp: Duration,
    ramp_from: f64,
}

impl From<Rules> for Breaker {
    fn from(rules: Rules) -> Self {
        let slow = rules.slow;
        Self {
            consecutive: rules.consecutive,
            failure_rate: rules.failure_rate(),
            slow_call_rate: slow.map(|slow| f64::from(slow.rate) / f64::from(PARTS)),
            slow_call: slow.map(|slow| slow.threshold),
            window: Window(rules.window),
            min_calls: rules.min_calls,
            last_failed: rules.last_failed,
            abandoned_after: rules.abandoned_after,
            concurrency_limit: rules.concurrency_limit,
            recovery: rules.recovery.into(),
        }
    }
}

impl From<Recovery> for AfterTrip {
    fn from(recovery: Recovery) -> Self {
        Self {
            open_time: recovery.open_time,
            growth: recovery.growth,
            max_open_time: recovery.max_open_time,
            open_jitter: recovery.open_jitter,
            max_hint_open: recovery.max_hint_open,
            probes: recovery.probes,
            successes: recovery.successes,
            probe_lease: recovery.probe_lease,
            ramp: recovery.ramp,
            ramp_from: recovery.ramp_from,
        }
    }
}
