//! The one thread-local frame that everything below a stack can see.
//!
//! A frame is entered for the length of one poll and left again, also by a
//! panic. It is `Copy` and has no destructor, so that entering needs no lazy
//! initialisation: two words change places, and few calls have more in scope.
//! Each call does so once or twice, and reads what is here some five times.

use std::cell::Cell;

use super::ambient::{Ambient, Rare, Usual};
use super::cap::CapId;
use super::marks::Marks;
use crate::breaker::late::{forget_claim, forget_claim_before};
use crate::moment::Moment;

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
}

/// For what the closure leaves behind, as its own result would go through one
/// more check and copy, which come to a tenth of a call.
#[inline]
fn at_current(look: impl FnOnce(&Current)) {
    CURRENT.with(look);
}

impl Ambient {
    /// Of a call that begins here.
    #[inline]
    pub(crate) fn of_call(deadline: Moment, marks: Marks) -> Self {
        Self {
            usual: Usual::new(deadline, 0, marks),
            rare: Rare::here(marks),
        }
    }

    /// All that is in scope here, as a value. What was claimed of the attempt
    /// around is none of it: that is between the two of them.
    pub(crate) fn current() -> Self {
        Self::all().unmarked(Marks::CLAIMED)
    }

    fn all() -> Self {
        let usual = Self::here();
        let rare = Rare::here(usual.marks());
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
        Rare::here(Self::here().marks()).cap
    }

    /// Notes for the attempt around by when its server was told to answer.
    #[cfg(feature = "http")]
    pub(crate) fn grant_until(at: Moment) {
        Self::change(|current| current.grant(at));
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
            Self::change(|current| current.grant(until));
        }
    }

    fn change(change: impl FnOnce(&mut Self)) {
        let mut current = Self::all();
        change(&mut current);
        at_current(|here| {
            here.rare.set(current.rare);
            here.set(current.usual);
        });
    }
}

impl Rare {
    /// What is in scope here, if that is marked with it.
    #[inline]
    fn here(marks: Marks) -> Self {
        if marks.any(Marks::RARE) {
            Self::looked_up()
        } else {
            Self::NONE
        }
    }

    #[cold]
    #[inline(never)]
    fn looked_up() -> Self {
        CURRENT.with(|current| current.rare.get())
    }
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

/// A claim that was left inside is for the attempt around, as the last of its
/// claims, unless there is none.
#[cold]
#[inline(never)]
fn pass_claim_on(left: &mut Ambient) {
    if !left.marks().any(Marks::CLAIMED) {
        return;
    }
    left.unmark(Marks::CLAIMED);
    if !Ambient::is_marked(Marks::LENDS_PERMITS) {
        forget_claim();
    } else if Ambient::is_marked(Marks::CLAIMED) {
        forget_claim_before();
    } else {
        Ambient::mark(Marks::CLAIMED, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scope::cap::CallCap;

    /// Whatever is in scope around, in the frame, and put there within.
    #[test]
    fn what_few_have_in_scope_comes_and_goes_with_its_frame() {
        let caps = [1, 2, 3].map(CallCap::new);
        let [first, second, third] = caps.each_ref().map(|cap| Some(cap.id()));
        for (around, own, set) in [
            (None, None, None),
            (None, None, third),
            (None, second, None),
            (None, second, third),
            (first, None, None),
            (first, None, third),
            (first, second, None),
            (first, second, third),
        ] {
            let mut outer = Ambient::NONE.capped(around);
            let entered = Entered::new(&mut outer);
            let mut frame = Ambient::NONE.capped(own);
            {
                let _entered = Entered::new(&mut frame);
                assert_eq!(Ambient::cap_here(), own);
                set.into_iter().for_each(Ambient::set_cap);
            }
            assert_eq!(frame.cap(), set.or(own), "{around:?}, {own:?}");
            assert_eq!(Ambient::cap_here(), around);
            drop(entered);
            assert_eq!((outer.cap(), Ambient::cap_here()), (around, None));
        }
    }

    #[test]
    fn what_is_given_back_of_the_rare_leaves_the_rest() {
        let until = Moment::from_nanos(7);
        let cap = CallCap::new(1);
        for cap in [None, Some(cap.id())] {
            let mut frame = Ambient::NONE.capped(cap);
            frame.grant(until);
            assert_eq!((frame.granted_until(), frame.cap()), (until, cap));
            frame.forget_grant();
            assert_eq!((frame.granted_until(), frame.cap()), (Moment::NEVER, cap));
            assert_eq!(frame.marks().any(Marks::RARE), cap.is_some());
        }
    }
}
