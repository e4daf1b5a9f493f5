//! Counting outcomes while a breaker is closed, without a lock.
//!
//! A [`Meter`] holds what the trip rules need and answers one question: does
//! this outcome open the breaker? Its parts know nothing of the state machine
//! but a number: `period` grows with each closed period, and what was counted
//! in an older one is never mixed with the present one, whatever a slow thread
//! does.

mod count;
mod run;
mod time;

use self::count::CountWindow;
use self::run::Run;
use self::time::TimeWindow;
use super::config::{PARTS, Rules, WindowKind};

/// Outcomes in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) total: u64,
    pub(crate) failures: u64,
}

#[derive(Debug)]
enum Rolling {
    None,
    Count(CountWindow),
    Time(TimeWindow),
}

#[derive(Debug)]
pub(crate) struct Meter {
    rules: Rules,
    run: Option<Run>,
    rolling: Rolling,
}

/// The closed period that an outcome belongs to, read before the caller makes
/// sure that this period is still the current one: what is read afterwards may
/// already belong to the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Period {
    generation: u32,
    offset: u64,
}

impl Meter {
    pub(crate) fn new(rules: Rules) -> Self {
        let keeps_run = rules.consecutive.is_some() || rules.last_failed.is_some();
        let keeps_window = rules.rate.is_some() || rules.last_failed.is_some();
        let rolling = match rules.window {
            _ if !keeps_window => Rolling::None,
            WindowKind::Count(calls) => Rolling::Count(CountWindow::new(calls)),
            WindowKind::Time(length) => Rolling::Time(TimeWindow::new(length)),
        };
        Self {
            rules,
            run: keeps_run.then(Run::new),
            rolling,
        }
    }

    pub(crate) const fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Whether anything here needs to know the time.
    pub(crate) const fn needs_time(&self) -> bool {
        matches!(self.rolling, Rolling::Time(_))
    }

    pub(crate) fn period(&self, generation: u32) -> Period {
        let offset = match &self.rolling {
            Rolling::Time(window) => window.offset(),
            Rolling::None | Rolling::Count(_) => 0,
        };
        Period { generation, offset }
    }

    /// Begins the closed period of this generation. The caller publishes the
    /// generation afterwards, so nobody counts into it yet.
    pub(crate) fn begin_period(&self, generation: u32) {
        if let Some(run) = &self.run {
            run.begin(generation);
        }
        match &self.rolling {
            Rolling::None => {}
            Rolling::Count(window) => window.begin(generation),
            Rolling::Time(window) => window.begin(),
        }
    }

    /// Counts a success and tells whether it opens the breaker: it can, by
    /// completing the minimum, or because old successes have left the window.
    pub(crate) fn success(&self, period: Period, now: u64) -> bool {
        if let Some(run) = &self.run {
            run.success(period.generation);
        }
        let counts = match &self.rolling {
            Rolling::None => return false,
            Rolling::Count(window) => window.record(period.generation, false),
            Rolling::Time(window) => window.success(period.offset, now, self.rules.min_calls),
        };
        counts.is_some_and(|counts| self.rate_reached(counts))
    }

    /// Counts a failure and tells whether it opens the breaker.
    pub(crate) fn failure(&self, period: Period, now: u64) -> bool {
        let run = self.run.as_ref();
        let run = run.map_or(0, |run| run.failure(period.generation));
        let counts = match &self.rolling {
            Rolling::None => None,
            Rolling::Count(window) => window.record(period.generation, true),
            Rolling::Time(window) => window.failure(period.offset, now),
        };
        self.rules.consecutive.is_some_and(|limit| run >= limit)
            || counts.is_some_and(|counts| {
                self.rate_reached(counts) || self.last_all_failed(run, counts)
            })
    }

    /// `failures / total >= rate`, in whole numbers.
    fn rate_reached(&self, counts: Counts) -> bool {
        self.rules.rate.is_some_and(|rate| {
            counts.total >= u64::from(self.rules.min_calls)
                && u128::from(counts.failures) * u128::from(PARTS)
                    >= u128::from(counts.total) * u128::from(rate)
        })
    }

    /// The window holds the latest calls. So the last `k` are all in it if it
    /// holds at least `k`, and all failed if the run of failures is as long.
    fn last_all_failed(&self, run: u32, counts: Counts) -> bool {
        self.rules
            .last_failed
            .is_some_and(|last| run >= last && counts.total >= u64::from(last))
    }
}

#[cfg(test)]
mod tests;
