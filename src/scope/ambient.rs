//! What is in scope, as a value.
//!
//! What nearly every call has in scope fits into two words; what few have lies
//! beside them, behind a mark.

use std::ops::{Deref, DerefMut};

use tokio::time::Instant;

use super::cap::CapId;
use super::marks::Marks;
use crate::moment::Moment;

/// What is in scope.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ambient {
    pub(crate) usual: Usual,
    /// To be looked at only where it is marked.
    pub(super) rare: Rare,
}

/// What is in scope of every call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usual {
    /// The earliest deadline of all stacks and scopes around.
    pub(crate) deadline: Moment,
    /// attempt (32) | marks (32). In one word, since it is written in one step
    /// and read in one a moment later: a processor that finds two writes in what
    /// it reads waits for both of them.
    pub(super) near: u64,
}

/// What is in scope of few, or for a moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rare {
    /// The ceiling on sends.
    pub(super) cap: Option<CapId>,
    /// By when the next hop was told to answer in this attempt. Set from inside.
    granted_until: Moment,
}

impl Rare {
    pub(super) const NONE: Self = Self {
        cap: None,
        granted_until: Moment::NEVER,
    };
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
        self.rare().cap
    }

    /// By when the next hop was told to answer.
    pub(crate) const fn granted_until(&self) -> Moment {
        self.rare().granted_until
    }

    #[inline]
    const fn rare(&self) -> Rare {
        if self.usual.marks().any(Marks::RARE) {
            self.rare
        } else {
            Rare::NONE
        }
    }

    /// This scope, capped by this one instead of its own.
    pub(crate) fn capped(mut self, cap: Option<CapId>) -> Self {
        self.change_rare(|rare| rare.cap = cap);
        self
    }

    /// Notes by when the next hop was told to answer.
    pub(super) fn grant(&mut self, until: Moment) {
        self.change_rare(|rare| rare.granted_until = until);
    }

    /// Nothing was told to the next hop yet.
    #[inline]
    pub(crate) fn forget_grant(&mut self) {
        if self.marks().any(Marks::RARE) {
            self.grant(Moment::NEVER);
        }
    }

    #[cold]
    #[inline(never)]
    fn change_rare(&mut self, change: impl FnOnce(&mut Rare)) {
        let mut rare = self.rare();
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
}

impl Usual {
    #[inline]
    pub(super) const fn new(deadline: Moment, attempt: u32, marks: Marks) -> Self {
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
