//! What makes a breaker open, for how long, and what closes it again.

use std::time::Duration;

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
/// | recovery | 10 s from 10 % of the calls to all | one success does not prove capacity for the whole traffic |
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
    pub(super) consecutive: Option<u32>,
    pub(super) failure_rate: Option<f64>,
    pub(super) window: Window,
    pub(super) min_calls: Option<u32>,
    pub(super) last_failed: Option<u32>,
    pub(super) slow_calls: Option<(Duration, f64)>,
    pub(super) open_time: Duration,
    pub(super) growth: f64,
    pub(super) max_open_time: Option<Duration>,
    pub(super) open_jitter: f64,
    pub(super) max_hint_open: Duration,
    pub(super) probes: u32,
    pub(super) successes: u32,
    pub(super) probe_lease: Duration,
    pub(super) ramp: Duration,
    pub(super) ramp_from: f64,
    pub(super) abandoned_after: Option<Duration>,
    pub(super) concurrency_limit: Option<u32>,
    pub(super) seed: Option<u64>,
}

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
            slow_calls: None,
            open_time: Duration::from_secs(5),
            growth: 2.0,
            max_open_time: None,
            open_jitter: 0.25,
            max_hint_open: Duration::from_secs(300),
            probes: 1,
            successes: 1,
            probe_lease: Duration::from_secs(60),
            ramp: Duration::from_secs(10),
            ramp_from: 0.1,
            abandoned_after: None,
            concurrency_limit: None,
            seed: None,
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
    /// 20, or the size of a smaller count window. At most that size, and at
    /// most 1,000,000 for a time window, which a tenth of it can count.
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

    /// Opens as well when at least `rate` of the calls in the window took
    /// `threshold` or longer, whether they failed or not; the window and its
    /// minimum are those of the failure rate. Those that say nothing of its
    /// health, throttled or blocked, count here as little as there. Off unless
    /// asked for. A probe that is slow counts as failed.
    pub const fn slow_calls(mut self, threshold: Duration, rate: f64) -> Self {
        self.slow_calls = Some((threshold, rate));
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

    /// Where growth ends; the jitter comes on top, and a wait named by the
    /// dependency may be longer. Default: 60 s, or the open time if that is
    /// longer.
    pub const fn max_open_time(mut self, longest: Duration) -> Self {
        self.max_open_time = Some(longest);
        self
    }

    /// The largest share of itself that is added to each open time at random,
    /// the longest one included; 0 switches jitter off. From 0 to 10.
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

    /// How many of the probes must succeed to begin the recovery; the first
    /// that fails opens it again.
    pub const fn successes(mut self, successes: u32) -> Self {
        self.successes = successes;
        self
    }

    /// How long after its last probe went out a half-open breaker that still
    /// waits for news of them sends new ones. A policy wants it to be no
    /// shorter than the attempt timeout.
    pub const fn probe_lease(mut self, lease: Duration) -> Self {
        self.probe_lease = lease;
        self
    }

    /// How long the recovery takes after half-open, during which a share of
    /// the calls passes that grows from [`ramp_from`](Self::ramp_from) to all.
    /// A handful passes at any rate of calls, so that little traffic is not
    /// held back. A sample that fails opens the breaker again.
    pub const fn ramp(mut self, length: Duration) -> Self {
        self.ramp = length;
        self
    }

    /// The share of the calls with which a recovery begins, from 0 to 1.
    pub const fn ramp_from(mut self, share: f64) -> Self {
        self.ramp_from = share;
        self
    }

    /// No recovery: successful probes close the breaker at once.
    pub const fn no_ramp(self) -> Self {
        self.ramp(Duration::ZERO)
    }

    /// Calls that are dropped from outside after at least this time count as
    /// failures: whoever waited has given up on the dependency. Dropped sooner
    /// they count for nothing. Default: half of what an attempt may take, by the
    /// policy or by the attempt's layer; where that is not bounded they never
    /// count.
    pub const fn abandoned_after(mut self, time: Duration) -> Self {
        self.abandoned_after = Some(time);
        self
    }

    /// Refuses calls beyond this many in flight; during a recovery beyond its
    /// share of them. Such refusals are local and say nothing about health.
    /// Off unless asked for.
    pub const fn concurrency_limit(mut self, calls: u32) -> Self {
        self.concurrency_limit = Some(calls);
        self
    }

    /// Makes the jitter on the open times repeatable, for tests: breakers made
    /// with equal seeds and given the same outcomes open for the same times.
    /// Each breaker of a registry begins the sequence anew. Not for production:
    /// a fleet that starts from one seed probes in step. A breaker keeps what it
    /// was made with; [reconfigured](crate::Breaker::reconfigure) it draws on.
    ///
    /// # Default
    ///
    /// The thread's own generator, seeded by the operating system.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use steadfast::{Breaker, BreakerConfig};
    ///
    /// let open_for = || {
    ///     let breaker = Breaker::new("inventory", BreakerConfig::consecutive(1).seed(7)).unwrap();
    ///     breaker.admit().unwrap().failure();
    ///     breaker.snapshot().next_check()
    /// };
    /// assert_eq!(open_for(), open_for());
    /// # }
    /// ```
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }
}
