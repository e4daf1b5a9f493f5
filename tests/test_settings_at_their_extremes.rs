//! Every setting with 0, the least, the largest, negative, infinite and no
//! number at all: it is refused by an error that names field and value, or
//! calls run, end and count as ever. And settings that look alike are told
//! apart: the name in the error is the one of the method.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps in vain should fail"
)]

mod support;

use std::time::Duration;

use steadfast::retry::RetryLayer;
use steadfast::{
    Backoff, Breaker, BreakerConfig, ConfigError, Deadline, ErrorKind, Policy, PolicyBuilder,
    PolicyChanges, RetryBudget, Window,
};
use support::*;

const FLOATS: [f64; 16] = [
    f64::NAN,
    f64::NEG_INFINITY,
    f64::MIN,
    -1.0,
    -f64::MIN_POSITIVE,
    -0.0,
    0.0,
    f64::MIN_POSITIVE,
    1e-9,
    0.5,
    1.0,
    1.000_000_1,
    1e9,
    1e300,
    f64::MAX,
    f64::INFINITY,
];

const SPANS: [Duration; 7] = [
    Duration::ZERO,
    Duration::from_nanos(1),
    Duration::from_millis(1),
    Duration::from_secs(1),
    // A little more than fits into nanoseconds in 64 bits.
    Duration::from_secs(18_446_744_074),
    Duration::from_secs(u64::MAX),
    Duration::MAX,
];

const NUMBERS: [u32; 8] = [0, 1, 2, 10, 1_000_000, 1_000_001, u32::MAX - 1, u32::MAX];

/// The name of a setting in errors, how it is set, and which values are taken.
type Setting<T> = (&'static str, fn(T) -> PolicyBuilder, fn(T) -> bool);

/// The error names the setting, and the value as it was given.
#[track_caller]
fn assert_named(error: &ConfigError, field: &str, value: &str) {
    assert_eq!(error.field(), field, "{error}");
    assert_eq!(error.value(), value, "{error}");
    assert!(!error.problem().is_empty());
}

/// Fails and works for a while, with callers who leave after ten seconds.
/// Nothing panics, nothing takes longer, and the numbers can be told.
async fn works(policy: &Policy, what: &str) {
    let steps = [
        Step::Err,
        Step::Err,
        Step::Ok,
        Step::ErrAfter(0.5),
        Step::Hang,
    ];
    let inner = Inner::script(steps.into_iter().cycle().take(20), Step::Ok);
    let client = stack(policy, &inner);
    for _ in 0..12 {
        let t = Clock::start();
        let result = Deadline::after(secs(10.0)).scope(send(&client, "x")).await;
        assert!(t.now() < 10.002_001, "{what}: T={}", t.now());
        if let Err(error) = &result {
            assert!(error.elapsed() < secs(10.003), "{what}: {error}");
            assert!(!error.to_string().is_empty());
        }
        let balance = policy.budget_balance().unwrap_or(0.0);
        assert!(balance.is_finite() && balance >= 0.0, "{what}: {balance}");
    }
    let description = policy.describe();
    assert!(description.to_string().contains("case"), "{what}");
    assert!(!description.to_string().contains("NaN"), "{what}");
    #[cfg(feature = "serde")]
    serde_json::to_string(&policy.snapshot()).unwrap();
}

async fn refused_or_works(built: Result<Policy, ConfigError>, field: &str, value: &str) -> bool {
    match built {
        Err(error) => {
            assert_named(&error, field, value);
            false
        }
        Ok(policy) => {
            works(&policy, &format!("{field} = {value}")).await;
            true
        }
    }
}

/// All others as in a policy of everyday.
fn everyday() -> PolicyBuilder {
    Policy::builder("case")
        .backoff(Backoff::full_jitter(secs(0.1), secs(1.0)))
        .breaker(BreakerConfig::consecutive(3).open_time(secs(1.0)))
}

#[tokio::test(start_paused = true)]
async fn a06_every_number_with_a_fraction_is_refused_by_name_or_works() {
    let all: [Setting<f64>; 12] = [
        (
            "backoff.factor",
            |x| everyday().backoff(Backoff::full_jitter(secs(0.1), secs(1.0)).factor(x)),
            |x| x >= 1.0 && x.is_finite(),
        ),
        (
            "retry_budget.ratio",
            |x| everyday().retry_budget(RetryBudget::ratio(x)),
            |x| x == 0.0 || (1e-6..=1_000.0).contains(&x),
        ),
        (
            "retry_budget.cap",
            |x| everyday().retry_budget(RetryBudget::ratio(0.1).cap(x)),
            |x| (1.0..=1e9).contains(&x),
        ),
        (
            "retry_budget.opening_balance",
            |x| everyday().retry_budget(RetryBudget::ratio(0.1).opening_balance(x)),
            |x| x == 0.0 || (1e-6..=10.0).contains(&x),
        ),
        (
            "retry_budget.trickle",
            |x| everyday().retry_budget(RetryBudget::ratio(0.1).trickle(x)),
            |x| x == 0.0 || (1e-6..=1e9).contains(&x),
        ),
        (
            "retry_budget.floor_per_second",
            |x| everyday().retry_budget(RetryBudget::ratio(0.1).floor_per_second(x)),
            |x| x == 0.0 || (1e-6..=1e9).contains(&x),
        ),
        (
            "retry_budget.share",
            |x| everyday().retry_budget(RetryBudget::concurrent(x)),
            |x| x == 0.0 || (1e-6..=1.0).contains(&x),
        ),
        (
            "breaker.failure_rate",
            |x| everyday().breaker(BreakerConfig::failure_rate(x)),
            |x| x > 0.0 && x <= 1.0,
        ),
        (
            "breaker.slow_calls",
            |x| everyday().breaker(BreakerConfig::consecutive(3).slow_calls(secs(1.0), x)),
            |x| x > 0.0 && x <= 1.0,
        ),
        (
            "breaker.growth",
            |x| everyday().breaker(BreakerConfig::consecutive(3).growth(x)),
            |x| x >= 1.0 && x.is_finite(),
        ),
        (
            "breaker.open_jitter",
            |x| everyday().breaker(BreakerConfig::consecutive(3).open_jitter(x)),
            |x| (0.0..=10.0).contains(&x),
        ),
        (
            "breaker.ramp_from",
            |x| everyday().breaker(BreakerConfig::consecutive(3).ramp_from(x)),
            |x| (0.0..=1.0).contains(&x),
        ),
    ];
    for (field, set, fits) in all {
        for x in FLOATS {
            let worked = refused_or_works(set(x).build(), field, &x.to_string()).await;
            assert_eq!(worked, fits(x), "{field} = {x}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a06_every_span_is_refused_by_name_or_works() {
    let all: [Setting<Duration>; 15] = [
        ("deadline", |x| everyday().deadline(x), |x| !x.is_zero()),
        (
            "attempt_timeout",
            |x| everyday().attempt_timeout(x),
            |x| !x.is_zero(),
        ),
        ("largest_hint", |x| everyday().largest_hint(x), |_| true),
        (
            "min_useful_time",
            |x| everyday().min_useful_time(x),
            |_| true,
        ),
        (
            "backoff.base",
            |x| everyday().backoff(Backoff::full_jitter(x, secs(1.0))),
            |x| x <= secs(1.0),
        ),
        (
            "backoff.cap",
            |x| everyday().backoff(Backoff::full_jitter(Duration::ZERO, x)),
            |_| true,
        ),
        (
            "backoff.fixed",
            |x| everyday().backoff(Backoff::fixed(x)),
            |_| true,
        ),
        (
            "breaker.window",
            |x| everyday().breaker(BreakerConfig::failure_rate(0.5).window(Window::time(x))),
            |x| x >= Duration::from_millis(10),
        ),
        (
            "breaker.slow_calls",
            |x| everyday().breaker(BreakerConfig::consecutive(3).slow_calls(x, 0.5)),
            |x| !x.is_zero(),
        ),
        (
            "breaker.open_time",
            |x| everyday().breaker(BreakerConfig::consecutive(3).open_time(x)),
            |x| !x.is_zero(),
        ),
        (
            "breaker.max_open_time",
            |x| everyday().breaker(BreakerConfig::consecutive(3).max_open_time(x)),
            |x| x >= secs(5.0),
        ),
        (
            "breaker.max_hint_open",
            |x| everyday().breaker(BreakerConfig::consecutive(3).max_hint_open(x)),
            |_| true,
        ),
        (
            "breaker.probe_lease",
            |x| everyday().breaker(BreakerConfig::consecutive(3).probe_lease(x)),
            |x| x >= secs(10.0),
        ),
        (
            "breaker.ramp",
            |x| everyday().breaker(BreakerConfig::consecutive(3).ramp(x)),
            |_| true,
        ),
        (
            "breaker.abandoned_after",
            |x| everyday().breaker(BreakerConfig::consecutive(3).abandoned_after(x)),
            |_| true,
        ),
    ];
    for (field, set, fits) in all {
        for x in SPANS {
            let built = set(x).build();
            let worked = refused_or_works(built, field, &format!("{x:?}")).await;
            assert_eq!(worked, fits(x), "{field} = {x:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a06_every_whole_number_is_refused_by_name_or_works() {
    let all: [Setting<u32>; 10] = [
        ("max_attempts", |x| everyday().max_attempts(x), |x| x > 0),
        (
            "retry_budget.min_concurrent",
            |x| everyday().retry_budget(RetryBudget::concurrent(0.0).min_concurrent(x)),
            |x| x > 0,
        ),
        (
            "breaker.consecutive",
            |x| everyday().breaker(BreakerConfig::consecutive(x)),
            |x| x > 0,
        ),
        (
            "breaker.window",
            |x| everyday().breaker(BreakerConfig::failure_rate(0.5).window(Window::count(x))),
            |x| (1..=1_000_000).contains(&x),
        ),
        (
            "breaker.min_calls",
            |x| everyday().breaker(BreakerConfig::failure_rate(0.5).min_calls(x)),
            |x| (1..=1_000_000).contains(&x),
        ),
        (
            "breaker.min_calls",
            |x| everyday().breaker(bk().min_calls(x)),
            |x| (1..=4).contains(&x),
        ),
        (
            "breaker.last_failed",
            |x| everyday().breaker(BreakerConfig::failure_rate(0.5).last_failed(x)),
            |x| (1..=1_000_000).contains(&x),
        ),
        (
            "breaker.probes",
            |x| everyday().breaker(BreakerConfig::consecutive(3).probes(x)),
            |x| x > 0,
        ),
        (
            "breaker.successes",
            |x| everyday().breaker(BreakerConfig::consecutive(3).probes(10).successes(x)),
            |x| (1..=10).contains(&x),
        ),
        (
            "breaker.concurrency_limit",
            |x| everyday().breaker(BreakerConfig::consecutive(3).concurrency_limit(x)),
            |x| x > 0,
        ),
    ];
    for (field, set, fits) in all {
        for x in NUMBERS {
            let worked = refused_or_works(set(x).build(), field, &x.to_string()).await;
            assert_eq!(worked, fits(x), "{field} = {x}");
        }
    }
}

#[test]
fn a06_a_setting_of_one_kind_of_budget_is_refused_by_the_other() {
    let by_ratio = || RetryBudget::ratio(0.1);
    let by_share = || RetryBudget::concurrent(0.1);
    for (budget, field, value) in [
        (by_ratio().min_concurrent(7), "min_concurrent", "7"),
        (by_share().cap(7.5), "cap", "7.5"),
        (by_share().opening_balance(7.5), "opening_balance", "7.5"),
        (by_share().trickle(7.5), "trickle", "7.5"),
        (by_share().no_trickle(), "trickle", "0"),
        (by_share().floor_per_second(7.5), "floor_per_second", "7.5"),
    ] {
        let field = format!("retry_budget.{field}");
        let error = bare().retry_budget(budget.clone()).build().unwrap_err();
        assert_named(&error, &field, value);
        let error = RetryLayer::builder(3).retry_budget(budget).build();
        assert_named(&error.map(drop).unwrap_err(), &field, value);
    }
}

#[test]
fn a06_the_layer_and_the_changes_refuse_what_the_builder_refuses() {
    let backwards = || Backoff::full_jitter(secs(5.0), secs(1.0));
    let error = RetryLayer::builder(0).build().map(drop).unwrap_err();
    assert_named(&error, "max_attempts", "0");
    let error = RetryLayer::builder(3).backoff(backwards()).build();
    assert_named(&error.map(drop).unwrap_err(), "backoff.base", "5s");

    let policy = everyday().build().unwrap();
    let before = format!("{policy:?}");
    for (changes, field, value) in [
        (PolicyChanges::new().max_attempts(0), "max_attempts", "0"),
        (
            PolicyChanges::new().max_attempts(9).backoff(backwards()),
            "backoff.base",
            "5s",
        ),
        (
            PolicyChanges::new()
                .max_attempts(9)
                .breaker(BreakerConfig::consecutive(0)),
            "breaker.consecutive",
            "0",
        ),
        (
            PolicyChanges::new()
                .max_attempts(9)
                .breaker(BreakerConfig::consecutive(3).probe_lease(secs(9.999))),
            "breaker.probe_lease",
            "9.999s",
        ),
    ] {
        assert_named(&policy.reconfigure(changes).unwrap_err(), field, value);
        assert_eq!(format!("{policy:?}"), before);
    }
    let without = bare().build().unwrap();
    let changes = PolicyChanges::new().max_attempts(9).breaker(bk());
    let error = without.reconfigure(changes).unwrap_err();
    assert_eq!(error.field(), "breaker");
    assert_eq!(without.describe().most_sends(), 1);
}

#[tokio::test(start_paused = true)]
async fn a06_the_longest_of_all_settings_together_work() {
    let policy = Policy::builder("case")
        .deadline(Duration::MAX)
        .attempt_timeout(Duration::MAX)
        .max_attempts(u32::MAX)
        .largest_hint(Duration::MAX)
        .min_useful_time(Duration::MAX)
        .backoff(Backoff::full_jitter(Duration::MAX, Duration::MAX).factor(f64::MAX))
        .retry_budget(
            RetryBudget::ratio(1_000.0)
                .cap(1e9)
                .opening_balance(1e9)
                .floor_per_second(1e9),
        )
        .breaker(
            BreakerConfig::consecutive(u32::MAX)
                .or_failure_rate(1.0)
                .window(Window::time(Duration::MAX))
                .min_calls(1_000_000)
                .last_failed(1_000_000)
                .slow_calls(Duration::MAX, 1.0)
                .open_time(Duration::MAX)
                .max_open_time(Duration::MAX)
                .growth(f64::MAX)
                .open_jitter(10.0)
                .max_hint_open(Duration::MAX)
                .probes(u32::MAX)
                .successes(u32::MAX)
                .probe_lease(Duration::MAX)
                .ramp(Duration::MAX)
                .ramp_from(1.0)
                .abandoned_after(Duration::MAX)
                .concurrency_limit(u32::MAX),
        )
        .build()
        .unwrap();
    works(&policy, "the longest").await;
    let breaker = policy.breaker().unwrap();
    breaker.force_open("");
    breaker.reset();
    works(&policy, "the longest, reset").await;
}

#[tokio::test(start_paused = true)]
async fn a06_the_least_of_all_settings_together_work() {
    let nano = Duration::from_nanos(1);
    let config = BreakerConfig::consecutive(1)
        .or_failure_rate(f64::MIN_POSITIVE)
        .window(Window::count(1))
        .min_calls(1)
        .last_failed(1)
        .slow_calls(nano, f64::MIN_POSITIVE)
        .open_time(nano)
        .max_open_time(nano)
        .growth(1.0)
        .open_jitter(0.0)
        .max_hint_open(Duration::ZERO)
        .probes(1)
        .successes(1)
        .probe_lease(nano)
        .ramp(nano)
        .ramp_from(0.0)
        .abandoned_after(Duration::ZERO)
        .concurrency_limit(1);
    let policy = Policy::builder("")
        .deadline(nano)
        .attempt_timeout(nano)
        .max_attempts(1)
        .largest_hint(Duration::ZERO)
        .min_useful_time(Duration::ZERO)
        .backoff(Backoff::none())
        .retry_budget(
            RetryBudget::ratio(0.0)
                .cap(1.0)
                .opening_balance(0.0)
                .trickle(0.0),
        )
        .breaker(config.clone())
        .build()
        .unwrap();
    let inner = Inner::always(Step::Hang);
    let client = stack(&policy, &inner);
    for _ in 0..20 {
        let t = Clock::start();
        let kind = kind(&send(&client, "x").await);
        assert!(
            matches!(
                kind,
                Some(ErrorKind::TimedOut | ErrorKind::DeadlineExceeded | ErrorKind::Refused)
            ),
            "{kind:?}"
        );
        assert!(t.now() < 0.002_001);
    }
    // By hand the same breaker opens, is due, recovers and closes.
    let breaker = Breaker::new("", config).unwrap();
    for _ in 0..20 {
        breaker.admit().unwrap().failure();
        assert!(breaker.admit().is_err());
        tokio::time::advance(nano).await;
        breaker.admit().unwrap().success();
        tokio::time::advance(nano).await;
        breaker.admit().unwrap().neutral();
    }
}
