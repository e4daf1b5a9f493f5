//! The numbers that follow from a policy's settings, held against calls that
//! run, and the warnings where settings do not agree.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps in vain should fail"
)]

mod support;

use std::time::Duration;

use steadfast::{
    Backoff, Breaker, BreakerConfig, Description, Policy, PolicyBuilder, RetryBudget,
    ServiceBuilderExt, Verdict, Window, classify::classify_fn,
};
use support::*;
use tower::ServiceBuilder;

fn describe(policy: PolicyBuilder) -> Description {
    policy.build().unwrap().describe()
}

#[test]
fn the_default_policy_comes_to_these_numbers_and_no_warning() {
    let numbers = describe(Policy::builder("inventory"));
    assert_eq!(numbers.worst_case(), Some(secs(30.0)));
    assert!(numbers.deadline_cuts());
    assert_eq!(numbers.most_sends(), 3);
    assert_eq!(numbers.extra_load(), Some(0.1));
    assert_eq!(numbers.failures_to_open(), Some(5));
    assert_eq!(numbers.open_time(), Some(secs(5.0)));
    assert_eq!(numbers.warnings(), &[] as &[String]);
    assert_eq!(
        numbers.to_string(),
        "policy for `inventory`\n  \
           a call takes at most 30s and 3 sends\n  \
           (without the deadline it could take 30.3s)\n  \
           retries add at most 10.0 % of the successes, 10 to begin with and 0.1/s\n  \
           the breaker opens when 50.0 % of at least 20 calls in 10s failed, or the last 5 in \
           10s all failed\n  \
           for 5s at first and 60s at most, jitter aside, then admits one probe, then 10 % to \
           all in 10s\n"
    );
}

#[test]
fn a_policy_of_which_little_is_left_says_so() {
    let numbers = describe(bare());
    assert_eq!(numbers.worst_case(), None);
    assert!(!numbers.deadline_cuts());
    assert_eq!(numbers.most_sends(), 1);
    assert_eq!(numbers.extra_load(), None);
    assert_eq!(numbers.failures_to_open(), None);
    assert_eq!(numbers.open_time(), None);
    let text = numbers.to_string();
    assert!(
        text.contains("a call may take for ever and 1 send\n"),
        "{text}"
    );
    assert!(text.contains("retries are not budgeted\n"), "{text}");
    assert!(text.contains("no breaker\n"), "{text}");
}

/// How long a call takes whose attempts all hang, and how often it is sent.
async fn hangs(policy: PolicyBuilder) -> (f64, usize) {
    let t = Clock::start();
    let inner = Inner::always(Step::Hang);
    let policy = policy.build().unwrap();
    assert!(send(&stack(&policy, &inner), "x").await.is_err());
    (t.now(), inner.calls())
}

#[tokio::test(start_paused = true)]
async fn the_worst_case_is_what_a_dependency_that_hangs_makes_of_a_call() {
    let three = || {
        bare()
            .attempt_timeout(secs(1.0))
            .max_attempts(3)
            .backoff(Backoff::exponential(secs(1.0), secs(10.0)))
    };
    for (policy, worst, sends) in [
        (three(), 6.0, 3),
        (three().deadline(secs(60.0)), 6.0, 3),
        (
            three().max_attempts(7),
            7.0 + 1.0 + 2.0 + 4.0 + 8.0 + 10.0 + 10.0,
            7,
        ),
        (three().backoff(Backoff::none()), 3.0, 3),
        (three().backoff(Backoff::fixed(secs(5.0))), 13.0, 3),
        (three().deadline(secs(2.5)), 2.5, 2),
    ] {
        let numbers = describe(policy.clone());
        assert_eq!(numbers.worst_case(), Some(secs(worst)));
        let (took, sent) = hangs(policy).await;
        assert_times(&[took], &[worst]);
        assert_eq!(sent, sends);
        assert!(sent <= numbers.most_sends() as usize);
    }
}

#[tokio::test(start_paused = true)]
async fn waits_that_a_server_asks_for_come_on_top_and_are_told_of() {
    let hinting = |policy: PolicyBuilder| {
        policy.classify(classify_fn(|_: Result<&Text, &Source>| {
            Verdict::throttled(Some(secs(20.0)))
        }))
    };
    let three = || {
        bare()
            .attempt_timeout(secs(1.0))
            .max_attempts(3)
            .backoff(Backoff::fixed(secs(1.0)))
            .largest_hint(secs(20.0))
    };
    for (policy, told, took) in [
        (three(), "up to 20s before each retry)", 40.0),
        (
            three().deadline(secs(30.0)),
            "up to 20s before each retry, within 30s in all)",
            20.0,
        ),
    ] {
        let text = describe(policy.clone()).to_string();
        assert!(text.contains("a call takes at most 5s"), "{text}");
        assert!(text.contains(told), "{text}");
        let t = Clock::start();
        let policy = hinting(policy).build().unwrap();
        let client = ServiceBuilder::new()
            .resilience(policy)
            .service(Inner::always(Step::Err));
        assert!(send(&client, "x").await.is_err());
        t.assert_now(took);
    }
    for silent in [
        three().max_attempts(1),
        three().largest_hint(Duration::ZERO),
        three().deadline(secs(3.0)),
    ] {
        let text = describe(silent).to_string();
        assert!(!text.contains("a server may ask"), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn as_many_failures_open_the_breaker_as_are_told() {
    let time = |config: BreakerConfig| config.window(Window::time(secs(10.0)));
    for (config, failures) in [
        (BreakerConfig::default(), 5),
        (BreakerConfig::consecutive(3), 3),
        (BreakerConfig::failure_rate(0.5), 20),
        (BreakerConfig::failure_rate(1.0).min_calls(7), 7),
        (
            BreakerConfig::failure_rate(0.01).window(Window::count(4)),
            4,
        ),
        (
            time(BreakerConfig::failure_rate(0.5).min_calls(9)).or_consecutive(8),
            8,
        ),
        (time(BreakerConfig::consecutive(8)).last_failed(6), 6),
    ] {
        let numbers = describe(bare().breaker(config.clone()));
        assert_eq!(numbers.failures_to_open(), Some(failures), "{config:?}");
        let breaker = Breaker::new("case", config).unwrap();
        for failure in 1..=failures {
            let permit = breaker.admit();
            assert!(permit.is_ok(), "open after {} of {failures}", failure - 1);
            permit.unwrap().failure();
        }
        assert!(breaker.admit().is_err());
    }
}

#[test]
fn settings_that_do_not_agree_are_warned_of_and_others_are_not() {
    let sound = || {
        Policy::builder("case")
            .deadline(secs(10.0))
            .attempt_timeout(secs(2.0))
            .max_attempts(3)
            .backoff(Backoff::full_jitter(secs(0.1), secs(1.0)))
    };
    assert_eq!(describe(sound()).warnings(), &[] as &[String]);
    for (policy, warning) in [
        (
            sound().deadline(secs(1.0)),
            "the deadline of 1s is shorter than one attempt's timeout of 2s",
        ),
        (
            sound().deadline(secs(4.0)),
            "attempt 3 of 3 may start only after 4.3s",
        ),
        (
            sound().min_useful_time(secs(10.0)),
            "the minimum useful time of 10s leaves no room for a retry within 10s",
        ),
        (
            sound()
                .deadline(secs(60.0))
                .backoff(Backoff::fixed(secs(6.0))),
            "the breaker's window of 10s is shorter than twice the 12s",
        ),
        (
            sound().max_attempts(5),
            "5 failures open the breaker and one call may make 5 attempts",
        ),
        (
            sound().no_retry_budget(),
            "no retry budget: while everything fails, every call is sent 3 times",
        ),
        (
            sound().no_deadline().no_attempt_timeout(),
            "neither a deadline nor an attempt timeout",
        ),
    ] {
        let numbers = describe(policy);
        let told = numbers.warnings();
        assert!(
            told.iter().any(|told| told.starts_with(warning)),
            "{warning}: {told:?}"
        );
        let text = numbers.to_string();
        assert!(text.contains(&format!("  warning: {warning}")), "{text}");
    }
    // The next setting over, each agrees.
    for policy in [
        sound().deadline(secs(4.301)),
        sound().min_useful_time(secs(9.999)),
        sound().max_attempts(4),
        sound().no_deadline(),
        sound().no_attempt_timeout(),
        sound().max_attempts(1).no_retry_budget(),
    ] {
        assert_eq!(describe(policy).warnings(), &[] as &[String]);
    }
}

#[test]
fn a_budget_of_concurrent_retries_is_told_as_its_share() {
    let budget = RetryBudget::concurrent(0.25).min_concurrent(7);
    let numbers = describe(Policy::builder("case").retry_budget(budget));
    assert_eq!(numbers.extra_load(), Some(0.25));
    let text = numbers.to_string();
    assert!(
        text.contains("at most 25.0 % of the active calls, or 7\n"),
        "{text}"
    );
}

/// Three attempts of two seconds each, one second apart, in ten.
fn agreeing() -> PolicyBuilder {
    Policy::builder("inventory")
        .deadline(secs(10.0))
        .attempt_timeout(secs(2.0))
        .max_attempts(3)
        .backoff(Backoff::fixed(secs(1.0)))
        .min_useful_time(secs(0.01))
        .retry_budget(RetryBudget::ratio(0.1))
        .breaker(BreakerConfig::consecutive(4))
}

#[test]
fn a_call_takes_as_long_as_its_attempts_and_waits_or_its_deadline() {
    let worst = |policy| describe(policy).worst_case();
    assert_eq!(worst(agreeing()), Some(secs(8.0)));
    assert_eq!(worst(agreeing().deadline(secs(7.0))), Some(secs(7.0)));
    assert_eq!(worst(agreeing().no_deadline()), Some(secs(8.0)));
    assert_eq!(worst(agreeing().no_attempt_timeout()), Some(secs(10.0)));
    assert_eq!(worst(agreeing().no_deadline().no_attempt_timeout()), None);
    assert_eq!(worst(agreeing().max_attempts(1)), Some(secs(2.0)));
    // Waits of 1, 2, and then 4 seconds each.
    let growing = Backoff::exponential(secs(1.0), secs(4.0));
    for (attempts, longest) in [(2, 5.0), (3, 9.0), (4, 15.0), (5, 21.0), (7, 33.0)] {
        let policy = agreeing().no_deadline().backoff(growing.clone());
        let policy = policy.max_attempts(attempts);
        assert_eq!(worst(policy), Some(secs(longest)), "{attempts} attempts");
    }
}

#[test]
fn the_deadline_cuts_what_could_take_longer() {
    for (policy, cuts) in [
        (agreeing().deadline(secs(7.999)), true),
        (agreeing().deadline(secs(8.0)), false),
        (agreeing().no_attempt_timeout(), true),
        (agreeing().no_deadline(), false),
        (agreeing().no_deadline().no_attempt_timeout(), false),
    ] {
        let description = describe(policy);
        assert_eq!(description.deadline_cuts(), cuts, "{description}");
    }
}

#[test]
fn what_the_budget_and_the_breaker_are_set_to_is_told() {
    let description = describe(
        agreeing().breaker(
            BreakerConfig::failure_rate(0.5)
                .min_calls(20)
                .last_failed(7)
                .open_time(secs(3.0)),
        ),
    );
    assert_eq!(description.most_sends(), 3);
    assert_eq!(description.extra_load(), Some(0.1));
    assert_eq!(description.failures_to_open(), Some(7));
    assert_eq!(description.open_time(), Some(secs(3.0)));
    let concurrent = agreeing().retry_budget(RetryBudget::concurrent(0.2));
    assert_eq!(describe(concurrent).extra_load(), Some(0.2));
    let description = describe(agreeing().no_retry_budget().no_breaker());
    assert_eq!(description.extra_load(), None);
    assert_eq!(description.failures_to_open(), None);
    assert_eq!(description.open_time(), None);
}

#[test]
fn the_text_for_a_log_names_the_effective_numbers() {
    let budget = RetryBudget::ratio(0.125).opening_balance(5.0).no_trickle();
    let breaker = BreakerConfig::failure_rate(0.25)
        .window(Window::count(50))
        .min_calls(20)
        .last_failed(9)
        .or_consecutive(8)
        .slow_calls(secs(1.0), 0.75)
        .open_time(secs(3.0))
        .max_open_time(secs(30.0))
        .probes(2)
        .ramp(secs(20.0))
        .ramp_from(0.1);
    let policy = agreeing().deadline(secs(7.0)).retry_budget(budget);
    assert_eq!(
        describe(policy.breaker(breaker)).to_string(),
        "policy for `inventory`
  a call takes at most 7s and 3 sends
  (without the deadline it could take 8s)
  retries add at most 12.5 % of the successes, 5 to begin with and 0/s
  the breaker opens when 25.0 % of at least 20 calls in the last 50 calls failed, \
         or the last 9 in the last 50 calls all failed, \
         or 75.0 % of at least 20 calls in the last 50 calls took 1s or longer, \
         or 8 failed in a row
  for 3s at first and 30s at most, jitter aside, then admits 2 probes, then 10 % to all in 20s
"
    );
    let budget = RetryBudget::concurrent(0.2).min_concurrent(3);
    let breaker = BreakerConfig::consecutive(4)
        .open_time(secs(3.0))
        .max_open_time(secs(30.0))
        .probes(1)
        .no_ramp();
    assert_eq!(
        describe(agreeing().retry_budget(budget).breaker(breaker)).to_string(),
        "policy for `inventory`
  a call takes at most 8s and 3 sends
  (a server may ask for waits of up to 60s before each retry, within 10s in all)
  retries in flight are at most 20.0 % of the active calls, or 3
  the breaker opens when 4 failed in a row
  for 3s at first and 30s at most, jitter aside, then admits one probe
"
    );
    let endless = agreeing()
        .no_deadline()
        .no_attempt_timeout()
        .max_attempts(1);
    assert_eq!(
        describe(endless.no_retry_budget().no_breaker()).to_string(),
        "policy for `inventory`
  a call may take for ever and 1 send
  retries are not budgeted
  no breaker
  warning: neither a deadline nor an attempt timeout: a dependency that hangs holds its \
         callers for ever, and calls that they give up open no breaker
"
    );
}
