//! The benchmark policy: everything switched on, as a service would have it.

use std::time::Duration;

use steadfast::{
    Backoff, BreakerConfig, Policy, PolicyBuilder, RetryBudget, ServiceBuilderExt, Window,
};
use tower::{Service, ServiceBuilder};

use super::inner::Inner;

pub fn policy() -> Policy {
    settings().build().expect("a valid policy")
}

pub fn settings() -> PolicyBuilder {
    Policy::builder("inventory")
        .deadline(Duration::from_secs(30))
        .attempt_timeout(Duration::from_secs(10))
        .max_attempts(3)
        .backoff(Backoff::full_jitter(
            Duration::from_millis(100),
            Duration::from_secs(20),
        ))
        .retry_budget(RetryBudget::ratio(0.1))
        .breaker(breaker(0.5))
}

/// The open time outlasts any run, under an emulator too.
pub fn breaker(rate: f64) -> BreakerConfig {
    let hour = Duration::from_secs(3600);
    BreakerConfig::failure_rate(rate)
        .window(Window::time(Duration::from_secs(10)))
        .min_calls(20)
        .open_time(hour)
        .max_open_time(hour)
}

pub fn stack(
    policy: &Policy,
    inner: Inner,
) -> impl Service<u64, Response = u64, Error = steadfast::Error> + Clone + use<> {
    ServiceBuilder::new()
        .resilience(policy.clone())
        .service(inner)
}

/// Tells the breaker of failures without a call: no backoff is slept.
pub fn fail(policy: &Policy, times: u32) {
    let breaker = policy.breaker().expect("the policy has a breaker");
    for _ in 0..times {
        breaker.admit().expect("closed so far").failure();
    }
}
