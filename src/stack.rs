//! The one order that works, written once.

use std::fmt;
use std::task::{Context, Poll};

use tower::{Layer, Service};

use crate::breaker::{OneBreaker, PickBreaker};
use crate::classify::default::DefaultClassify;
use crate::deadline::{DeadlineLayer, DeadlineService};
use crate::defer::{DeferFuture, DeferLayer, DeferService};
use crate::error::Error;
use crate::policy::{PerAttempt, Policy};
use crate::retry::RetryService;
use crate::stage::{InnerService, Stage};

/// What happens once per call: a deadline around the retry loop.
type PerCall<S, C, B> = DeadlineService<RetryService<S, PerAttempt<C, B>>>;

/// The same, with refused calls put off in between.
type PutOff<S, C, B> = DeadlineService<DeferService<RetryService<S, PerAttempt<C, B>>>>;

/// Wraps a service in the stages of a [`Policy`].
///
/// The layer behind
/// [`ServiceBuilderExt::resilience`](crate::ServiceBuilderExt::resilience).
#[derive(Debug)]
pub struct ResilienceLayer<C = DefaultClassify, B = OneBreaker> {
    policy: Policy<C, B>,
}

impl<C, B> ResilienceLayer<C, B> {
    /// All services that this layer makes share the policy's breaker and
    /// budget.
    #[must_use]
    pub const fn new(policy: Policy<C, B>) -> Self {
        Self { policy }
    }
}

impl<C, B> Clone for ResilienceLayer<C, B> {
    fn clone(&self) -> Self {
        Self::new(self.policy.clone())
    }
}

impl<S: InnerService, C, B> Layer<S> for ResilienceLayer<C, B> {
    type Service = Resilience<S, C, B>;

    fn layer(&self, service: S) -> Self::Service {
        let per_attempt = RetryService::new(service, self.policy.shared().clone());
        Resilience {
            inner: DeadlineLayer::optional(self.policy.total()).layer(per_attempt),
        }
    }
}

/// A service within a deadline, a retry loop, and per attempt a breaker and a
/// timeout.
///
/// Always ready: the readiness of the service inside is waited for within the
/// call, under its limits. `Clone` when `S` is, `Send` and `Sync` when `S`
/// is.
///
/// # Errors
///
/// [`Error`], which says whether the call was refused, ran out of time or
/// failed, and why it was not tried again. An answer that the classifier
/// judges to be a failure is returned as it is once the retries end.
pub struct Resilience<S, C = DefaultClassify, B = OneBreaker> {
    inner: PerCall<S, C, B>,
}

impl<S: Clone, C, B> Clone for Resilience<S, C, B> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
        }
    }
}

impl<S, C, B> fmt::Debug for Resilience<S, C, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resilience").finish_non_exhaustive()
    }
}

impl<S, C, B, Req> Service<Req> for Resilience<S, C, B>
where
    S: InnerService,
    PerAttempt<C, B>: Stage<Req, S>,
{
    type Response = <PerCall<S, C, B> as Service<Req>>::Response;
    type Error = Error;
    type Future = <PerCall<S, C, B> as Service<Req>>::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Service::<Req>::poll_ready(&mut self.inner, cx)
    }

    fn call(&mut self, request: Req) -> Self::Future {
        self.inner.call(request)
    }
}

/// Wraps a service in the stages of a [`Policy`], and puts off what its breaker
/// refuses.
///
/// The layer behind [`ServiceBuilderExt::deferring_resilience`].
///
/// [`ServiceBuilderExt::deferring_resilience`]: crate::ServiceBuilderExt::deferring_resilience
#[derive(Debug)]
pub struct DeferringLayer<C = DefaultClassify, B = OneBreaker> {
    policy: Policy<C, B>,
    defer: DeferLayer,
}

impl<C, B> DeferringLayer<C, B> {
    /// All services that this layer makes share the policy's breaker and
    /// budget; each parks calls of its own.
    #[must_use]
    pub const fn new(policy: Policy<C, B>, defer: DeferLayer) -> Self {
        Self { policy, defer }
    }
}

impl<C, B> Clone for DeferringLayer<C, B> {
    fn clone(&self) -> Self {
        Self::new(self.policy.clone(), self.defer)
    }
}

impl<S: InnerService, C, B> Layer<S> for DeferringLayer<C, B> {
    type Service = Deferring<S, C, B>;

    fn layer(&self, service: S) -> Self::Service {
        let per_attempt = RetryService::new(service, self.policy.shared().clone());
        let put_off = self.defer.layer(per_attempt);
        Deferring {
            inner: DeadlineLayer::optional(self.policy.total()).layer(put_off),
        }
    }
}

/// A [`Resilience`] whose refused calls are put off.
///
/// # Errors
///
/// As [`Resilience`]; a refusal only when a bound of the [`DeferLayer`] or the
/// deadline is against putting the call off, with [`Error::park_limit`].
pub struct Deferring<S, C = DefaultClassify, B = OneBreaker> {
    inner: PutOff<S, C, B>,
}

impl<S: Clone, C, B> Clone for Deferring<S, C, B> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
        }
    }
}

impl<S, C, B> fmt::Debug for Deferring<S, C, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deferring").finish_non_exhaustive()
    }
}

impl<S, C, B, Req> Service<Req> for Deferring<S, C, B>
where
    S: InnerService,
    B: PickBreaker<Req>,
    PerAttempt<C, B>: Stage<Req, S>,
{
    type Response = <PerCall<S, C, B> as Service<Req>>::Response;
    type Error = Error;
    type Future = DeferFuture<Req, RetryService<S, PerAttempt<C, B>>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Service::<Req>::poll_ready(&mut self.inner, cx)
    }

    fn call(&mut self, request: Req) -> Self::Future {
        self.inner.call(request)
    }
}
