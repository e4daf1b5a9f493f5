//! tower-resilience: time limiter, retry, circuit breaker, time limiter.
//!
//! Its breaker counts calls: with a time window it walks through all calls of
//! the window at each of them. Its retries always sleep on tokio's timer, even
//! for no time, so it cannot retry at once.

use tower::{Layer, ServiceBuilder};
use tower_resilience_circuitbreaker::{CircuitBreakerError, CircuitBreakerLayer};
use tower_resilience_retry::{ExponentialRandomBackoff, RetryBudgetBuilder, RetryLayer};
use tower_resilience_timelimiter::{TimeLimiterError, TimeLimiterLayer};

use super::Peer;
use crate::contender::{Contender, Refusable, Tower};
use crate::inner::{Fault, Inner};
use crate::settings::{
    ATTEMPT_TIMEOUT, BACKOFF_BASE, BACKOFF_CAP, DEADLINE, MAX_ATTEMPTS, OPEN_TIME, Rule,
};

pub struct TowerResilience;

impl Peer for TowerResilience {
    const NAME: &'static str = "tower-resilience";

    fn stack(inner: Inner) -> Option<impl Contender> {
        let backoff = ExponentialRandomBackoff::new(BACKOFF_BASE, 1.0)
            .expect("a valid factor")
            .max_interval(BACKOFF_CAP);
        // Filled by time and not by successes.
        let budget = RetryBudgetBuilder::new()
            .token_bucket()
            .build()
            .expect("its own settings");
        let retry = RetryLayer::<u64, u64, Attempted>::builder()
            .max_attempts(MAX_ATTEMPTS as usize)
            .backoff(backoff)
            .budget(budget)
            .retry_on(|error| !error.is_refusal())
            .build();
        let service = ServiceBuilder::new()
            .layer(
                TimeLimiterLayer::builder()
                    .timeout_duration(DEADLINE)
                    .build(),
            )
            .layer(retry)
            .layer(breaker(Rule::Half))
            .layer(
                TimeLimiterLayer::builder()
                    .timeout_duration(ATTEMPT_TIMEOUT)
                    .build(),
            )
            .service(inner);
        Some(Tower(service))
    }

    fn refusing(inner: Inner) -> Option<impl Contender> {
        Self::stack(inner)
    }

    fn breaker(inner: Inner, rule: Rule) -> Option<impl Contender> {
        Some(Tower(breaker(rule).layer(inner)))
    }
}

type Attempted = CircuitBreakerError<TimeLimiterError<Fault>>;

fn breaker(rule: Rule) -> CircuitBreakerLayer {
    CircuitBreakerLayer::builder()
        .failure_rate_threshold(rule.share())
        .sliding_window_size(100)
        .wait_duration_in_open(OPEN_TIME)
        .build()
        .expect("valid settings")
}

impl<E> Refusable for CircuitBreakerError<E> {
    fn is_refusal(&self) -> bool {
        self.is_circuit_open()
    }
}

impl Refusable for TimeLimiterError<Attempted> {
    fn is_refusal(&self) -> bool {
        matches!(self, Self::Inner(error) if error.is_refusal())
    }
}
