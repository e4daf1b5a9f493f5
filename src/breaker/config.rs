//! What makes a breaker open, for how long, and what closes it again.

use std::time::Duration;

use crate::config::ConfigError;

/// Over what a failure rate is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub(crate) kind: WindowKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WindowKind {
    Count(u32),
    Time(Duration),
}

impl Window {
    /// The last `calls` outcomes, however old. Suits steady traffic; with
    /// little of it a breaker judges by news from hours ago.
    #[must_use]
    pub const fn count(calls: u32) -> Self {
        let kind = WindowKind::Count(calls);
        Self { kind }
    }

    /// The outcomes of the last `length`, kept in ten slots: what is older
    /// leaves the window a tenth of its length at a time.
    #[must_use]
    pub const fn time(length: Duration) -> Self {
        let kind = WindowKind::Time(length);
        Self { kind }
    }
}

/// Settings of a [`Breaker`](crate::Breaker).
///
/// Trip rules are combined at will; the first that holds opens the breaker.
/// Impossible settings are errors when the breaker or the policy is built.
///
/// # Default
///
/// [`BreakerConfig::default`] opens at a failure rate of 50 % over at least
/// 20 calls in 10 seconds, or when the last 5 calls in those 10 seconds all
/// failed. The rate with a minimum keeps a blip from opening it, the last five
/// catch a dead dependency behind slow traffic.
///
/// | setting | default | why |
/// |---|---|---|
/// | open time | 5 s, ×2 per failed recovery, to 60 s | short enough to notice a restart, growing so that a long outage is not probed all day |
/// | jitter on the open time | up to +25 %, never less | a fleet that opened together should not probe together |
/// | probes, successes | 1, 1 | the smallest load that can prove anything |
/// | probe lease | 60 s | a probe that never comes back must not hold the breaker half-open |
/// | largest hint taken for the open time | 5 min | the dependency may ask for more time, not for ever |
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use steadfast::{Breaker, BreakerConfig, Window};
///
/// let config = BreakerConfig::failure_rate(0.5)
///     .window(Window::time(Duration::from_secs(10)))
///     .min_calls(20)
///     .or_consecutive(8)
///     .open_time(Duration::from_secs(5));
/// let breaker = Breaker::new("inventory", config)?;
///
/// let error = Breaker::new("inventory", BreakerConfig::failure_rate(1.5)).unwrap_err();
/// assert_eq!(error.field(), "breaker.failure_rate");
/// # Ok::<(), steadfast::ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use = "settings do nothing until a breaker or a policy is built from them"]
pub struct BreakerConfig {
    consecutive: Option<u32>,
    failure_rate: Option<f64>,
    window: Window,
    min_calls: Option<u32>,
    last_failed: Option<u32>,
    open_time: Duration,
    growth: f64,
    max_open_time: Option<Duration>,
    open_jitter: f64,
    max_hint_open: Duration,
    probes: u32,
    successes: u32,
    probe_lease: Duration,
}

const DEFAULT_MIN_CALLS: u32 = 20;
const DEFAULT_MAX_OPEN: Duration = Duration::from_secs(60);

impl Default for BreakerConfig {
    fn default() -> Self {
        Self::failure_rate(0.5).last_failed(5)
    }
}

impl BreakerConfig {
    const fn without_rules() -> Self {
        Self {
            consecutive: None,
            failure_rate: None,
            window: Window::time(Duration::from_secs(10)),
            min_calls: None,
            last_failed: None,
            open_time: Duration::from_secs(5),
            growth: 2.0,
            max_open_time: None,
            open_jitter: 0.25,
            max_hint_open: Duration::from_secs(300),
            probes: 1,
            successes: 1,
            probe_lease: Duration::from_secs(60),
        }
    }

    /// Opens after `failures` failures with no success between them, however
    /// far apart. Simple, but on little traffic a blip can do it, and a
    /// dependency that fails nine times out of ten may never.
    pub const fn consecutive(failures: u32) -> Self {
        Self::without_rules().or_consecutive(failures)
    }

    /// Opens when at least this share of the calls in the window failed, from
    /// above 0 to 1.
    pub const fn failure_rate(rate: f64) -> Self {
        Self::without_rules().or_failure_rate(rate)
    }

    /// Adds the rule of [`consecutive`](Self::consecutive).
    pub const fn or_consecutive(mut self, failures: u32) -> Self {
        self.consecutive = Some(failures);
        self
    }

    /// Adds the rule of [`failure_rate`](Self::failure_rate).
    pub const fn or_failure_rate(mut self, rate: f64) -> Self {
        self.failure_rate = Some(rate);
        self
    }

    /// Over what the rate is taken. Default: the last 10 seconds.
    pub const fn window(mut self, window: Window) -> Self {
        self.window = window;
        self
    }

    /// How many calls the window must hold before the rate counts. Default:
    /// 20, or the size of a smaller count window.
    pub const fn min_calls(mut self, calls: u32) -> Self {
        self.min_calls = Some(calls);
        self
    }

    /// Opens as well when the last `calls` calls in the window all failed,
    /// even below the minimum. Off unless asked for; 5 in the default
    /// settings.
    pub const fn last_failed(mut self, calls: u32) -> Self {
        self.last_failed = Some(calls);
        self
    }

    /// How long it stays open the first time, from the outcome that opened it.
    pub const fn open_time(mut self, open_time: Duration) -> Self {
        self.open_time = open_time;
        self
    }

    /// By what the open time is multiplied after each failed recovery; 1
    /// switches growth off. One step is forgotten for each
    /// [`max_open_time`](Self::max_open_time) spent closed.
    pub const fn growth(mut self, factor: f64) -> Self {
        self.growth = factor;
        self
    }

    /// Where growth ends. Default: 60 s, or the open time if that is longer.
    pub const fn max_open_time(mut self, longest: Duration) -> Self {
        self.max_open_time = Some(longest);
        self
    }

    /// The largest share of itself that is added to each open time at random;
    /// 0 switches jitter off.
    pub const fn open_jitter(mut self, share: f64) -> Self {
        self.open_jitter = share;
        self
    }

    /// The longest wait named by the dependency that an open time is stretched
    /// to.
    pub const fn max_hint_open(mut self, longest: Duration) -> Self {
        self.max_hint_open = longest;
        self
    }

    /// How many calls one half-open period admits. They may run at once.
    pub const fn probes(mut self, probes: u32) -> Self {
        self.probes = probes;
        self
    }

    /// How many of the probes must succeed to close the breaker; the first
    /// that fails opens it again.
    pub const fn successes(mut self, successes: u32) -> Self {
        self.successes = successes;
        self
    }

    /// After how long without news from its probes a half-open breaker sends
    /// new ones. A policy wants it to be no shorter than the attempt timeout.
    pub const fn probe_lease(mut self, lease: Duration) -> Self {
        self.probe_lease = lease;
        self
    }

    /// The settings as the engine uses them, or which of them is impossible.
    pub(crate) fn check(&self) -> Result<Rules, ConfigError> {
        let rate = self.failure_rate.map(rate_in_parts).transpose()?;
        at_least_one("breaker.consecutive", self.consecutive)?;
        at_least_one("breaker.last_failed", self.last_failed)?;
        at_least_one("breaker.min_calls", self.min_calls)?;
        at_least_one("breaker.probes", Some(self.probes))?;
        at_least_one("breaker.successes", Some(self.successes))?;
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
            recovery: self.check_recovery()?,
        })
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

    fn check_recovery(&self) -> Result<Recovery, ConfigError> {
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
            }),
        }
    }
}

const SHORTEST_WINDOW: Duration = Duration::from_millis(10);
const LARGEST_WINDOW: u32 = 1_000_000;

/// Rates are compared as whole parts of this, so that 0.29 over 100 calls is
/// reached by the 29th failure: as a float it is not.
pub(crate) const PARTS: u32 = 1_000_000_000;

fn rate_in_parts(rate: f64) -> Result<u32, ConfigError> {
    if rate > 0.0 && rate <= 1.0 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let parts = (rate * f64::from(PARTS)).round() as u32;
        return Ok(parts.max(1));
    }
    let problem = "must be above 0 and at most 1";
    Err(ConfigError::new("breaker.failure_rate", rate, problem))
}

fn at_least_one(field: &'static str, value: Option<u32>) -> Result<(), ConfigError> {
    match value {
        Some(0) => Err(ConfigError::new(field, 0, "must be at least 1")),
        _ => Ok(()),
    }
}

/// Checked trip rules.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) consecutive: Option<u32>,
    /// In billionths, see [`PARTS`].
    pub(crate) rate: Option<u32>,
    pub(crate) window: WindowKind,
    pub(crate) min_calls: u32,
    pub(crate) last_failed: Option<u32>,
    pub(crate) recovery: Recovery,
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
}
