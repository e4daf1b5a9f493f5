//! The model's settings in the crate's words.

use steadfast::{Backoff, BreakerConfig, Policy, PolicyBuilder, RetryBudget, Window};

use super::{Judge, ms};
use crate::model::policy as plain;

pub(crate) fn builder(policy: &plain::Policy) -> PolicyBuilder<Judge> {
    let builder = Policy::builder("scripted")
        .classify(Judge)
        .max_attempts(policy.max_attempts)
        .backoff(real_backoff(policy.backoff))
        .largest_hint(ms(policy.largest_hint))
        .min_useful_time(ms(policy.min_useful));
    let builder = match policy.deadline {
        Some(deadline) => builder.deadline(ms(deadline)),
        None => builder.no_deadline(),
    };
    let builder = match policy.attempt_timeout {
        Some(timeout) => builder.attempt_timeout(ms(timeout)),
        None => builder.no_attempt_timeout(),
    };
    let builder = match policy.budget {
        Some(budget) => builder.retry_budget(real_budget(budget)),
        None => builder.no_retry_budget(),
    };
    match &policy.breaker {
        Some(breaker) => builder.breaker(real_breaker(breaker)),
        None => builder.no_breaker(),
    }
}

fn real_backoff(backoff: plain::Backoff) -> Backoff {
    match backoff {
        plain::Backoff::None => Backoff::none(),
        plain::Backoff::Fixed(delay) => Backoff::fixed(ms(delay)),
        plain::Backoff::Exponential { base, cap, factor } => {
            Backoff::exponential(ms(base), ms(cap)).factor(factor as f64)
        }
    }
}

fn real_budget(budget: plain::Budget) -> RetryBudget {
    let tokens = |micro: i64| micro as f64 / plain::TOKEN as f64;
    match budget {
        plain::Budget::Ratio {
            ratio,
            cap,
            opening,
            refill,
        } => {
            let real = RetryBudget::ratio(tokens(ratio))
                .cap(tokens(cap))
                .opening_balance(tokens(opening));
            match refill {
                plain::Refill::Trickle(0) => real.no_trickle(),
                plain::Refill::Trickle(rate) => real.trickle(tokens(rate)),
                plain::Refill::Floor(rate) => real.floor_per_second(tokens(rate)),
            }
        }
        plain::Budget::Concurrent { percent, min } => {
            RetryBudget::concurrent(f64::from(percent) / 100.0).min_concurrent(min)
        }
    }
}

fn real_breaker(breaker: &plain::Breaker) -> BreakerConfig {
    let share = |rate: &plain::Rate| f64::from(rate.percent) / 100.0;
    let config = match (breaker.consecutive, &breaker.rate) {
        (Some(k), None) => BreakerConfig::consecutive(k),
        (None, Some(rate)) => BreakerConfig::failure_rate(share(rate)),
        (Some(k), Some(rate)) => BreakerConfig::consecutive(k).or_failure_rate(share(rate)),
        (None, None) => unreachable!("a breaker has a rule"),
    };
    let config = match &breaker.rate {
        None => config,
        Some(rate) => {
            let config = config
                .window(match rate.window {
                    plain::Window::Count(calls) => Window::count(calls),
                    plain::Window::Time(length) => Window::time(ms(length)),
                })
                .min_calls(rate.min_calls);
            match rate.last_failed {
                Some(k) => config.last_failed(k),
                None => config,
            }
        }
    };
    let config = match breaker.abandoned_after {
        Some(time) => config.abandoned_after(ms(time)),
        None => config,
    };
    config
        // The model closes at once; the ramp has tests of its own.
        .no_ramp()
        .open_time(ms(breaker.open_time))
        .growth(breaker.growth as f64)
        .max_open_time(ms(breaker.max_open_time))
        .open_jitter(0.0)
        .max_hint_open(ms(breaker.max_hint_open))
        .probes(breaker.probes)
        .successes(breaker.successes)
        .probe_lease(ms(breaker.lease))
}
