//! A service as a fallback.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower::util::Oneshot;
use tower::{BoxError, Service, ServiceExt};

use super::entry::{FallbackEntry, Or, chains};
use crate::classify::default::DefaultClassify;
use crate::classify::traits::Replay;
use crate::deadline::Deadline;
use crate::error::Error;
use crate::scope::ambient::Ambient;
use crate::scope::marks::Marks;

/// Sends the request to another service, which is cloned for each call that
/// falls through. The request is copied before the primary gets it; one that
/// cannot be copied, or whose copy the primary has spoilt, skips this entry.
///
/// Skipped as well when the deadline has passed: nothing is sent for a caller
/// that has left. And when the request is not idempotent, as its
/// [`replay`](Secondary::replay) or the scope has it, and the primary or an
/// entry before may have done the work: a payment that timed out here is not
/// made a second time there.
///
/// For the whole stack to be `Send` the service must be `Sync` too.
pub const fn service<S>(service: S) -> Secondary<S> {
    Secondary {
        service,
        map: Same,
        replay: DefaultClassify::new(),
        slots: None,
    }
}

/// Made by [`service`].
#[derive(Clone, Debug)]
pub struct Secondary<S, M = Same, C = DefaultClassify> {
    service: S,
    map: M,
    replay: C,
    slots: Option<Arc<Semaphore>>,
}

chains!(S, M, C; Secondary<S, M, C>);

impl<S, M, C> Secondary<S, M, C> {
    /// Changes the request for this service: another model, host or key.
    pub fn map_request<F>(self, map: F) -> Secondary<S, F, C> {
        Secondary {
            service: self.service,
            map,
            replay: self.replay,
            slots: self.slots,
        }
    }

    /// At most `calls` calls at once; those beyond skip this entry, and with 0
    /// all do. A
    /// secondary is often sized for a tenth of the traffic.
    #[must_use]
    pub fn limit(mut self, calls: usize) -> Self {
        let most = calls.min(Semaphore::MAX_PERMITS);
        self.slots = Some(Arc::new(Semaphore::new(most)));
        self
    }

    /// Sets who copies requests, and says which of them may be sent a second
    /// time. Default: any `Clone` request is cloned, and may.
    pub fn replay<D>(self, replay: D) -> Secondary<S, M, D> {
        Secondary {
            service: self.service,
            map: self.map,
            replay,
            slots: self.slots,
        }
    }
}

/// Turns the primary's request into the secondary's.
pub trait MapRequest<Req> {
    /// The secondary's request.
    type Request;

    /// The request for the secondary.
    fn map(&self, request: Req) -> Self::Request;
}

/// Leaves requests as they are.
#[derive(Clone, Copy, Debug)]
pub struct Same;

impl<Req> MapRequest<Req> for Same {
    type Request = Req;

    fn map(&self, request: Req) -> Req {
        request
    }
}

impl<Req, F, R> MapRequest<Req> for F
where
    F: Fn(Req) -> R,
{
    type Request = R;

    fn map(&self, request: Req) -> R {
        self(request)
    }
}

impl<Req, S, M, C> FallbackEntry<Req, S::Response> for Secondary<S, M, C>
where
    M: MapRequest<Req>,
    S: Service<M::Request> + Clone,
    S::Error: Into<BoxError>,
    C: Replay<Req>,
{
    type Future = SecondaryFuture<S, M::Request>;

    fn keep(&self, request: &Req) -> Option<Req> {
        self.replay.copy(request)
    }

    fn repeats(&self, _: usize, kept: &Req) -> bool {
        let wished = !Ambient::is_marked(Marks::NOT_IDEMPOTENT);
        wished && self.replay.idempotent(&self.replay.memo(kept))
    }

    fn ask(&self, _: usize, kept: Option<&Req>, _: &Error) -> Result<Self::Future, BoxError> {
        if Deadline::current().is_some_and(Deadline::is_past) {
            return Err("the deadline has passed".into());
        }
        let intact = kept.filter(|kept| self.replay.is_intact(kept));
        let request = intact.and_then(|request| self.replay.copy(request));
        let request = request.ok_or("the request cannot be copied")?;
        let slot = match &self.slots {
            None => None,
            Some(slots) => Some(Arc::clone(slots).try_acquire_owned()?),
        };
        let answer = self.service.clone().oneshot(self.map.map(request));
        Ok(SecondaryFuture {
            answer,
            _slot: slot,
        })
    }
}

pin_project! {
    /// Future of a [`Secondary`]'s answer.
    #[derive(Debug)]
    pub struct SecondaryFuture<S, Req>
    where
        S: Service<Req>,
    {
        #[pin]
        answer: Oneshot<S, Req>,
        _slot: Option<OwnedSemaphorePermit>,
    }
}

impl<S, Req> Future for SecondaryFuture<S, Req>
where
    S: Service<Req>,
    S::Error: Into<BoxError>,
{
    type Output = Result<S::Response, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().answer.poll(cx).map_err(Into::into)
    }
}
