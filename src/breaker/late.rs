//! The permit of an attempt in the hands of its answer.
//!
//! An attempt ends at the head of an answer. A stream that breaks off later,
//! or a status in the trailers, is heard by the breaker only if whoever reads
//! the rest takes the permit over.

use std::cell::Cell;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::clock::Clock;
use super::handle::{Breaker, Permit};
use super::ticket::Ticket;
use crate::moment::Moment;
use crate::scope::ambient::Ambient;
use crate::scope::marks::Marks;

type Slot = Mutex<Option<Permit>>;

/// A claim that was left for the breaker's stage. The scope of that attempt is
/// marked, so that those without one look at nothing else.
struct Left {
    slot: Arc<Slot>,
    /// One that was left before in an attempt further out, whose service
    /// claimed and then made a call of its own.
    further_out: Option<Box<Left>>,
}

thread_local! {
    static LEFT: Cell<Option<Left>> = const { Cell::new(None) };
}

/// A claim on the permit of the attempt under way, for an answer whose end is
/// still to come.
///
/// Claimed while the attempt is polled, by the service that it wraps; once the
/// attempt has ended with a success, the permit is here to be
/// [taken](Self::take) and told how the rest went. Until then the breaker has
/// heard nothing, and the place under its concurrency limit stays taken. An
/// attempt that ends otherwise is heard as ever, and leaves nothing here.
///
/// Dropped after the attempt with the permit untaken it counts as a permit that is dropped: for
/// neither success nor failure; dropped before, it claims nothing.
///
/// The retry budget, the loop and slow-call rules go by the head of the answer
/// all the same; a head that was too slow is heard at once.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use steadfast::{BreakerConfig, BreakerState, LatePermit, Policy};
///
/// let policy = Policy::builder("feed").breaker(BreakerConfig::consecutive(1)).build().unwrap();
/// let open_stream = || async { Ok::<_, std::io::Error>(LatePermit::claim()) };
/// let stream = policy.call(open_stream).await.unwrap();
/// // The head was fine, the rest was not:
/// let permit = stream.and_then(|late| late.take()).unwrap();
/// permit.failure();
/// assert_eq!(policy.breaker().unwrap().state(), BreakerState::Open);
/// # }
/// ```
pub struct LatePermit {
    slot: Arc<Slot>,
}

impl LatePermit {
    /// Claims the permit of the attempt under way: the nearest one around, in
    /// the same task. `None` where there is no attempt, or none with a breaker.
    /// The last of several claims gets it; of those made in one poll also where
    /// that one is dropped again.
    #[must_use]
    pub fn claim() -> Option<Self> {
        let marks = Ambient::here().marks();
        if !marks.any(Marks::LENDS_PERMITS) {
            return None;
        }
        if marks.any(Marks::CLAIMED) {
            forget_claim();
        }
        let slot = Arc::new(Slot::new(None));
        LEFT.set(Some(Left {
            slot: Arc::clone(&slot),
            further_out: LEFT.take().map(Box::new),
        }));
        Ambient::mark(Marks::CLAIMED, true);
        Some(Self { slot })
    }

    /// The permit; `None` before the attempt has ended, after one that was not
    /// a success, and when it was taken already.
    #[must_use]
    pub fn take(&self) -> Option<Permit> {
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        slot.take()
    }
}

impl fmt::Debug for LatePermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LatePermit").finish_non_exhaustive()
    }
}

/// While an attempt is polled. A claim that is left in a poll that panics is
/// nobody's.
pub(super) struct Polling;

impl Polling {
    /// Afterwards: whether a claim was left in it.
    #[inline(always)]
    pub(super) fn left_a_claim(self) -> bool {
        std::mem::forget(self);
        Ambient::is_marked(Marks::CLAIMED)
    }
}

impl Drop for Polling {
    fn drop(&mut self) {
        drop(left_here());
    }
}

/// The claim that was left in this scope, and is not any more.
#[cold]
#[inline(never)]
fn left_here() -> Option<Arc<Slot>> {
    if !Ambient::is_marked(Marks::CLAIMED) {
        return None;
    }
    Ambient::mark(Marks::CLAIMED, false);
    last_left()
}

fn last_left() -> Option<Arc<Slot>> {
    let Left { slot, further_out } = LEFT.take()?;
    LEFT.set(further_out.map(|left| *left));
    Some(slot)
}

/// Forgets the last claim: there is another, or no attempt around.
#[cold]
pub(crate) fn forget_claim() {
    drop(last_left());
}

/// Forgets the last claim but one: both are of the same attempt.
#[cold]
pub(crate) fn forget_claim_before() {
    let Some(Left { slot, further_out }) = LEFT.take() else {
        return;
    };
    LEFT.set(Some(Left {
        slot,
        further_out: further_out.and_then(|left| left.further_out),
    }));
}

/// The breaker's side of a [`LatePermit`]: the last claim so far.
pub(super) struct Claimed {
    slot: Option<Arc<Slot>>,
}

impl Claimed {
    pub(super) const NONE: Self = Self { slot: None };

    #[inline]
    pub(super) const fn is_some(&self) -> bool {
        self.slot.is_some()
    }

    /// Takes over what was left in this scope.
    #[cold]
    #[inline(never)]
    pub(super) fn take_over(&mut self) {
        // Nobody may wait for it any more.
        if let Some(slot) = left_here().filter(|slot| Arc::strong_count(slot) > 1) {
            self.slot = Some(slot);
        }
    }

    /// Leaves the outcome to the claimant, unless that one is gone, or what
    /// there is of the call makes it a slow one.
    #[cold]
    #[inline(never)]
    pub(super) fn hand_over(
        &mut self,
        breaker: &Breaker,
        ticket: Ticket,
        started: Moment,
        clock: &mut impl Clock,
    ) {
        self.take_over();
        let core = breaker.core();
        let waiting = self.slot.take();
        match waiting.filter(|slot| Arc::strong_count(slot) > 1) {
            Some(slot) if !core.is_slow(started, || clock.exact()) => {
                let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
                *slot = Some(breaker.permit(ticket, Moment::NEVER));
            }
            _ => core.record_success(ticket, started, clock),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scope::current::Entered;

    fn attempt() -> Ambient {
        Ambient::NONE.marked(Marks::LENDS_PERMITS)
    }

    fn is_of(slot: Option<Arc<Slot>>, claim: &LatePermit) -> bool {
        slot.is_some_and(|slot| Arc::ptr_eq(&slot, &claim.slot))
    }

    #[test]
    fn of_the_claims_in_an_attempt_and_in_scopes_within_it_the_last_is_left() {
        let mut attempt = attempt();
        let _entered = Entered::new(&mut attempt);
        let _first = LatePermit::claim().unwrap();
        let _second = LatePermit::claim().unwrap();
        let last = {
            let mut within = Ambient::current();
            let _entered = Entered::new(&mut within);
            let _third = LatePermit::claim().unwrap();
            LatePermit::claim().unwrap()
        };
        assert!(is_of(left_here(), &last));
        assert!(left_here().is_none() && LEFT.take().is_none());
    }

    #[test]
    fn a_claim_of_an_attempt_further_out_is_left_to_that() {
        let mut outer = attempt();
        let _entered = Entered::new(&mut outer);
        let of_outer = LatePermit::claim().unwrap();
        {
            let mut inner = attempt();
            let _entered = Entered::new(&mut inner);
            assert!(left_here().is_none());
            let of_inner = LatePermit::claim().unwrap();
            assert!(is_of(left_here(), &of_inner));
            assert!(left_here().is_none());
        }
        assert!(is_of(left_here(), &of_outer));
        assert!(LEFT.take().is_none());
    }

    #[test]
    fn a_claim_in_a_scope_within_an_attempt_is_left_to_no_other_and_takes_no_others_place() {
        let mut outer = attempt();
        let _entered = Entered::new(&mut outer);
        let of_outer = LatePermit::claim().unwrap();
        for claims_within in [false, true] {
            let mut inner = attempt();
            let _entered = Entered::new(&mut inner);
            let mut last = LatePermit::claim().unwrap();
            let mut within = Ambient::current();
            {
                let _entered = Entered::new(&mut within);
                if claims_within {
                    last = LatePermit::claim().unwrap();
                }
            }
            assert!(!within.marks().any(Marks::CLAIMED));
            assert!(is_of(left_here(), &last));
        }
        assert!(is_of(left_here(), &of_outer));
    }

    #[test]
    fn a_claim_that_no_attempt_is_around_for_is_forgotten() {
        {
            let mut elsewhere = attempt();
            let _entered = Entered::new(&mut elsewhere);
            assert!(LatePermit::claim().is_some());
        }
        assert!(left_here().is_none() && LEFT.take().is_none());
        assert!(LatePermit::claim().is_none());
    }
}
