//! Reports on their way from the loop to whoever waits for them, within a poll.

use std::cell::Cell;

use super::ambient::Ambient;
use super::current::Entered;
use super::report::CallReport;
use crate::telemetry::{Observers, leave_observers, take_observers};

thread_local! {
    static REPORT: Cell<Option<CallReport>> = const { Cell::new(None) };
}

/// Hands a report to whoever waits for it around this poll, and who observed
/// its call.
pub(crate) fn leave_report(report: CallReport, observers: &Observers) {
    REPORT.set(Some(report));
    leave_observers(observers);
}

/// Collects the report that is left inside while it lives, and keeps those of
/// others apart: two captures polled in turn by one task do not mix.
struct Collecting {
    outer: Option<CallReport>,
}

impl Collecting {
    fn new() -> Self {
        Self {
            outer: REPORT.take(),
        }
    }

    /// What was left since.
    fn take(&mut self) -> Option<CallReport> {
        REPORT.take()
    }
}

impl Drop for Collecting {
    fn drop(&mut self) {
        REPORT.set(self.outer);
        // Nobody is left to take them, and the thread must not keep them.
        drop(take_observers());
    }
}

/// Polls a call within `frame`. If it leaves a report, that takes the place of
/// the one before, and so do those who observed it.
pub(crate) fn collect<T>(
    frame: &mut Ambient,
    report: &mut Option<CallReport>,
    observers: &mut Observers,
    poll: impl FnOnce() -> T,
) -> T {
    let mut collecting = Collecting::new();
    let polled = {
        let _entered = Entered::new(frame);
        poll()
    };
    if let Some(left) = collecting.take() {
        *report = Some(left);
        *observers = take_observers();
    }
    polled
}
