//! The crate itself, with all that a policy has.

use ::steadfast::{
    Backoff, Breaker, BreakerConfig, Error, ErrorKind, Policy, RetryBudget, ServiceBuilderExt,
    Window,
};
use tower::ServiceBuilder;

use super::Peer;
use crate::contender::{Contender, Plain, Refusable, Tower};
use crate::inner::{Fault, Inner};
use crate::settings::{
    ATTEMPT_TIMEOUT, BACKOFF_BASE, BACKOFF_CAP, BUDGET, DEADLINE, MAX_ATTEMPTS, MIN_CALLS,
    OPEN_TIME, Rule, WINDOW,
};

pub struct Steadfast;

impl Peer for Steadfast {
    const NAME: &'static str = "steadfast";

    fn stack(inner: Inner) -> Option<impl Contender> {
        let backoff = Backoff::full_jitter(BACKOFF_BASE, BACKOFF_CAP);
        Some(stack(backoff, BUDGET, Rule::Half, inner))
    }

    fn refusing(inner: Inner) -> Option<impl Contender> {
        Self::stack(inner)
    }

    fn at_once(inner: Inner) -> Option<impl Contender> {
        Some(stack(Backoff::none(), 1.0, Rule::OutOfReach, inner))
    }

    /// A failure rate over a time window.
    fn breaker(inner: Inner, rule: Rule) -> Option<impl Contender> {
        Some(alone(time_window(rule), inner))
    }
}

/// The breaker that opens after consecutive failures.
pub struct SteadfastConsecutive;

impl Peer for SteadfastConsecutive {
    const NAME: &'static str = "steadfast-consecutive";
    const IS_PART: bool = true;

    fn breaker(inner: Inner, rule: Rule) -> Option<impl Contender> {
        let failures = match rule {
            Rule::Half => MIN_CALLS,
            Rule::OutOfReach => u32::MAX,
        };
        Some(alone(BreakerConfig::consecutive(failures), inner))
    }
}

/// The breaker with a failure rate over the last hundred calls.
pub struct SteadfastCount;

impl Peer for SteadfastCount {
    const NAME: &'static str = "steadfast-count";
    const IS_PART: bool = true;

    fn breaker(inner: Inner, rule: Rule) -> Option<impl Contender> {
        let config = BreakerConfig::failure_rate(rule.share()).window(Window::count(100));
        Some(alone(config, inner))
    }
}

fn time_window(rule: Rule) -> BreakerConfig {
    BreakerConfig::failure_rate(rule.share())
        .window(Window::time(WINDOW))
        .min_calls(MIN_CALLS)
}

fn stack(backoff: Backoff, budget: f64, rule: Rule, inner: Inner) -> impl Contender {
    let policy = Policy::builder("inner")
        .deadline(DEADLINE)
        .attempt_timeout(ATTEMPT_TIMEOUT)
        .max_attempts(MAX_ATTEMPTS)
        .backoff(backoff)
        .retry_budget(RetryBudget::ratio(budget))
        .breaker(
            time_window(rule)
                .open_time(OPEN_TIME)
                .max_open_time(OPEN_TIME),
        )
        .build()
        .expect("valid settings");
    Tower(ServiceBuilder::new().resilience(policy).service(inner))
}

fn alone(config: BreakerConfig, inner: Inner) -> impl Contender {
    let config = config.open_time(OPEN_TIME).max_open_time(OPEN_TIME);
    let breaker = Breaker::new("inner", config).expect("valid settings");
    Plain(move |request| {
        let permit = breaker.admit().map_err(|_| Fault::Refused)?;
        let result = inner.now(request);
        match result {
            Ok(_) => permit.success(),
            Err(_) => permit.failure(),
        }
        result
    })
}

impl Refusable for Error {
    fn is_refusal(&self) -> bool {
        self.kind() == ErrorKind::Refused
    }
}
