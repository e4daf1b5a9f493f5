//! The stage as a service.

use std::task::{Context, Poll};

use tokio::time::Instant;
use tower::{Layer, Service};

use super::future::{DeferFuture, Start};
use super::layer::DeferLayer;
use super::shared::Shared;
use crate::deadline::{RetryLoop, Within, sealed};
use crate::error::Error;
use crate::moment::Moment;
use crate::retry::{Deferrable, DeferrableLoop};
use crate::scope::ambient::Ambient;
use crate::scope::current::Entered;
use crate::scope::marks::Marks;
use crate::sharded::Sharded;
use crate::span::Span;

/// Service of [`DeferLayer`]: calls that wait out a refusal.
///
/// Always ready, as the loop inside is. Clones share what is parked.
///
/// # Errors
///
/// As the loop inside. Of a call that was parked and ran into a bound, the
/// refusal, with the bound as [`Error::park_limit`]; attempts and time are those
/// of all its returns.
#[derive(Debug)]
pub struct DeferService<S> {
    inner: S,
    shared: Sharded<Shared>,
}

impl<S: Clone> Clone for DeferService<S> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            shared: self.shared.clone(),
        }
    }
}

impl<S: DeferrableLoop> Layer<S> for DeferLayer {
    type Service = DeferService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        DeferService {
            inner,
            shared: Sharded::new(Shared::new(self.settings())),
        }
    }
}

impl<S> DeferService<S> {
    /// How many calls are put off now: parked, or come back and not over yet.
    #[must_use]
    pub fn parked(&self) -> usize {
        self.shared.taken()
    }
}

impl<S> sealed::Sealed for DeferService<S> {}
impl<S: RetryLoop> RetryLoop for DeferService<S> {}

#[allow(private_bounds)]
impl<Req, S> Service<Req> for DeferService<S>
where
    S: Deferrable<Req>,
{
    type Response = S::Response;
    type Error = Error;
    type Future = DeferFuture<Req, S>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Req) -> Self::Future {
        self.call_within(request, Span::NONE)
    }
}

impl<Req, S> Within<Req> for DeferService<S>
where
    S: Deferrable<Req>,
{
    fn call_within(&mut self, request: Req, total: Span) -> Self::Future {
        let started = Instant::now();
        let scope = Ambient::current();
        if scope.given_up() {
            // What was given up before is not the word on this call.
            Ambient::mark_given_up(false);
        }
        let mut frame = scope.unmarked(Marks::GIVEN_UP).marked(Marks::REPORT_WANTED);
        frame.deadline = scope.deadline.min(Moment::of(started).after(total));
        let kept = self.inner.copy(&request);
        // Only those who are parked care who comes.
        let breaker = (self.shared.taken() > 0)
            .then(|| self.inner.breaker(&request))
            .flatten();
        let service = kept.is_some().then(|| self.inner.clone());
        let future = {
            let _entered = Entered::new(&mut frame);
            self.inner.call_within(request, total)
        };
        DeferFuture::new(Start {
            shared: self.shared.handle(),
            future,
            service,
            kept,
            breaker,
            total,
            started,
            frame,
        })
    }
}
