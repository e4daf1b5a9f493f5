//! Counting outcomes while a breaker is closed, without a lock.
//!
//! A [`Meter`] holds what the trip rules need and answers one question: does
//! this outcome open the breaker? Its parts know nothing of the state machine
//! but a number: each closed period has a generation of its own, and what was
//! counted in an older one is never mixed with the present one, whatever a
//! slow thread does.
//!
//! What is counted is fixed for a breaker's life (its [`Plan`]); the
//! [`Thresholds`] may change. Both stand apart from the counts: the breakers of
//! a registry share them.

mod count;
mod plan;
mod run;
mod spread;
mod thresholds;
mod time;

use self::count::CountWindow;
pub(super) use self::plan::Plan;
use self::run::Run;
pub(super) use self::thresholds::Thresholds;
use self::time::TimeWindow;
use super::config::WindowKind;
use crate::span::Span;

/// Outcomes in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub(crate) struct Counts {
    #[cfg_attr(feature = "serde", serde(rename = "calls"))]
    pub(crate) total: u64,
    pub(crate) failures: u64,
}

/// What a meter is told of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    /// Of the closed period in which it was admitted, which was still the
    /// current one when the time was read.
    pub(crate) generation: u32,
    /// In nanoseconds since the breaker's beginning; for a success only where
    /// the plan needs the time.
    pub(crate) now: u64,
    /// How long it ran; looked at only where slow calls count.
    pub(crate) ran: Span,
}

/// The period in which a call was admitted.
pub(crate) trait Period {
    /// In nanoseconds since the breaker's beginning.
    fn now(&mut self) -> u64;

    fn lasts(&self) -> bool;
}

/// It lasted when the time was read.
impl Period for Call {
    fn now(&mut self) -> u64 {
        self.now
    }

    fn lasts(&self) -> bool {
        true
    }
}

/// Outcomes, some of them bad, of which the latest count.
trait Rolling {
    fn new(plan: &Plan) -> Self;

    /// Begins the period of this generation.
    fn begin(&self, generation: u32);

    /// Counts a good outcome; the window's contents, where it can trip: it may
    /// complete the minimum, or come after others have left.
    fn success(
        &self,
        plan: &Plan,
        generation: u32,
        now: u64,
        minimum: impl FnOnce() -> u32,
    ) -> Option<Counts>;

    /// Counts a bad outcome; the window's contents, unless it came too late.
    fn failure(&self, plan: &Plan, call: Call) -> Option<Counts>;

    /// What the window holds.
    fn counts(&self, plan: &Plan, generation: u32, now: u64) -> Counts;
}

/// The counts of one breaker.
#[derive(Debug)]
pub(crate) struct Meter {
    counted: Counted,
}

/// Where only a run of failures counts there is no window, and no allocation.
#[derive(Debug)]
enum Counted {
    Run(Run),
    Count(Box<Windowed<CountWindow>>),
    Time(Box<Windowed<TimeWindow>>),
    CountAndPace(Box<Paced<CountWindow>>),
    TimeAndPace(Box<Paced<TimeWindow>>),
}

/// A run of failures and a window of them. What the plan does not need is left
/// as it began.
#[derive(Debug)]
struct Windowed<W> {
    run: Run,
    failures: W,
}

/// The same, and a window of slow calls.
#[derive(Debug)]
struct Paced<W> {
    windowed: Windowed<W>,
    slow: W,
}

impl Meter {
    pub(crate) fn new(plan: &Plan) -> Self {
        let counted = match (plan.window, plan.slow) {
            (None, _) => Counted::Run(Run::new()),
            (Some(WindowKind::Count(_)), false) => Counted::Count(Box::new(Windowed::new(plan))),
            (Some(WindowKind::Time(_)), false) => Counted::Time(Box::new(Windowed::new(plan))),
            (Some(WindowKind::Count(_)), true) => Counted::CountAndPace(Box::new(Paced::new(plan))),
            (Some(WindowKind::Time(_)), true) => Counted::TimeAndPace(Box::new(Paced::new(plan))),
        };
        Self { counted }
    }

    /// Begins the closed period of this generation. The caller has shown
    /// before that all older ones are over, and lets nobody into this one
    /// until it has begun.
    pub(crate) fn begin_period(&self, generation: u32) {
        match &self.counted {
            Counted::Run(run) => run.begin(generation),
            Counted::Count(windowed) => windowed.begin(generation),
            Counted::Time(windowed) => windowed.begin(generation),
            Counted::CountAndPace(paced) => paced.begin(generation),
            Counted::TimeAndPace(paced) => paced.begin(generation),
        }
    }

    /// Whether nothing but a run of failures is counted, and there is none: so
    /// that a success changes nothing, of whatever period it is.
    #[inline]
    pub(crate) fn is_clear_run(&self) -> bool {
        match &self.counted {
            Counted::Run(run) => run.is_clear(),
            _ => false,
        }
    }

    /// As [`success`](Self::success), where nobody asks how long calls ran and
    /// the period lasts; else `None`, and nothing is counted.
    #[inline(always)]
    pub(crate) fn success_unpaced<'a>(
        &self,
        plan: &Plan,
        thresholds: impl Fn() -> &'a Thresholds,
        generation: u32,
        period: &mut impl Period,
    ) -> Option<bool> {
        match &self.counted {
            Counted::Run(run) if period.lasts() => {
                run.success(generation);
                Some(false)
            }
            Counted::Count(windowed) if period.lasts() => {
                Some(windowed.success(plan, thresholds, generation, 0))
            }
            Counted::Time(windowed) => {
                // The time is taken while the period is known to last: later it
                // might be one at which the next has begun to count.
                let now = period.now();
                let lasts = period.lasts();
                lasts.then(|| windowed.success(plan, thresholds, generation, now))
            }
            _ => None,
        }
    }

    /// Counts a success and tells whether it opens the breaker: it can by
    /// completing the minimum, because old successes have left the window, or
    /// by being slow.
    pub(crate) fn success(&self, plan: &Plan, thresholds: &Thresholds, call: Call) -> bool {
        match &self.counted {
            Counted::CountAndPace(paced) => paced.success(plan, thresholds, call),
            Counted::TimeAndPace(paced) => paced.success(plan, thresholds, call),
            _ => {
                let (mut period, generation) = (call, call.generation);
                let opens = self.success_unpaced(plan, || thresholds, generation, &mut period);
                opens == Some(true)
            }
        }
    }

    /// Counts a failure and tells whether it opens the breaker.
    pub(crate) fn failure(&self, plan: &Plan, thresholds: &Thresholds, call: Call) -> bool {
        match &self.counted {
            Counted::Run(run) => thresholds.run_reached(run.failure(call.generation)),
            Counted::Count(windowed) => windowed.failure(plan, thresholds, call),
            Counted::Time(windowed) => windowed.failure(plan, thresholds, call),
            Counted::CountAndPace(paced) => paced.failure(plan, thresholds, call),
            Counted::TimeAndPace(paced) => paced.failure(plan, thresholds, call),
        }
    }

    /// What the window of failures holds now.
    pub(crate) fn counts(&self, plan: &Plan, generation: u32, now: u64) -> Counts {
        if !plan.failures {
            return Counts::default();
        }
        match &self.counted {
            Counted::Run(_) => Counts::default(),
            Counted::Count(windowed) => windowed.failures.counts(plan, generation, now),
            Counted::Time(windowed) => windowed.failures.counts(plan, generation, now),
            Counted::CountAndPace(paced) => paced.windowed.failures.counts(plan, generation, now),
            Counted::TimeAndPace(paced) => paced.windowed.failures.counts(plan, generation, now),
        }
    }
}

impl<W: Rolling> Windowed<W> {
    fn new(plan: &Plan) -> Self {
        Self {
            run: Run::new(),
            failures: W::new(plan),
        }
    }

    fn begin(&self, generation: u32) {
        self.run.begin(generation);
        self.failures.begin(generation);
    }

    #[inline(always)]
    fn success<'a>(
        &self,
        plan: &Plan,
        thresholds: impl Fn() -> &'a Thresholds,
        generation: u32,
        now: u64,
    ) -> bool {
        self.run.success(generation);
        let minimum = || thresholds().min_calls();
        match self.failures.success(plan, generation, now, minimum) {
            None => false,
            Some(counts) => thresholds().rate_reached(counts),
        }
    }

    fn failure(&self, plan: &Plan, thresholds: &Thresholds, call: Call) -> bool {
        let generation = call.generation;
        let run = if plan.run {
            self.run.failure(generation)
        } else {
            0
        };
        let failures = if plan.failures {
            self.failures.failure(plan, call)
        } else {
            None
        };
        // Others may have failed between the run and the window: the last in
        // the window sees the run of all of them.
        let run = run.max(self.run.length(generation));
        thresholds.run_reached(run)
            || failures.is_some_and(|counts| {
                thresholds.rate_reached(counts) || thresholds.last_failed(run, counts)
            })
    }
}

impl<W: Rolling> Paced<W> {
    fn new(plan: &Plan) -> Self {
        Self {
            windowed: Windowed::new(plan),
            slow: W::new(plan),
        }
    }

    fn begin(&self, generation: u32) {
        self.windowed.begin(generation);
        self.slow.begin(generation);
    }

    #[cold]
    fn success(&self, plan: &Plan, thresholds: &Thresholds, call: Call) -> bool {
        let too_slow = self.too_many_slow(plan, thresholds, call);
        if plan.failures {
            let (generation, now) = (call.generation, call.now);
            return self.windowed.success(plan, || thresholds, generation, now) || too_slow;
        }
        self.windowed.run.success(call.generation);
        too_slow
    }

    #[cold]
    fn failure(&self, plan: &Plan, thresholds: &Thresholds, call: Call) -> bool {
        let too_slow = self.too_many_slow(plan, thresholds, call);
        self.windowed.failure(plan, thresholds, call) || too_slow
    }

    /// Counts how the call ran, whatever came of it.
    fn too_many_slow(&self, plan: &Plan, thresholds: &Thresholds, call: Call) -> bool {
        let counts = if thresholds.is_slow(call.ran) {
            self.slow.failure(plan, call)
        } else {
            let minimum = || thresholds.min_calls();
            self.slow.success(plan, call.generation, call.now, minimum)
        };
        counts.is_some_and(|counts| thresholds.too_many_slow(counts))
    }
}

#[cfg(test)]
mod tests;

#[cfg(all(test, steadfast_loom))]
mod models;
