//! What a policy says of itself: its worst case, the settings that do not
//! agree, and the text for a start-up log.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps in vain should fail"
)]

use std::time::Duration;

use steadfast::{Backoff, BreakerConfig, Description, Policy, PolicyBuilder, RetryBudget, Window};

fn secs(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
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

fn describe(policy: PolicyBuilder) -> Description {
    policy.build().unwrap().describe()
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
fn settings_that_do_not_agree_are_warned_of_and_no_others() {
    const SHORT: &str = "is shorter than one attempt's timeout";
    const LATE: &str = "attempt 3 of 3 may start only after 6s";
    const FOR_EVER: &str = "holds its callers for ever";
    const NO_ROOM: &str = "leaves no room for a retry";
    const WINDOW: &str = "is shorter than twice the 2s";
    const CLOSES: &str = "a single request that always fails";
    const UNBUDGETED: &str = "every call is sent 3 times";

    let rate = || {
        BreakerConfig::failure_rate(0.5)
            .min_calls(10)
            .last_failed(10)
    };
    let within = |config: BreakerConfig, seconds| {
        agreeing().breaker(config.window(Window::time(secs(seconds))))
    };
    let counted = rate().window(Window::count(10));
    let slow = BreakerConfig::consecutive(4).slow_calls(secs(1.0), 0.5);
    for (policy, expected) in [
        (agreeing(), None),
        (agreeing().deadline(secs(1.999)), Some(SHORT)),
        (agreeing().deadline(secs(2.0)), Some(LATE)),
        (agreeing().deadline(secs(6.0)), Some(LATE)),
        (agreeing().deadline(secs(6.001)), None),
        (agreeing().no_deadline(), None),
        (agreeing().no_attempt_timeout(), None),
        (
            agreeing().no_deadline().no_attempt_timeout(),
            Some(FOR_EVER),
        ),
        (agreeing().min_useful_time(secs(9.999)), None),
        (agreeing().min_useful_time(secs(10.0)), Some(NO_ROOM)),
        (agreeing().min_useful_time(secs(10.0)).max_attempts(1), None),
        (within(rate(), 4.0), None),
        (within(rate(), 3.99), Some(WINDOW)),
        (within(slow, 3.99), Some(WINDOW)),
        (within(BreakerConfig::consecutive(4), 1.0), None),
        (agreeing().breaker(counted), None),
        (
            agreeing().breaker(BreakerConfig::consecutive(3)),
            Some(CLOSES),
        ),
        (agreeing().no_retry_budget(), Some(UNBUDGETED)),
        (agreeing().no_retry_budget().max_attempts(1), None),
    ] {
        let description = describe(policy);
        let warnings = description.warnings();
        let fits = match expected {
            None => warnings.is_empty(),
            Some(part) => warnings.len() == 1 && warnings[0].contains(part),
        };
        assert!(fits, "expected {expected:?} alone, of {description}");
    }
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
  for 3s at first and 30s at most, then admits 2 probes, then 10 % to all in 20s
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
  retries in flight are at most 20.0 % of the active calls, or 3
  the breaker opens when 4 failed in a row
  for 3s at first and 30s at most, then admits one probe
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
         callers for ever
"
    );
}
