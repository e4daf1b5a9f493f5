//! tower's own layers: timeout, retry with its budget and backoff, timeout.
//! It has no breaker.

use std::future::{Ready, ready};
use std::sync::Arc;

use tower::retry::backoff::{Backoff, ExponentialBackoff, ExponentialBackoffMaker, MakeBackoff};
use tower::retry::budget::{Budget, TpsBudget};
use tower::retry::{Policy, RetryLayer};
use tower::timeout::TimeoutLayer;
use tower::util::rng::HasherRng;
use tower::{BoxError, Layer, Service, ServiceBuilder};

use super::Peer;
use crate::contender::{self, Contender, Refusable};
use crate::inner::Inner;
use crate::settings::{
    ATTEMPT_TIMEOUT, BACKOFF_BASE, BACKOFF_CAP, BUDGET, DEADLINE, MAX_ATTEMPTS, WINDOW,
};

pub struct Tower;

impl Peer for Tower {
    const NAME: &'static str = "tower";

    fn stack(inner: Inner) -> Option<impl Contender> {
        Some(around(
            RetryPolicy::jittered(),
            ServiceBuilder::new(),
            inner,
        ))
    }

    fn at_once(inner: Inner) -> Option<impl Contender> {
        Some(around(RetryPolicy::at_once(), ServiceBuilder::new(), inner))
    }
}

/// tower's timeout and nothing else: what a single timer costs.
pub struct TowerTimeout;

impl Peer for TowerTimeout {
    const NAME: &'static str = "tower-timeout";
    const IS_CHECKED: bool = false;
    const IS_PART: bool = true;

    fn stack(inner: Inner) -> Option<impl Contender> {
        let service = TimeoutLayer::new(ATTEMPT_TIMEOUT).layer(inner);
        Some(contender::Tower(service))
    }
}

/// tower's layers around `breaker`, which may be no layer at all.
pub fn around<B, L, S>(
    policy: RetryPolicy<B>,
    breaker: ServiceBuilder<L>,
    inner: Inner,
) -> impl Contender
where
    B: Backoff<Future: Send> + Clone + Send + 'static,
    L: Layer<tower::timeout::Timeout<Inner>, Service = S>,
    S: Service<u64, Response = u64, Error: Refusable + Into<BoxError>> + Clone + Send + 'static,
{
    let service = ServiceBuilder::new()
        .timeout(DEADLINE)
        .layer(RetryLayer::new(policy))
        .layer(breaker)
        .timeout(ATTEMPT_TIMEOUT)
        .service(inner);
    contender::Tower(service)
}

/// As tower's documentation shows it, with a refusal never retried.
#[derive(Clone)]
pub struct RetryPolicy<B> {
    retries_left: u32,
    budget: Arc<TpsBudget>,
    backoff: B,
}

impl RetryPolicy<ExponentialBackoff<HasherRng>> {
    pub fn jittered() -> Self {
        let mut backoff =
            ExponentialBackoffMaker::new(BACKOFF_BASE, BACKOFF_CAP, 1.0, HasherRng::default())
                .expect("valid settings");
        Self::new(BUDGET as f32, backoff.make_backoff())
    }
}

impl RetryPolicy<AtOnce> {
    pub fn at_once() -> Self {
        Self::new(1.0, AtOnce)
    }
}

impl<B> RetryPolicy<B> {
    fn new(budget: f32, backoff: B) -> Self {
        Self {
            retries_left: MAX_ATTEMPTS - 1,
            budget: Arc::new(TpsBudget::new(WINDOW, 10, budget)),
            backoff,
        }
    }
}

impl<B: Backoff, E: Refusable> Policy<u64, u64, E> for RetryPolicy<B> {
    type Future = B::Future;

    fn retry(&mut self, _: &mut u64, result: &mut Result<u64, E>) -> Option<B::Future> {
        match result {
            Ok(_) => {
                self.budget.deposit();
                None
            }
            Err(error) if error.is_refusal() => None,
            Err(_) => {
                self.retries_left = self.retries_left.checked_sub(1)?;
                self.budget.withdraw().then(|| self.backoff.next_backoff())
            }
        }
    }

    fn clone_request(&mut self, request: &u64) -> Option<u64> {
        Some(*request)
    }
}

/// tower's own backoff cannot be none.
#[derive(Clone)]
pub struct AtOnce;

impl Backoff for AtOnce {
    type Future = Ready<()>;

    fn next_backoff(&mut self) -> Ready<()> {
        ready(())
    }
}
