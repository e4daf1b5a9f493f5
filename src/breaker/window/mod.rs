//! Counting outcomes while a breaker is closed, without a lock.
//!
//! A [`Meter`] holds what the trip rules need and answers one question: does
//! this outcome open the breaker? Its parts know nothing of the state machine
//! but a number: each closed period has a generation of its own, and what was
//! counted in an older one is never mixed with the present one, whatever a
//! slow thread does.

mod count;
mod run;
mod thresholds;
mod time;

use std::time::Duration;

use self::count::CountWindow;
use self::run::Run;
use self::thresholds::Thresholds;
use self::time::TimeWindow;
use super::config::WindowKind;
use super::rules::Rules;
use crate::config::ConfigError;

/// Outcomes in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub(crate) struct Counts {
    #[cfg_attr(feature = "serde", serde(rename = "calls"))]
    pub(crate) total: u64,
    pub(crate) failures: u64,
}

#[derive(Debug)]
enum Rolling {
    Count(CountWindow),
    Time(TimeWindow),
}

/// The closed period that an outcome belongs to, read before the caller makes
/// sure that this period is still the current one: what is read afterwards may
/// already belong to the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Period {
    generation: u32,
    offset: u64,
}

/// What a window is told of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) period: Period,
    pub(crate) now: u64,
    pub(crate) failed: bool,
    /// How long it ran; asked for only where slow calls count.
    pub(crate) ran: Duration,
}

#[derive(Debug)]
pub(crate) struct Meter {
    window: WindowKind,
    thresholds: Thresholds,
    run: Option<Run>,
    failures: Option<Rolling>,
    /// Boxed, as few have it and it is as large as the rest.
    slow: Option<Box<Rolling>>,
}

impl Meter {
    pub(crate) fn new(rules: &Rules) -> Self {
        let keeps_run = rules.consecutive.is_some() || rules.last_failed.is_some();
        let keeps_window = rules.rate.is_some() || rules.last_failed.is_some();
        let rolling = || Rolling::new(rules.window);
        Self {
            window: rules.window,
            thresholds: Thresholds::new(rules),
            run: keeps_run.then(Run::new),
            failures: keeps_window.then(rolling),
            slow: rules.slow.map(|_| Box::new(rolling())),
        }
    }

    /// Uses other thresholds from now on, over what has been counted.
    ///
    /// # Errors
    ///
    /// Rules for which nothing has been counted so far.
    pub(crate) fn reconfigure(&self, rules: &Rules) -> Result<(), ConfigError> {
        let refuse = |field, value: String| {
            let problem = "nothing has been counted for it; build a new breaker";
            Err(ConfigError::new(field, value, problem))
        };
        let windowed = self.failures.is_some() || self.slow.is_some();
        if windowed && rules.window != self.window {
            return refuse("breaker.window", format!("{:?}", rules.window));
        }
        if let (Some(consecutive), None) = (rules.consecutive, &self.run) {
            return refuse("breaker.consecutive", consecutive.to_string());
        }
        if let (Some(rate), None) = (rules.failure_rate(), &self.failures) {
            return refuse("breaker.failure_rate", rate.to_string());
        }
        let keeps_last = self.failures.is_some() && self.run.is_some();
        if let (Some(last), false) = (rules.last_failed, keeps_last) {
            return refuse("breaker.last_failed", last.to_string());
        }
        if let (Some(slow), None) = (rules.slow, &self.slow) {
            return refuse("breaker.slow_calls", format!("{:?}", slow.threshold));
        }
        self.thresholds.set(rules);
        Ok(())
    }

    /// Whether a success needs to know the time.
    pub(crate) const fn needs_time(&self) -> bool {
        matches!(self.failures, Some(Rolling::Time(_))) || self.slow.is_some()
    }

    pub(crate) const fn counts_slow_calls(&self) -> bool {
        self.slow.is_some()
    }

    /// Whether a call that ran so long is slow.
    pub(crate) fn is_slow(&self, ran: Duration) -> bool {
        self.thresholds.is_slow(ran)
    }

    pub(crate) fn period(&self, generation: u32) -> Period {
        let offset = match self.rollings().next() {
            Some(Rolling::Time(window)) => window.offset(),
            Some(Rolling::Count(_)) | None => 0,
        };
        Period { generation, offset }
    }

    /// Begins the closed period of this generation. The caller has shown
    /// before that all older ones are over, and lets nobody into this one
    /// until it has begun.
    pub(crate) fn begin_period(&self, generation: u32) {
        if let Some(run) = &self.run {
            run.begin(generation);
        }
        for rolling in self.rollings() {
            match rolling {
                Rolling::Count(window) => window.begin(generation),
                Rolling::Time(window) => window.begin(),
            }
        }
    }

    /// All of them are of one kind, and begin their periods together.
    fn rollings(&self) -> impl Iterator<Item = &Rolling> {
        self.failures.iter().chain(self.slow.as_deref())
    }

    /// Counts a call and tells whether it opens the breaker. A success can, by
    /// completing the minimum, or because old successes have left the window.
    pub(crate) fn trips(&self, call: Call) -> bool {
        let generation = call.period.generation;
        let run = match &self.run {
            None => 0,
            Some(run) if call.failed => run.failure(generation),
            Some(run) => {
                run.success(generation);
                0
            }
        };
        let minimum = self.thresholds.min_calls();
        let failures = self.failures.as_ref();
        let failures = failures.and_then(|window| window.count(call, call.failed, minimum));
        // Others may have failed between the run and the window: the last in
        // the window sees the run of all of them.
        let run = match &self.run {
            Some(kept) if call.failed => run.max(kept.length(generation)),
            _ => run,
        };
        let by_slowness = self.slow.as_ref().is_some_and(|window| {
            let slow = self.thresholds.is_slow(call.ran);
            let counts = window.count(call, slow, minimum);
            counts.is_some_and(|counts| self.thresholds.too_many_slow(counts))
        });
        by_slowness
            || self.thresholds.run_reached(run)
            || failures.is_some_and(|counts| {
                self.thresholds.rate_reached(counts) || self.thresholds.last_failed(run, counts)
            })
    }

    /// What the window holds now.
    pub(crate) fn counts(&self, now: u64) -> Counts {
        match &self.failures {
            None => Counts::default(),
            Some(Rolling::Count(window)) => window.counts(),
            Some(Rolling::Time(window)) => window.counts(now),
        }
    }
}

impl Rolling {
    fn new(window: WindowKind) -> Self {
        match window {
            WindowKind::Count(calls) => Self::Count(CountWindow::new(calls)),
            WindowKind::Time(length) => Self::Time(TimeWindow::new(length)),
        }
    }

    /// Counts a call as good or bad; the window's contents where it can trip.
    fn count(&self, call: Call, bad: bool, minimum: u32) -> Option<Counts> {
        let Period { generation, offset } = call.period;
        match self {
            Self::Count(window) => window.record(generation, bad),
            Self::Time(window) if bad => window.failure(offset, call.now),
            Self::Time(window) => window.success(offset, call.now, minimum),
        }
    }
}

#[cfg(test)]
mod tests;

#[cfg(all(test, steadfast_loom))]
mod models;
