//! Both kinds of budget under three threads, in every interleaving.

use std::sync::Arc;
use std::time::Duration;

use crate::moment::Moment;

use super::TOKEN;
use super::bucket::Bucket;
use super::concurrent::Slots;
use crate::sync::model::{Holders, check, together};

/// A bucket, and the moment at which it was made.
struct Filled {
    bucket: Bucket,
    base: Moment,
}

impl Filled {
    /// Amounts in tokens; a success pays in one.
    fn new(cap: u64, opening: u64, refill: impl FnOnce(Bucket) -> Bucket) -> Arc<Self> {
        let base = Moment::now();
        let bucket = Bucket::new(TOKEN, cap * TOKEN, opening * TOKEN, base);
        let bucket = refill(bucket);
        Arc::new(Self { bucket, base })
    }

    fn withdraw(&self, unanswered: bool, seconds: u64) -> Option<super::Charge> {
        let now = self.base + Duration::from_secs(seconds);
        self.bucket.withdraw(unanswered, now)
    }

    /// Takes one token, and tells whether there was one.
    fn pays(&self, seconds: u64) -> u64 {
        u64::from(self.withdraw(false, seconds).is_some())
    }

    /// The balance in tokens, which every model has whole at its end.
    fn balance(&self) -> u64 {
        let balance = self.bucket.balance();
        (0..=1_000)
            .find(|tokens| *tokens as f64 == balance)
            .unwrap_or_else(|| panic!("{balance} tokens"))
    }
}

fn as_it_is(bucket: Bucket) -> Bucket {
    bucket
}

#[test]
fn two_tokens_pay_for_two_retries_of_three() {
    check(|| {
        let filled = Filled::new(10, 2, as_it_is);
        let pay = |filled: &Filled| filled.pays(0);
        let (a, b, c) = together(&filled, pay, pay, pay);
        assert_eq!(a + b + c, 2);
        assert_eq!(filled.balance(), 0);
    });
}

#[test]
fn tokens_are_conserved_between_withdrawal_refund_and_deposit() {
    check(|| {
        let filled = Filled::new(10, 2, as_it_is);
        let ((), (), paid) = together(
            &filled,
            |filled| {
                if let Some(charge) = filled.withdraw(false, 0) {
                    filled.bucket.give_back(charge);
                }
            },
            |filled| filled.bucket.deposit(),
            |filled| filled.withdraw(true, 0).map_or(0, |_spent| 2),
        );
        assert_eq!(filled.balance(), 2 + 1 - paid);
    });
}

#[test]
fn no_balance_is_ever_above_the_cap() {
    check(|| {
        let filled = Filled::new(2, 1, as_it_is);
        let deposit = |filled: &Filled| {
            filled.bucket.deposit();
            assert!(filled.balance() <= 2);
        };
        let (paid, (), ()) = together(
            &filled,
            |filled| {
                let charge = filled.withdraw(false, 0);
                assert!(filled.balance() <= 2);
                charge
                    .into_iter()
                    .for_each(|charge| filled.bucket.give_back(charge));
                filled.pays(0)
            },
            deposit,
            deposit,
        );
        assert_eq!(paid, 1, "there was always one token");
        // A deposit that found the bucket full is lost, at most one here.
        assert!((1..=2).contains(&filled.balance()), "{}", filled.balance());
    });
}

#[test]
fn an_interval_is_credited_once() {
    check(|| {
        let filled = Filled::new(10, 0, |bucket| bucket.refilled(TOKEN, 10 * TOKEN));
        let pay = |filled: &Filled| filled.pays(1);
        let (a, b, c) = together(&filled, pay, pay, pay);
        assert_eq!(a + b + c + filled.balance(), 1);
    });
}

#[test]
fn intervals_that_overlap_are_credited_once() {
    check(|| {
        let filled = Filled::new(10, 0, |bucket| bucket.refilled(TOKEN, 10 * TOKEN));
        let (a, b, c) = together(
            &filled,
            |filled| filled.pays(1),
            |filled| filled.pays(3),
            |filled| filled.pays(2),
        );
        assert_eq!(a + b + c + filled.balance(), 3);
    });
}

#[test]
fn a_refill_stops_where_it_should_while_others_deposit() {
    check(|| {
        let filled = Filled::new(3, 0, |bucket| bucket.refilled(TOKEN, 2 * TOKEN));
        let (a, (), c) = together(
            &filled,
            |filled| filled.pays(5),
            |filled| filled.bucket.deposit(),
            |filled| filled.pays(5),
        );
        // One deposited and two or, where the deposit came first, one from
        // the refill.
        let all = a + c + filled.balance();
        assert!((2..=3).contains(&all), "{all} tokens");
    });
}

#[test]
fn a_slot_is_held_by_one_retry_at_a_time() {
    check(|| {
        // Half of three calls, rounded down.
        let slots = Arc::new(Slots::new(500_000, 0));
        let holders = Arc::new(Holders::default());
        let call = || {
            let holders = Arc::clone(&holders);
            move |slots: &Slots| {
                slots.enter();
                if slots.take().is_some() {
                    holders.come(1);
                    loom::thread::yield_now();
                    holders.go();
                    slots.release();
                }
                slots.leave();
            }
        };
        together(&slots, call(), call(), call());
        slots.enter();
        slots.enter();
        assert_eq!(slots.free(), 1.0, "a slot was lost");
    });
}

#[test]
fn the_minimum_is_shared_out_exactly() {
    check(|| {
        let slots = Arc::new(Slots::new(0, 2));
        let take = |slots: &Slots| slots.take().is_some();
        let (a, b, c) = together(&slots, take, take, take);
        assert_eq!([a, b, c].into_iter().filter(|taken| *taken).count(), 2);
        assert_eq!(slots.free(), 0.0);
    });
}
