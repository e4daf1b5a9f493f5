//! The outermost stage.

use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Instant;
use tower::{Layer, Service};

use super::entry::FallbackEntry;
use super::future::{FallbackFuture, Watch};
use super::settings::{ByDefault, FallsThrough, Settings};
use crate::error::Error;
use crate::scope::ambient::Ambient;
use crate::scope::current::Entered;
use crate::scope::marks::Marks;
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
    settings: Settings<F, P>,
}

impl<F> FallbackLayer<F> {
    /// A fallback of these entries.
    pub const fn new(entries: F) -> Self {
        Self {
            settings: Settings {
                entries,
                rule: ByDefault,
                within: None,
                reserve: Duration::ZERO,
            },
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
            settings: Settings {
                entries: self.settings.entries,
                rule: predicate,
                within: self.settings.within,
                reserve: self.settings.reserve,
            },
        }
    }

    /// Bounds primary and fallback together, from the call; what the caller
    /// has left wins if it is less. With zero neither primary nor secondary is
    /// asked, and only an entry that answers at once can.
    #[must_use]
    pub const fn within(mut self, total: Duration) -> Self {
        self.settings.within = Some(total);
        self
    }

    /// Keeps this much of [`within`](Self::within), or of the caller's
    /// deadline, from the primary, so that the fallback has time to answer. One
    /// larger than all there is leaves the primary nothing.
    #[must_use]
    pub const fn reserve(mut self, reserve: Duration) -> Self {
        self.settings.reserve = reserve;
        self
    }
}

impl<S, F: Clone, P: Clone> Layer<S> for FallbackLayer<F, P> {
    type Service = FallbackService<S, F, P>;

    fn layer(&self, inner: S) -> Self::Service {
        FallbackService {
            inner,
            shared: Sharded::new(self.settings.clone()),
        }
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
    shared: Sharded<Settings<F, P>>,
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
        let (overall, primary) = self.shared.deadlines(scope.deadline(), bounded_since);
        let mut frame = scope.marked(Marks::REPORT_WANTED).until(primary);
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
