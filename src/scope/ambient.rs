//! The one thread-local frame that everything below a stack can see.
//!
//! A frame is entered for the length of one poll and left again, also by a
//! panic. It is `Copy` and has no destructor, so that entering needs no lazy
//! initialisation, and what nearly every call has in scope fits into sixteen
//! bytes: one move in, one move out. What few have, lies beside it behind a
//! mark. Together that is some thirty instructions less for a call.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};

use tokio::time::Instant;

use super::cap::CapId;
use super::marks::Marks;
use super::report::CallReport;
use crate::breaker::late::let_claim_go;
use crate::moment::Moment;
use crate::telemetry::{Observers, leave_observers, take_observers};

/// What is in scope.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ambient {
    pub(crate) usual: Usual,
    /// To be looked at only where it is marked.
    rare: Rare,
}

/// What is in scope of every call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usual {
    /// The earliest deadline of all stacks and scopes around.
    pub(crate) deadline: Moment,
    /// attempt (32) | marks (32). In one word, since it is written in one step
    /// and read in one a moment later: a processor that finds two writes in what
    /// it reads waits for both of them.
    near: u64,
}

/// What is in scope of few, or for a moment.
#[derive(Clone, Copy, Debug)]
struct Rare {
    /// The ceiling on sends.
    cap: Option<CapId>,
    /// By when the next hop was told to answer in this attempt. Set from inside.
    granted_until: Moment,
}

impl Rare {
    const NONE: Self = Self {
        cap: None,
        granted_until: Moment::NEVER,
    };

    #[cold]
    #[inline(never)]
    fn here() -> Self {
        CURRENT.with(|current| current.rare.get())
    }
}

impl Deref for Ambient {
    type Target = Usual;

    #[inline]
    fn deref(&self) -> &Usual {
        &self.usual
    }
}

impl DerefMut for Ambient {
    #[inline]
    fn deref_mut(&mut self) -> &mut Usual {
        &mut self.usual
    }
}

impl Ambient {
    pub(crate) const NONE: Self = Self {
        usual: Usual::new(Moment::NEVER, 0, Marks::NONE),
        rare: Rare::NONE,
    };

    /// Of a call that begins here.
    #[inline]
    pub(crate) fn of_call(deadline: Moment, marks: Marks) -> Self {
        let usual = Usual::new(deadline, 0, marks);
        let rare = if marks.any(Marks::RARE) {
            Rare::here()
        } else {
            Rare::NONE
        };
        Self { usual, rare }
    }

    /// All that is in scope here.
    pub(crate) fn current() -> Self {
        let usual = Self::here();
        let rare = if usual.marks().any(Marks::RARE) {
            Rare::here()
        } else {
            Rare::NONE
        };
        Self { usual, rare }
    }

    /// What is in scope here of every call.
    #[inline]
    pub(crate) fn here() -> Usual {
        let mut here = Self::NONE.usual;
        at_current(|current| here = current.get());
        here
    }

    /// Whether any of `marks` is in the current scope.
    #[inline]
    pub(crate) fn is_marked(marks: Marks) -> bool {
        Self::here().marks().any(marks)
    }

    /// The ceiling on sends in the current scope.
    #[inline]
    pub(crate) fn cap_here() -> Option<CapId> {
        if Self::is_marked(Marks::RARE) {
            Rare::here().cap
        } else {
            None
        }
    }

    /// This scope with `marks` as well.
    pub(crate) const fn marked(mut self, marks: Marks) -> Self {
        self.usual.mark(marks);
        self
    }

    /// This scope without `marks`.
    pub(crate) const fn unmarked(mut self, marks: Marks) -> Self {
        self.usual.unmark(marks);
        self
    }

    /// This scope, with this deadline instead of its own.
    pub(crate) fn until(mut self, deadline: Option<Instant>) -> Self {
        self.deadline = Moment::of_limit(deadline);
        self
    }

    /// The ceiling on sends.
    #[inline]
    pub(crate) const fn cap(&self) -> Option<CapId> {
        if self.usual.marks().any(Marks::RARE) {
            self.rare.cap
        } else {
            None
        }
    }

    /// By when the next hop was told to answer.
    pub(crate) const fn granted_until(&self) -> Moment {
        if self.usual.marks().any(Marks::RARE) {
            self.rare.granted_until
        } else {
            Moment::NEVER
        }
    }

    /// This scope, capped by this one instead of its own.
    pub(crate) fn capped(mut self, cap: Option<CapId>) -> Self {
        self.change_rare(|rare| rare.cap = cap);
        self
    }

    /// This scope, in which the next hop was told nothing yet.
    #[inline]
    pub(crate) fn forget_grant(&mut self) {
        if self.marks().any(Marks::RARE) {
            self.change_rare(|rare| rare.granted_until = Moment::NEVER);
        }
    }

    #[cold]
    #[inline(never)]
    fn change_rare(&mut self, change: impl FnOnce(&mut Rare)) {
        let mut rare = Rare {
            cap: self.cap(),
            granted_until: self.granted_until(),
        };
        change(&mut rare);
        self.rare = rare;
        let any = rare.cap.is_some() || rare.granted_until != Moment::NEVER;
        self.set(Marks::RARE, any);
    }

    /// This scope where it is polled inside of `outer`: whichever bounds more
    /// holds; reports and permits are those of where it is polled.
    pub(crate) fn within(self, outer: Self) -> Self {
        let of_outer = outer.marks().without(Marks::GIVEN_UP.and(Marks::RARE));
        let of_own = Marks::WISHES.and(Marks::GIVEN_UP).and(Marks::RARE);
        let mut within = self;
        let attempt = if self.attempt() == 0 {
            outer.attempt()
        } else {
            self.attempt()
        };
        let marks = self.marks().only(of_own).and(of_outer);
        within.usual = Usual::new(self.deadline.min(outer.deadline), attempt, marks);
        within.capped(self.cap().or(outer.cap()))
    }

    /// Notes for the attempt around by when its server was told to answer.
    #[cfg(feature = "http")]
    pub(crate) fn grant_until(at: Moment) {
        Self::change(|current| current.change_rare(|rare| rare.granted_until = at));
    }

    /// This scope, with the cap of where it is polled, if there is one.
    pub(crate) fn capped_here(self) -> Self {
        match Self::cap_here() {
            None => self,
            cap => self.capped(cap),
        }
    }

    /// Puts another cap in the current scope.
    pub(crate) fn set_cap(cap: CapId) {
        Self::change(|current| *current = current.capped(Some(cap)));
    }

    /// Changes what the code around sees; used for what travels outwards.
    pub(crate) fn mark_given_up(given_up: bool) {
        Self::mark(Marks::GIVEN_UP, given_up);
    }

    /// Puts `marks` in the current scope, or takes them out of it.
    pub(crate) fn mark(marks: Marks, here: bool) {
        at_current(|current| {
            let mut usual = current.get();
            usual.set(marks, here);
            current.near.set(usual.near);
        });
    }

    /// Hands on what was noted for the attempt around in a scope that was
    /// polled within it.
    pub(crate) fn pass_on_grant(self) {
        let until = self.granted_until();
        if until != Moment::NEVER {
            Self::change(|current| current.change_rare(|rare| rare.granted_until = until));
        }
    }

    fn change(change: impl FnOnce(&mut Self)) {
        let mut current = Self::current();
        change(&mut current);
        at_current(|here| {
            here.rare.set(current.rare);
            here.set(current.usual);
        });
    }
}

impl Usual {
    #[inline]
    const fn new(deadline: Moment, attempt: u32, marks: Marks) -> Self {
        Self {
            deadline,
            near: near(attempt, marks),
        }
    }

    /// Which attempt of the nearest stack this is, from 1; 0 outside.
    #[inline]
    pub(crate) const fn attempt(&self) -> u32 {
        (self.near >> 32) as u32
    }

    #[inline]
    pub(crate) const fn marks(&self) -> Marks {
        #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
        Marks::of_bits(self.near as u32)
    }

    #[inline]
    pub(crate) const fn mark(&mut self, marks: Marks) {
        self.near |= marks.bits() as u64;
    }

    #[inline]
    pub(crate) const fn unmark(&mut self, marks: Marks) {
        self.near &= !(marks.bits() as u64);
    }

    /// Puts `marks` here, or takes them away.
    #[inline]
    pub(crate) const fn set(&mut self, marks: Marks, here: bool) {
        if here {
            self.mark(marks);
        } else {
            self.unmark(marks);
        }
    }

    /// Another attempt, with these marks.
    #[inline]
    pub(crate) const fn begin(&mut self, attempt: u32, marks: Marks) {
        self.near = near(attempt, marks);
    }

    /// The deadline as others know it.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadline.instant()
    }

    /// Whether a stack below refused or gave up.
    pub(crate) const fn given_up(&self) -> bool {
        self.marks().any(Marks::GIVEN_UP)
    }
}

#[inline]
const fn near(attempt: u32, marks: Marks) -> u64 {
    (attempt as u64) << 32 | marks.bits() as u64
}

/// What is in scope here.
///
/// In this order: two words side by side would be moved as one, and to read as
/// one what was just written as two takes longer than all the rest of a move.
#[repr(C)]
struct Current {
    deadline: Cell<Moment>,
    // Means something only while it is marked.
    rare: Cell<Rare>,
    near: Cell<u64>,
}

impl Current {
    #[inline]
    fn get(&self) -> Usual {
        Usual {
            deadline: self.deadline.get(),
            near: self.near.get(),
        }
    }

    #[inline]
    fn set(&self, usual: Usual) {
        self.deadline.set(usual.deadline);
        self.near.set(usual.near);
    }
}

thread_local! {
    static CURRENT: Current = const {
        let none = Ambient::NONE.usual;
        Current {
            deadline: Cell::new(none.deadline),
            rare: Cell::new(Rare::NONE),
            near: Cell::new(none.near),
        }
    };
    static REPORT: Cell<Option<CallReport>> = const { Cell::new(None) };
}

/// For what the closure leaves behind, as its own result would go through one
/// more check and copy, which come to a tenth of a call.
#[inline]
fn at_current(look: impl FnOnce(&Current)) {
    CURRENT.with(look);
}

/// Makes `frame` the current one until dropped; what was set inside is then
/// found in `frame`. Meanwhile that holds what is around: the two change places,
/// twice, and nothing is kept beside them.
pub(crate) struct Entered<'a> {
    frame: &'a mut Ambient,
}

impl<'a> Entered<'a> {
    #[inline]
    pub(crate) fn new(frame: &'a mut Ambient) -> Self {
        let marks = change_places(frame);
        if marks.any(Marks::RARE) {
            change_rare_places(frame);
        }
        Self { frame }
    }
}

impl Drop for Entered<'_> {
    #[inline]
    fn drop(&mut self) {
        let marks = change_places(self.frame);
        if marks.any(Marks::RARE.and(Marks::CLAIMED)) {
            change_rare_places(self.frame);
            pass_claim_on(self.frame);
        }
    }
}

/// The marks of both.
#[inline]
fn change_places(frame: &mut Ambient) -> Marks {
    let inner = frame.usual;
    at_current(|current| {
        frame.usual = current.get();
        current.set(inner);
    });
    frame.marks().and(inner.marks())
}

/// Where neither has any, nothing looks at what they change.
#[cold]
#[inline(never)]
fn change_rare_places(frame: &mut Ambient) {
    at_current(|current| frame.rare = current.rare.replace(frame.rare));
}

/// A claim that was left inside is for the attempt around, unless there is none.
#[cold]
#[inline(never)]
fn pass_claim_on(left: &mut Ambient) {
    if left.marks().any(Marks::CLAIMED) {
        left.unmark(Marks::CLAIMED);
        if Ambient::is_marked(Marks::LENDS_PERMITS) {
            Ambient::mark(Marks::CLAIMED, true);
        } else {
            let_claim_go();
        }
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
