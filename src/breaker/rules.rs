//! Settings as the engine uses them, once they are known to work.

use std::time::Duration;

use super::config::{BreakerConfig, WindowKind};
use crate::config::ConfigError;

const DEFAULT_MIN_CALLS: u32 = 20;
const DEFAULT_MAX_OPEN: Duration = Duration::from_secs(60);

impl BreakerConfig {
    /// The settings as the engine uses them, or which of them is impossible.
    pub(crate) fn check(&self) -> Result<Rules, ConfigError> {
        let rate = self.failure_rate;
        let rate = rate.map(|rate| rate_in_parts("breaker.failure_rate", rate));
        let rate = rate.transpose()?;
        let slow = self.check_slow_calls()?;
        at_least_one("breaker.consecutive", self.consecutive)?;
        at_least_one("breaker.last_failed", self.last_failed)?;
        at_least_one("breaker.min_calls", self.min_calls)?;
        at_least_one("breaker.probes", Some(self.probes))?;
        at_least_one("breaker.successes", Some(self.successes))?;
        at_least_one("breaker.concurrency_limit", self.concurrency_limit)?;
        let min_calls = self.check_window()?;
        if self.successes > self.probes {
            let problem = "more successes than probes can never be reached";
            return Err(ConfigError::new(
                "breaker.successes",
                self.successes,
                problem,
            ));
        }
        Ok(Rules {
            consecutive: self.consecutive,
            rate,
            window: self.window.kind,
            min_calls,
            last_failed: self.last_failed,
            slow,
            abandoned_after: self.abandoned_after,
            concurrency_limit: self.concurrency_limit,
            recovery: self.check_recovery(rate, min_calls)?,
        })
    }

    fn check_slow_calls(&self) -> Result<Option<SlowCalls>, ConfigError> {
        let Some((threshold, rate)) = self.slow_calls else {
            return Ok(None);
        };
        if threshold.is_zero() {
            let problem = "a threshold of 0 makes every call slow";
            return Err(ConfigError::new("breaker.slow_calls", "0ns", problem));
        }
        let rate = rate_in_parts("breaker.slow_calls", rate)?;
        Ok(Some(SlowCalls { threshold, rate }))
    }

    fn check_window(&self) -> Result<u32, ConfigError> {
        let calls = match self.window.kind {
            WindowKind::Count(calls) => calls,
            WindowKind::Time(length) => {
                if length < SHORTEST_WINDOW {
                    let value = format!("{length:?}");
                    let problem = "a time window is at least 10 ms";
                    return Err(ConfigError::new("breaker.window", value, problem));
                }
                LARGEST_WINDOW
            }
        };
        if calls == 0 || calls > LARGEST_WINDOW {
            let problem = "a count window holds 1 to 1,000,000 calls";
            return Err(ConfigError::new("breaker.window", calls, problem));
        }
        let min_calls = self.min_calls.unwrap_or(DEFAULT_MIN_CALLS.min(calls));
        if min_calls > calls {
            let problem = "the window never holds as many calls";
            return Err(ConfigError::new("breaker.min_calls", min_calls, problem));
        }
        if let Some(last) = self.last_failed.filter(|last| *last > calls) {
            let problem = "the window never holds as many calls";
            return Err(ConfigError::new("breaker.last_failed", last, problem));
        }
        Ok(min_calls)
    }

    fn check_recovery(&self, rate: Option<u32>, min_calls: u32) -> Result<Recovery, ConfigError> {
        let longest = self
            .max_open_time
            .unwrap_or(DEFAULT_MAX_OPEN.max(self.open_time));
        let problem = if self.open_time.is_zero() {
            Some(("breaker.open_time", "0ns".to_owned(), "must be above 0"))
        } else if longest < self.open_time {
            let value = format!("{longest:?}");
            Some(("breaker.max_open_time", value, "is below the open time"))
        } else if !(self.growth >= 1.0 && self.growth.is_finite()) {
            let value = self.growth.to_string();
            Some(("breaker.growth", value, "must be finite and at least 1"))
        } else if !(0.0..=10.0).contains(&self.open_jitter) {
            let value = self.open_jitter.to_string();
            Some(("breaker.open_jitter", value, "must be from 0 to 10"))
        } else if !(0.0..=1.0).contains(&self.ramp_from) {
            let value = self.ramp_from.to_string();
            Some(("breaker.ramp_from", value, "must be from 0 to 1"))
        } else if self.probe_lease.is_zero() {
            Some(("breaker.probe_lease", "0ns".to_owned(), "must be above 0"))
        } else {
            None
        };
        match problem {
            Some((field, value, problem)) => Err(ConfigError::new(field, value, problem)),
            None => Ok(Recovery {
                open_time: self.open_time,
                growth: self.growth,
                max_open_time: longest,
                open_jitter: self.open_jitter,
                max_hint_open: self.max_hint_open,
                probes: self.probes,
                successes: self.successes,
                probe_lease: self.probe_lease,
                ramp: self.ramp,
                ramp_from: self.ramp_from,
                sample_size: rate.map_or(SAMPLE, |_| min_calls),
                sample_rate: rate.unwrap_or(PARTS / 2),
                sample_run: [self.consecutive, self.last_failed]
                    .into_iter()
                    .flatten()
                    .fold(SAMPLE_RUN, u32::min),
            }),
        }
    }
}

/// A recovery's sample where no failure rate says how large it is.
const SAMPLE: u32 = 10;
/// The longest run of failures that a recovery takes.
const SAMPLE_RUN: u32 = 5;

const SHORTEST_WINDOW: Duration = Duration::from_millis(10);
pub(super) const LARGEST_WINDOW: u32 = 1_000_000;

/// Rates are compared as whole parts of this, so that 0.29 over 100 calls is
/// reached by the 29th failure: as a float it is not.
pub(crate) const PARTS: u32 = 1_000_000_000;

fn rate_in_parts(field: &'static str, rate: f64) -> Result<u32, ConfigError> {
    if rate > 0.0 && rate <= 1.0 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let parts = (rate * f64::from(PARTS)).round() as u32;
        return Ok(parts.max(1));
    }
    let problem = "must be above 0 and at most 1";
    Err(ConfigError::new(field, rate, problem))
}

fn at_least_one(field: &'static str, value: Option<u32>) -> Result<(), ConfigError> {
    match value {
        Some(0) => Err(ConfigError::new(field, 0, "must be at least 1")),
        _ => Ok(()),
    }
}

/// Checked trip rules.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    pub(crate) consecutive: Option<u32>,
    /// In billionths, see [`PARTS`].
    pub(crate) rate: Option<u32>,
    pub(crate) window: WindowKind,
    pub(crate) min_calls: u32,
    pub(crate) last_failed: Option<u32>,
    pub(crate) slow: Option<SlowCalls>,
    pub(crate) abandoned_after: Option<Duration>,
    pub(crate) concurrency_limit: Option<u32>,
    pub(crate) recovery: Recovery,
}

impl Rules {
    /// As a share.
    pub(crate) fn failure_rate(&self) -> Option<f64> {
        self.rate.map(|rate| f64::from(rate) / f64::from(PARTS))
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct SlowCalls {
    pub(crate) threshold: Duration,
    /// In billionths, see [`PARTS`].
    pub(crate) rate: u32,
}

/// Checked settings of what follows a trip.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recovery {
    pub(crate) open_time: Duration,
    pub(crate) growth: f64,
    pub(crate) max_open_time: Duration,
    pub(crate) open_jitter: f64,
    pub(crate) max_hint_open: Duration,
    pub(crate) probes: u32,
    pub(crate) successes: u32,
    pub(crate) probe_lease: Duration,
    pub(crate) ramp: Duration,
    pub(crate) ramp_from: f64,
    /// How many calls of a recovery make a sample,
    pub(crate) sample_size: u32,
    /// what share of them fails it,
    pub(crate) sample_rate: u32,
    /// and how many failures in a row.
    pub(crate) sample_run: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::breaker::config::Window;

    fn refused(config: &BreakerConfig) -> Option<String> {
        config.check().err().map(|error| error.field().to_owned())
    }

    #[test]
    fn a_rate_is_above_nothing_and_at_most_all() {
        for rate in [0.0, -0.5, 1.000_001, f64::NAN, f64::INFINITY] {
            let config = BreakerConfig::failure_rate(rate);
            assert_eq!(
                refused(&config).as_deref(),
                Some("breaker.failure_rate"),
                "{rate}"
            );
            let config = BreakerConfig::consecutive(1).slow_calls(SHORTEST_WINDOW, rate);
            assert_eq!(
                refused(&config).as_deref(),
                Some("breaker.slow_calls"),
                "{rate}"
            );
        }
        for rate in [f64::MIN_POSITIVE, 1.0] {
            let config = BreakerConfig::failure_rate(rate).slow_calls(SHORTEST_WINDOW, rate);
            assert_eq!(refused(&config).as_deref(), None, "{rate}");
        }
        let rate = |config: BreakerConfig| config.check().unwrap().failure_rate();
        assert_eq!(rate(BreakerConfig::failure_rate(0.25)), Some(0.25));
        assert_eq!(rate(BreakerConfig::consecutive(1)), None);
    }

    #[test]
    fn a_window_that_is_too_small_or_too_large_is_refused() {
        let tick = Duration::from_nanos(1);
        for (window, is_refused) in [
            (Window::count(0), true),
            (Window::count(1), false),
            (Window::count(1_000_000), false),
            (Window::count(1_000_001), true),
            (Window::time(Duration::from_millis(10)), false),
            (Window::time(Duration::from_millis(10) - tick), true),
        ] {
            let config = BreakerConfig::failure_rate(0.5).window(window);
            let expected = is_refused.then_some("breaker.window");
            assert_eq!(refused(&config).as_deref(), expected, "{window:?}");
        }
    }

    #[test]
    fn a_recoverys_sample_follows_the_trip_rules_or_is_half_of_ten() {
        let sample = |config: BreakerConfig| {
            let recovery = config.check().unwrap().recovery;
            (
                recovery.sample_size,
                recovery.sample_rate,
                recovery.sample_run,
            )
        };
        let half = PARTS / 2;
        assert_eq!(sample(BreakerConfig::consecutive(9)), (10, half, 5));
        assert_eq!(sample(BreakerConfig::consecutive(3)), (10, half, 3));
        let rated = BreakerConfig::failure_rate(0.25).min_calls(50);
        assert_eq!(sample(rated.clone()), (50, PARTS / 4, 5));
        assert_eq!(sample(rated.last_failed(4)), (50, PARTS / 4, 4));
    }
}
