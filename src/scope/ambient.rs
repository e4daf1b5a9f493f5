//! The one thread-local frame that everything below a stack can see.
//!
//! A frame is entered for the length of one poll and left again, also by a
//! panic. It is `Copy` and has no destructor, so that entering costs two
//! moves and no lazy initialisation.

use std::cell::Cell;

use tokio::time::Instant;

use super::cap::CapId;
use super::marks::Marks;
use super::report::CallReport;
use crate::moment::Moment;
use crate::telemetry::{Observers, leave_observers, take_observers};

/// What is in scope.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ambient {
    /// The earliest deadline of all stacks and scopes around.
    pub(crate) deadline: Moment,
    /// Which attempt of the nearest stack this is, from 1; 0 outside.
    pub(crate) attempt: u32,
    /// The ceiling on sends.
    pub(crate) cap: Option<CapId>,
    /// By when the next hop was told to answer in this attempt. Set from inside.
    pub(crate) granted_until: Moment,
    pub(crate) marks: Marks,
}

impl Ambient {
    pub(crate) const NONE: Self = Self {
        deadline: Moment::NEVER,
        attempt: 0,
        cap: None,
        granted_until: Moment::NEVER,
        marks: Marks::NONE,
    };

    #[inline]
    pub(crate) fn current() -> Self {
        let mut current = Self::NONE;
        at_current(|cell| current = cell.get());
        current
    }

    /// Whether any of `marks` is in the current scope.
    #[inline]
    pub(crate) fn is_marked(marks: Marks) -> bool {
        let mut here = Marks::NONE;
        at_current(|cell| here = cell.get().marks);
        here.any(marks)
    }

    /// This scope with `marks` as well.
    pub(crate) const fn marked(self, marks: Marks) -> Self {
        Self {
            marks: self.marks.and(marks),
            ..self
        }
    }

    /// This scope without `marks`.
    pub(crate) const fn unmarked(self, marks: Marks) -> Self {
        Self {
            marks: self.marks.without(marks),
            ..self
        }
    }

    /// The deadline as others know it.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadline.instant()
    }

    /// This scope, with this deadline instead of its own.
    pub(crate) fn until(self, deadline: Option<Instant>) -> Self {
        Self {
            deadline: Moment::of_limit(deadline),
            ..self
        }
    }

    /// Whether a stack below refused or gave up.
    pub(crate) const fn given_up(&self) -> bool {
        self.marks.any(Marks::GIVEN_UP)
    }

    /// This scope where it is polled inside of `outer`: whichever bounds more
    /// holds; reports and permits are those of where it is polled.
    pub(crate) fn within(self, outer: Self) -> Self {
        let of_outer = outer.marks.without(Marks::GIVEN_UP);
        let own = self.marks.only(Marks::WISHES.and(Marks::GIVEN_UP));
        Self {
            deadline: self.deadline.min(outer.deadline),
            cap: self.cap.or(outer.cap),
            marks: own.and(of_outer),
            attempt: if self.attempt == 0 {
                outer.attempt
            } else {
                self.attempt
            },
            ..self
        }
    }

    /// Notes for the attempt around by when its server was told to answer.
    #[cfg(feature = "http")]
    pub(crate) fn grant_until(at: Moment) {
        Self::change(|current| current.granted_until = at);
    }

    /// This scope, with the cap of where it is polled, if there is one.
    pub(crate) fn capped_here(self) -> Self {
        let cap = Self::current().cap.or(self.cap);
        Self { cap, ..self }
    }

    /// Puts another cap in the current scope.
    pub(crate) fn set_cap(cap: CapId) {
        Self::change(|current| current.cap = Some(cap));
    }

    /// Changes what the code around sees; used for what travels outwards.
    pub(crate) fn mark_given_up(given_up: bool) {
        Self::change(|current| current.marks = current.marks.set(Marks::GIVEN_UP, given_up));
    }

    /// Hands on what was noted for the attempt around in a scope that was
    /// polled within it.
    pub(crate) fn pass_on_grant(self) {
        if self.granted_until != Moment::NEVER {
            Self::change(|current| current.granted_until = self.granted_until);
        }
    }

    fn change(change: impl FnOnce(&mut Self)) {
        at_current(|cell| {
            let mut current = cell.get();
            change(&mut current);
            cell.set(current);
        });
    }
}

thread_local! {
    static CURRENT: Cell<Ambient> = const { Cell::new(Ambient::NONE) };
    static REPORT: Cell<Option<CallReport>> = const { Cell::new(None) };
}

/// For what the closure leaves behind, as its own result would go through one
/// more check and copy, which come to a tenth of a call.
#[inline]
fn at_current(look: impl FnOnce(&Cell<Ambient>)) {
    CURRENT.with(look);
}

/// Makes `frame` the current one until dropped; what was set inside is then
/// found in `frame`.
pub(crate) struct Entered<'a> {
    frame: &'a mut Ambient,
    outer: Ambient,
}

impl<'a> Entered<'a> {
    #[inline]
    pub(crate) fn new(frame: &'a mut Ambient) -> Self {
        let mut outer = Ambient::NONE;
        at_current(|cell| {
            outer = cell.get();
            cell.set(*frame);
        });
        Self { frame, outer }
    }
}

impl Drop for Entered<'_> {
    #[inline]
    fn drop(&mut self) {
        at_current(|cell| {
            let inner = cell.get();
            cell.set(self.outer);
            // What can be set from inside.
            self.frame.cap = inner.cap;
            self.frame.granted_until = inner.granted_until;
            self.frame.marks = inner.marks;
        });
    }
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
