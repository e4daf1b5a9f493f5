//! The stage that sets a total for a call.

use std::task::{Context, Poll};
use std::time::Duration;

use tower::{Layer, Service};

use crate::error::Error;
use crate::span::Span;

/// A stage that can be told how long a call may take in total: the retry
/// loop, and what may stand between it and the deadline.
///
/// The total is handed down as an argument, not as a scope of its own, so
/// that one clock read serves both stages.
#[diagnostic::on_unimplemented(
    message = "`Deadline` bounds a retry loop, and `{Self}` is none",
    label = "expected the result of a `RetryLayer`",
    note = "the order is Fallback, Deadline, Defer, Retry, Breaker, Attempt, your service"
)]
pub trait RetryLoop: sealed::Sealed {}

pub(crate) mod sealed {
    pub trait Sealed {}
}

/// The call of a [`RetryLoop`] with a total.
pub(crate) trait Within<Req>: Service<Req, Error = Error> {
    fn call_within(&mut self, request: Req, total: Span) -> Self::Future;
}

/// Bounds each call through a retry loop: readiness, attempts, backoff.
///
/// Wraps only a retry loop. A deadline inside the loop would bound a single
/// attempt, which the attempt timeout is for:
///
/// ```
/// # use std::time::Duration;
/// # use steadfast::{attempt::AttemptLayer, deadline::DeadlineLayer, retry::RetryLayer};
/// # use tower::{Service, ServiceBuilder};
/// # let inner = tower::service_fn(|_: ()| async { Ok::<_, std::io::Error>(()) });
/// let mut service = ServiceBuilder::new()
///     .layer(DeadlineLayer::new(Duration::from_secs(2)))
///     .layer(RetryLayer::builder(3).build().unwrap())
///     .layer(AttemptLayer::new())
///     .service(inner);
/// # let _ = service.call(());
/// ```
///
/// ```compile_fail,E0599
/// # use std::time::Duration;
/// # use steadfast::{attempt::AttemptLayer, deadline::DeadlineLayer, retry::RetryLayer};
/// # use tower::{Service, ServiceBuilder};
/// # let inner = tower::service_fn(|_: ()| async { Ok::<_, std::io::Error>(()) });
/// let mut service = ServiceBuilder::new()
///     .layer(RetryLayer::builder(3).build().unwrap())
///     .layer(DeadlineLayer::new(Duration::from_secs(2)))
///     .layer(AttemptLayer::new())
///     .service(inner);
/// # let _ = service.call(());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct DeadlineLayer {
    total: Span,
}

impl DeadlineLayer {
    /// `total` from each call; what the caller has left wins if it is less. A
    /// total of zero sends nothing: every call is out of time as it comes.
    #[must_use]
    pub const fn new(total: Duration) -> Self {
        Self::optional(Some(total))
    }

    pub(crate) const fn optional(total: Option<Duration>) -> Self {
        Self {
            total: Span::new(total),
        }
    }
}

impl<S: RetryLoop> Layer<S> for DeadlineLayer {
    type Service = DeadlineService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        DeadlineService {
            inner,
            total: self.total,
        }
    }
}

/// Service of [`DeadlineLayer`].
///
/// # Errors
///
/// `DeadlineExceeded` when the total, or the deadline in scope, passes first.
/// The clock starts at `call`.
#[derive(Clone, Debug)]
pub struct DeadlineService<S> {
    inner: S,
    total: Span,
}

#[allow(private_bounds)]
impl<S, Req> Service<Req> for DeadlineService<S>
where
    S: Within<Req>,
{
    type Response = S::Response;
    type Error = Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Req) -> Self::Future {
        self.inner.call_within(request, self.total)
    }
}
