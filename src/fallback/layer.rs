//! The outermost stage.

use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Instant;
use tower::{Layer, Service};

use super::entry::FallbackEntry;
use super::future::{FallbackFuture, Watch};
use crate::error::Error;
use crate::scope::ambient::{Ambient, Entered};
use crate::scope::earlier;
use crate::sharded::Sharded;

/// Answers from elsewhere what all inside could not.
///
/// Wraps services whose error is [`Error`]: a stack of a policy, or anything
/// that passes its errors on.
///
/// # Default
///
/// No bound of its own and no reserve; a policy's deadline bounds its primary
/// only. What falls through stands in the [module's page](super).
#[derive(Clone, Debug)]
pub struct FallbackLayer<F, P = ByDefault> {
    entries: F,
    falls_through: P,
    within: Option<Duration>,
    reserve: Duration,
}

impl<F> FallbackLayer<F> {
    /// A fallback of these entries.
    pub const fn new(entries: F) -> Self {
        Self {
            entries,
            falls_through: ByDefault,
            within: None,
            reserve: Duration::ZERO,
        }
    }
}

impl<F, P> FallbackLayer<F, P> {
    /// Lets `predicate` say which errors fall through. An answer that was
    /// judged a failure is shown as an error without a source.
    pub fn when<Q>(self, predicate: Q) -> FallbackLayer<F, Q>
    where
        Q: Fn(&Error) -> bool,
    {
        FallbackLayer {
            entries: self.entries,
            falls_through: predicate,
            within: self.within,
            reserve: self.reserve,
        }
    }

    /// Bounds primary and fallback together, from the call; what the caller
    /// has left wins if it is less.
    #[must_use]
    pub const fn within(mut self, total: Duration) -> Self {
        self.within = Some(total);
        self
    }

    /// Keeps this much of [`within`](Self::within), or of the caller's
    /// deadline, from the primary, so that the fallback has time to answer.
    #[must_use]
    pub const fn reserve(mut self, reserve: Duration) -> Self {
        self.reserve = reserve;
        self
    }
}

/// Decides which errors fall through.
pub trait FallsThrough {
    /// Whether the fallback is asked after this error.
    fn falls_through(&self, error: &Error) -> bool;
}

/// The rule of the [module's page](super).
#[derive(Clone, Copy, Debug)]
pub struct ByDefault;

impl FallsThrough for ByDefault {
    fn falls_through(&self, error: &Error) -> bool {
        error.falls_through()
    }
}

impl<P: Fn(&Error) -> bool> FallsThrough for P {
    fn falls_through(&self, error: &Error) -> bool {
        self(error)
    }
}

impl<S, F: Clone, P: Clone> Layer<S> for FallbackLayer<F, P> {
    type Service = FallbackService<S, F, P>;

    fn layer(&self, inner: S) -> Self::Service {
        FallbackService {
            inner,
            shared: Sharded::new(self.clone()),
        }
    }
}

impl<F, P> FallbackLayer<F, P> {
    pub(super) const fn entries(&self) -> &F {
        &self.entries
    }

    pub(super) const fn rule(&self) -> &P {
        &self.falls_through
    }

    /// Whether it has a bound of its own for the primary.
    const fn is_bounded(&self) -> bool {
        self.within.is_some() || !self.reserve.is_zero()
    }

    /// By when fallback and primary must be done, and the primary alone.
    fn deadlines(
        &self,
        caller: Option<Instant>,
        bounded_since: Option<Instant>,
    ) -> (Option<Instant>, Option<Instant>) {
        let Some(now) = bounded_since else {
            return (caller, caller);
        };
        let own = self.within.and_then(|within| now.checked_add(within));
        let overall = own.map_or(caller, |own| earlier(caller, own));
        // A reserve larger than all there is leaves the primary nothing, which
        // is what was asked for.
        let primary = overall.map(|at| at.checked_sub(self.reserve).unwrap_or(now));
        (overall, primary)
    }
}

/// Service of [`FallbackLayer`].
///
/// # Errors
///
/// The primary's, when it does not fall through or all entries failed too.
#[derive(Debug)]
pub struct FallbackService<S, F, P = ByDefault> {
    inner: S,
    shared: Sharded<FallbackLayer<F, P>>,
}

impl<S: Clone, F, P> Clone for FallbackService<S, F, P> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            shared: self.shared.clone(),
        }
    }
}

impl<Req, S, F, P> Service<Req> for FallbackService<S, F, P>
where
    S: Service<Req, Error = Error>,
    F: FallbackEntry<Req, S::Response>,
    P: FallsThrough,
{
    type Response = S::Response;
    type Error = Error;
    type Future = FallbackFuture<Req, S::Response, S::Future, F, P>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Req) -> Self::Future {
        let kept = self.shared.entries.keep(&request);
        let scope = Ambient::current();
        let bounded_since = self.shared.is_bounded().then(Instant::now);
        let (overall, primary) = self.shared.deadlines(scope.deadline, bounded_since);
        let mut frame = Ambient {
            deadline: primary,
            report_wanted: true,
            ..scope
        };
        let entered = Entered::new(&mut frame);
        let inner = self.inner.call(request);
        drop(entered);
        let watch = Watch {
            frame,
            overall,
            bounded_since,
        };
        FallbackFuture::new(self.shared.handle(), kept, inner, watch)
    }
}
