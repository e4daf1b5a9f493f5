use std::sync::Barrier;
use std::time::Duration;

use super::super::build::MAX_TOKENS;
use super::*;
use proptest::prelude::*;

const SECOND: u128 = NANOS_PER_SEC as u128;
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

fn tokens(amount: f64) -> u64 {
    (amount * TOKEN as f64).round() as u64
}

/// Without refill, empty, and with room for a thousand tokens.
fn empty(ratio: f64, base: Moment) -> Bucket {
    Bucket::new(tokens(ratio), tokens(1000.0), 0, base)
}

fn drain(bucket: &Bucket, now: Moment) -> u32 {
    std::iter::from_fn(|| bucket.withdraw(false, now)).count() as u32
}

#[test]
fn a_hundred_successes_pay_for_exactly_the_ratio() {
    let now = Moment::now();
    for (ratio, retries) in [
        (0.01, 1),
        (0.15, 15),
        (0.29, 29),
        (0.3, 30),
        (0.6, 60),
        (0.7, 70),
        (1.0, 100),
        (1.5, 150),
    ] {
        let bucket = empty(ratio, now);
        for _ in 0..100 {
            bucket.deposit();
        }
        assert_eq!(bucket.balance(), f64::from(retries), "{ratio}");
        assert_eq!(drain(&bucket, now), retries, "{ratio}");
        assert_eq!(bucket.balance(), 0.0);
    }
}

#[test]
fn an_attempt_without_an_answer_makes_its_retry_twice_as_dear() {
    let now = Moment::now();
    let bucket = Bucket::new(0, tokens(10.0), tokens(3.0), now);
    assert!(bucket.withdraw(true, now).is_some());
    assert_eq!(bucket.balance(), 1.0);
    assert_eq!(bucket.withdraw(true, now), None);
    assert_eq!(bucket.balance(), 1.0);
    assert!(bucket.withdraw(false, now).is_some());
    assert_eq!(bucket.withdraw(false, now), None);
}

#[test]
fn the_cap_holds_against_deposits_and_refunds() {
    let now = Moment::now();
    let bucket = Bucket::new(tokens(0.7), tokens(10.0), tokens(10.0), now);
    let charge = bucket.withdraw(true, now).unwrap();
    for _ in 0..3 {
        bucket.deposit();
    }
    assert_eq!(bucket.balance(), 10.0);
    bucket.give_back(charge);
    assert_eq!(bucket.balance(), 10.0);
}

#[test]
fn a_full_bucket_is_only_read() {
    // `None` is what keeps a success from writing.
    assert_eq!(raised(3_000_000, 100_000, 3_000_000), None);
    assert_eq!(raised(4_000_000, 100_000, 3_000_000), None);
    assert_eq!(raised(2_000_000, 0, 3_000_000), None);
    assert_eq!(raised(2_999_999, 100_000, 3_000_000), Some(3_000_000));
}

#[test]
fn a_refund_gives_back_what_was_paid() {
    let now = Moment::now();
    let bucket = Bucket::new(0, tokens(10.0), tokens(5.0), now);
    for unanswered in [false, true] {
        let charge = bucket.withdraw(unanswered, now).unwrap();
        bucket.give_back(charge);
        assert_eq!(bucket.balance(), 5.0);
    }
}

#[test]
fn a_drained_floor_refills_to_the_cap_and_no_further() {
    let base = Moment::now();
    let bucket = Bucket::new(0, tokens(10.0), tokens(10.0), base).refilled(TOKEN, tokens(10.0));
    assert_eq!(drain(&bucket, base), 10);
    let later = base + Duration::from_secs(60);
    assert_eq!(bucket.balance(), 0.0);
    assert_eq!(bucket.balance_at(later), 10.0);
    assert_eq!(drain(&bucket, later), 10);
    // The fifty seconds after it was full again are not owed.
    assert_eq!(drain(&bucket, later + Duration::from_millis(999)), 0);
    assert_eq!(drain(&bucket, later + Duration::from_secs(1)), 1);
}

#[test]
fn a_trickle_stops_at_the_price_of_the_dearest_retry() {
    let base = Moment::now();
    let bucket = empty(0.0, base).refilled(tokens(0.1), PRICE_UNANSWERED);
    let ten = base + Duration::from_secs(10);
    assert_eq!(bucket.withdraw(true, ten), None);
    assert_eq!(bucket.balance(), 1.0);
    let later = base + Duration::from_secs(500);
    assert_eq!(bucket.balance_at(later), 2.0);
    assert!(bucket.withdraw(true, later).is_some());
    assert_eq!(drain(&bucket, later), 0);
}

#[test]
fn a_trickle_leaves_a_higher_balance_alone_and_does_not_save_up_meanwhile() {
    let base = Moment::now();
    let bucket = Bucket::new(0, tokens(10.0), tokens(4.5), base).refilled(TOKEN, PRICE_UNANSWERED);
    let later = base + Duration::from_secs(100);
    assert_eq!(bucket.balance_at(later), 4.5);
    assert!(bucket.withdraw(true, later).is_some());
    assert_eq!(bucket.balance(), 2.5);
    assert!(bucket.withdraw(true, later).is_some());
    assert_eq!(bucket.balance(), 0.5);
    assert_eq!(bucket.withdraw(false, later), None);
}

#[test]
fn asking_often_loses_no_fraction_of_a_token() {
    let base = Moment::now();
    // A millionth every 9.7 ms or so: a step of 7 ms is worth nothing by itself.
    let slow = 103;
    let bucket = empty(0.0, base).refilled(slow, tokens(1000.0));
    for step in 1..=1_000_000_u64 {
        let now = base + Duration::from_nanos(step * 7_000_003);
        assert_eq!(bucket.withdraw(false, now), None);
    }
    let expected = 1_000_000_u128 * 7_000_003 * u128::from(slow) / SECOND;
    assert_eq!(u128::from(bucket.balance.into_inner()), expected);
}

#[test]
fn centuries_of_idleness_neither_overflow_nor_overfill() {
    let base = Moment::now();
    let most = tokens(MAX_TOKENS);
    for years in [1, 500, 1000] {
        let later = base + YEAR * years;
        let bucket = Bucket::new(0, most, 0, base).refilled(most, most);
        assert_eq!(bucket.balance_at(later), 1e9);
        assert!(bucket.withdraw(true, later).is_some());
        assert_eq!(bucket.balance(), 1e9 - 2.0);

        let trickling = empty(0.0, base).refilled(tokens(0.1), PRICE_UNANSWERED);
        assert_eq!(drain(&trickling, later), 2, "{years} years");
    }
}

#[test]
fn the_largest_amounts_do_not_overflow() {
    let now = Moment::now();
    let most = tokens(MAX_TOKENS);
    let bucket = Bucket::new(tokens(1000.0), most, most - 1, now);
    bucket.deposit();
    assert_eq!(bucket.balance.load(Ordering::Relaxed), most);
    bucket.give_back(Charge { micros: u64::MAX });
    assert_eq!(bucket.balance.load(Ordering::Relaxed), most);
}

#[test]
fn a_clock_that_goes_back_adds_nothing_twice() {
    let base = Moment::now() + Duration::from_secs(100);
    let bucket = empty(0.0, base).refilled(TOKEN, tokens(1000.0));
    let before = Moment::from_nanos(base.nanos() - 50_000_000_000);
    assert_eq!(bucket.withdraw(false, before), None);
    assert_eq!(bucket.balance_at(before), 0.0);
    let ten = base + Duration::from_secs(10);
    assert_eq!(drain(&bucket, ten), 10);
    for now in [before, base, base + Duration::from_secs(5), ten] {
        assert_eq!(bucket.withdraw(false, now), None);
        assert_eq!(bucket.balance_at(now), 0.0);
    }
    assert_eq!(drain(&bucket, base + Duration::from_secs(11)), 1);
}

#[test]
fn threads_that_pay_in_and_take_out_lose_no_token() {
    const ROUNDS: u64 = 200_000;
    let base = Moment::now();
    let bucket = Bucket {
        cap: tokens(1e9),
        ..empty(1.3, base)
    };
    let start = Barrier::new(2);
    let work = || {
        start.wait();
        let (mut spent, mut earlier) = (0, None);
        for round in 0..ROUNDS {
            bucket.deposit();
            let Some(charge) = bucket.withdraw(round % 4 == 0, base) else {
                continue;
            };
            spent += charge.micros;
            // Some charges go back, a while later.
            if let Some(old) = earlier.replace(charge).filter(|_| round % 3 == 0) {
                bucket.give_back(old);
                spent -= old.micros;
            }
        }
        spent
    };
    let spent: u64 = std::thread::scope(|scope| {
        let threads = [scope.spawn(work), scope.spawn(work)];
        threads.into_iter().map(|t| t.join().unwrap()).sum()
    });
    assert!(spent > 0);
    assert_eq!(
        bucket.balance.load(Ordering::Relaxed) + spent,
        2 * ROUNDS * tokens(1.3)
    );
}

#[test]
fn threads_that_drain_a_bucket_together_get_just_what_was_in_it() {
    const TOKENS: u32 = 400_000;
    let base = Moment::now();
    let all = u64::from(TOKENS) * TOKEN;
    let bucket = Bucket::new(0, all, all, base);
    let start = Barrier::new(2);
    let work = || {
        start.wait();
        drain(&bucket, base)
    };
    let drained: u32 = std::thread::scope(|scope| {
        let threads = [scope.spawn(work), scope.spawn(work)];
        threads.into_iter().map(|t| t.join().unwrap()).sum()
    });
    assert_eq!(drained, TOKENS);
}

#[test]
fn threads_that_refill_at_once_credit_every_moment_once() {
    const ROUNDS: u64 = 100_000;
    const STEP: u64 = 12_345;
    let base = Moment::now();
    let rate = tokens(777.777_777);
    let bucket = Bucket {
        cap: tokens(1e9),
        ..empty(0.0, base)
    }
    .refilled(rate, tokens(1e9));
    let start = Barrier::new(2);
    let work = || {
        start.wait();
        (1..=ROUNDS)
            .filter_map(|n| bucket.withdraw(false, base + Duration::from_nanos(n * STEP)))
            .map(|charge| charge.micros)
            .sum::<u64>()
    };
    let spent: u64 = std::thread::scope(|scope| {
        let threads = [scope.spawn(work), scope.spawn(work)];
        threads.into_iter().map(|t| t.join().unwrap()).sum()
    });
    let expected = u128::from(ROUNDS * STEP) * u128::from(rate) / SECOND;
    assert_eq!(
        u128::from(bucket.balance.load(Ordering::Relaxed) + spent),
        expected
    );
}

#[test]
fn threads_never_push_a_nearly_full_bucket_over_its_cap() {
    let base = Moment::now();
    let bucket = Bucket::new(tokens(0.7), tokens(3.0), 0, base).refilled(TOKEN, tokens(3.0));
    let start = Barrier::new(2);
    let work = |offset: u64| {
        start.wait();
        for n in 0..50_000 {
            bucket.deposit();
            let charge = bucket.withdraw(false, base + Duration::from_millis(2 * n + offset));
            assert!(bucket.balance() <= 3.0);
            if let Some(charge) = charge {
                bucket.give_back(charge);
            }
            assert!(bucket.balance() <= 3.0);
        }
    };
    std::thread::scope(|scope| {
        let work = &work;
        scope.spawn(move || work(0));
        scope.spawn(move || work(1));
    });
}

/// One token bucket as one would explain it, with the cut-off fraction in a field of its own.
struct Model {
    balance: u128,
    fraction: u128,
    at: u64,
}

impl Model {
    fn refill(&mut self, bucket: &Bucket, now: u64) {
        if now <= self.at {
            return;
        }
        self.fraction += u128::from(now - self.at) * u128::from(bucket.refill_per_second);
        self.at = now;
        let whole = self.fraction / SECOND;
        self.fraction %= SECOND;
        let limit = u128::from(bucket.refill_up_to);
        if self.balance < limit {
            self.balance = (self.balance + whole).min(limit);
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Succeed,
    Retry {
        unanswered: bool,
    },
    Refund,
    Wait(u64),
    /// The next call has an older reading of the clock than the last.
    StepBack(u64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        4 => Just(Op::Succeed),
        6 => any::<bool>().prop_map(|unanswered| Op::Retry { unanswered }),
        1 => Just(Op::Refund),
        3 => (0_u64..20_000_000_000).prop_map(Op::Wait),
        1 => (0_u64..5_000_000_000).prop_map(Op::StepBack),
    ];
    proptest::collection::vec(op, 0..300)
}

proptest! {
    /// Whatever of it fits into 64 bits.
    #[test]
    fn a_total_is_that_of_one_long_division(
        nanos: u64,
        per_second in prop_oneof![0..=20 * TOKEN, 0..=tokens(MAX_TOKENS)],
    ) {
        let product = u128::from(nanos) * u128::from(per_second);
        prop_assert_eq!(total(nanos, per_second), product / SECOND);
    }

    #[test]
    fn any_history_agrees_with_the_model_and_keeps_the_bound(
        deposit in 0_u64..3_000_000,
        cap in TOKEN..20_000_000,
        opening in 0_u64..20_000_000,
        rate in prop_oneof![Just(0_u64), 1_u64..1000, 0_u64..2_000_000],
        floor in any::<bool>(),
        ops in ops(),
    ) {
        let base = Moment::now();
        let opening = opening.min(cap);
        let up_to = if floor { cap } else { cap.min(PRICE_UNANSWERED) };
        let bucket = Bucket::new(deposit, cap, opening, base).refilled(rate, up_to);
        let mut model = Model { balance: u128::from(opening), fraction: 0, at: 0 };
        let (mut clock, mut latest) = (0_u64, 0_u64);
        let mut charges = Vec::new();
        let (mut successes, mut spent) = (0_u128, 0_u128);
        for op in ops {
            match op {
                Op::Succeed => {
                    bucket.deposit();
                    successes += 1;
                    model.balance = (model.balance + u128::from(deposit)).min(u128::from(cap));
                }
                Op::Retry { unanswered } => {
                    let now = base + Duration::from_nanos(clock);
                    let foreseen = bucket.balance_at(now);
                    let charge = bucket.withdraw(unanswered, now);
                    latest = latest.max(clock);
                    model.refill(&bucket, clock);
                    prop_assert_eq!(foreseen, in_tokens(model.balance as u64));
                    let price = if unanswered { 2_000_000 } else { 1_000_000 };
                    prop_assert_eq!(charge.is_some(), model.balance >= price);
                    if let Some(charge) = charge {
                        prop_assert_eq!(u128::from(charge.micros), price);
                        model.balance -= price;
                        spent += price;
                        charges.push(charge);
                    }
                }
                Op::Refund => if let Some(charge) = charges.pop() {
                    bucket.give_back(charge);
                    let micros = u128::from(charge.micros);
                    spent -= micros;
                    model.balance = (model.balance + micros).min(u128::from(cap));
                }
                Op::Wait(nanos) => clock += nanos,
                Op::StepBack(nanos) => clock = clock.saturating_sub(nanos),
            }
            let balance = bucket.balance.load(Ordering::Relaxed);
            prop_assert_eq!(u128::from(balance), model.balance);
            prop_assert!(balance <= cap);
            // What was spent and not given back never passes what came in.
            let refill = u128::from(latest) * u128::from(rate) / SECOND;
            let income = u128::from(deposit) * successes + u128::from(opening) + refill;
            prop_assert!(spent + u128::from(balance) <= income);
        }
    }
}
