//! The budget at work, of either kind.

use crate::moment::Moment;

use super::bucket::Bucket;
use super::concurrent::Slots;

/// A budget at work. Shared by reference: all its state is atomic, without a lock and without an
/// allocation.
///
/// What a call owes it, in order: [`enter`](Budget::enter) once at its start;
/// [`deposit`](Budget::deposit) for a success; for each retry [`withdraw`](Budget::withdraw), and
/// for each charge that gave, exactly one of [`settle`](Budget::settle), when the attempt has
/// ended, and [`refund`](Budget::refund), when it never started; [`leave`](Budget::leave) once at
/// its end.
///
/// # Memory ordering
///
/// All accesses are relaxed. Every invariant is about the value of one word (tokens, or calls and
/// retries packed together) and kept by read-modify-write on that word; no other memory is
/// published through it. A thread may decide on a balance that is a moment old only where that
/// makes it write nothing.
#[derive(Debug)]
pub(crate) struct Budget(Kind);

#[derive(Debug)]
enum Kind {
    Bucket(Bucket),
    Concurrent(Slots),
}

/// What one retry has paid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a charge is settled or refunded once, or its slot is lost"]
pub(crate) struct Charge {
    /// Millionths of a token; nothing for a slot.
    pub(super) micros: u64,
}

/// The effective settings, in tokens and tokens per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Terms {
    Bucket {
        ratio: f64,
        cap: f64,
        opening_balance: f64,
        refill_per_second: f64,
        /// Where the refill stops: the cap for a floor, the dearest retry for a trickle.
        refill_up_to: f64,
    },
    Concurrent {
        share: f64,
        min_concurrent: u32,
    },
}

impl Budget {
    /// A call has started.
    pub(crate) fn enter(&self) {
        if let Kind::Concurrent(slots) = &self.0 {
            slots.enter();
        }
    }

    /// The call has ended with a success, which pays in.
    #[inline]
    pub(crate) fn succeeded(&self) {
        match &self.0 {
            Kind::Bucket(bucket) => bucket.deposit(),
            Kind::Concurrent(slots) => slots.leave(),
        }
    }

    /// The call has ended otherwise, or was dropped.
    pub(crate) fn leave(&self) {
        if let Kind::Concurrent(slots) = &self.0 {
            slots.leave();
        }
    }

    /// An answer pays in that is good for the budget and no success.
    pub(crate) fn deposit(&self) {
        if let Kind::Bucket(bucket) = &self.0 {
            bucket.deposit();
        }
    }

    /// Pays for one retry, or says that there is nothing to pay it from. `unanswered` is whether
    /// the attempt before it got no answer (timeout, reset).
    pub(crate) fn withdraw(&self, unanswered: bool, now: Moment) -> Option<Charge> {
        match &self.0 {
            Kind::Bucket(bucket) => bucket.withdraw(unanswered, now),
            Kind::Concurrent(slots) => slots.take(),
        }
    }

    /// Gives back what an attempt paid that never started. Never for an attempt that was sent,
    /// whatever came of it.
    pub(crate) fn refund(&self, charge: Charge) {
        match &self.0 {
            Kind::Bucket(bucket) => bucket.give_back(charge),
            Kind::Concurrent(slots) => slots.release(),
        }
    }

    /// The attempt that paid has ended: tokens stay spent, a slot is free again.
    pub(crate) fn settle(&self, charge: Charge) {
        let _spent = charge;
        if let Kind::Concurrent(slots) = &self.0 {
            slots.release();
        }
    }

    /// The tokens as of the last withdrawal or deposit; for the concurrent kind, how many more
    /// retries could run side by side right now.
    #[cfg(test)]
    pub(crate) fn balance(&self) -> f64 {
        match &self.0 {
            Kind::Bucket(bucket) => bucket.balance(),
            Kind::Concurrent(slots) => slots.free(),
        }
    }

    /// [`balance`](Budget::balance) with what has trickled in until `now`: what a withdrawal at
    /// `now` would find. Changes nothing.
    pub(crate) fn balance_at(&self, now: Moment) -> f64 {
        match &self.0 {
            Kind::Bucket(bucket) => bucket.balance_at(now),
            Kind::Concurrent(slots) => slots.free(),
        }
    }

    /// Sets the tokens, in whole millionths and up to the cap; for the concurrent
    /// kind, which has none, it does nothing and says so with `false`.
    #[cfg(feature = "test-util")]
    pub(crate) fn set_balance(&self, tokens: f64) -> bool {
        match &self.0 {
            Kind::Bucket(bucket) => {
                bucket.set_balance(tokens, Moment::now());
                true
            }
            Kind::Concurrent(_) => false,
        }
    }

    pub(crate) fn terms(&self) -> Terms {
        match &self.0 {
            Kind::Bucket(bucket) => bucket.terms(),
            Kind::Concurrent(slots) => slots.terms(),
        }
    }
}

impl From<Bucket> for Budget {
    fn from(bucket: Bucket) -> Budget {
        Budget(Kind::Bucket(bucket))
    }
}

impl From<Slots> for Budget {
    fn from(slots: Slots) -> Budget {
        Budget(Kind::Concurrent(slots))
    }
}

#[cfg(test)]
mod tests {
    use super::super::RetryBudget;
    use super::*;

    #[test]
    fn a_bucket_earns_by_success_and_keeps_what_was_settled() {
        let now = Moment::now();
        let budget = RetryBudget::ratio(0.5).no_trickle().build().unwrap();
        budget.enter();
        let charge = budget.withdraw(true, now).unwrap();
        assert_eq!(budget.balance(), 8.0);
        budget.settle(charge);
        assert_eq!(budget.balance(), 8.0);
        budget.deposit();
        assert_eq!(budget.balance(), 8.5);
        let charge = budget.withdraw(false, now).unwrap();
        budget.refund(charge);
        budget.leave();
        assert_eq!(budget.balance_at(now), 8.5);
    }

    #[test]
    fn a_slot_comes_back_by_settling_and_by_refunding_and_not_by_success() {
        let now = Moment::now();
        let budget = RetryBudget::concurrent(0.5)
            .min_concurrent(0)
            .build()
            .unwrap();
        for _ in 0..4 {
            budget.enter();
        }
        let charges = [true, false].map(|unanswered| budget.withdraw(unanswered, now).unwrap());
        budget.deposit();
        assert_eq!(budget.balance(), 0.0);
        assert_eq!(budget.withdraw(false, now), None);
        budget.settle(charges[0]);
        assert_eq!(budget.balance_at(now), 1.0);
        budget.refund(charges[1]);
        assert_eq!(budget.balance_at(now), 2.0);
        budget.leave();
        budget.leave();
        assert_eq!(budget.balance(), 1.0);
    }

    #[test]
    fn budgets_are_shared_between_threads() {
        fn shared<T: Send + Sync + 'static>() {}
        shared::<Budget>();
    }
}
