//! A service whose readiness errors come out of the call.
//!
//! A layer that answers errors has nothing to answer while there is no
//! request, and callers such as tonic's generated clients make a failed
//! readiness into an unknown status. So the error waits for the next call.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tower::Service;

#[derive(Debug)]
pub(crate) struct Carried<S, E> {
    inner: S,
    unready: Option<E>,
}

impl<S: Clone, E> Clone for Carried<S, E> {
    fn clone(&self) -> Self {
        Self::new(self.inner.clone())
    }
}

impl<S, E> Carried<S, E> {
    pub(crate) const fn new(inner: S) -> Self {
        Self {
            inner,
            unready: None,
        }
    }

    /// Ready also when the service has failed to become so.
    pub(crate) fn poll_ready<Req>(&mut self, cx: &mut Context<'_>) -> Poll<()>
    where
        S: Service<Req, Error = E>,
    {
        if self.unready.is_none() {
            self.unready = ready!(self.inner.poll_ready(cx)).err();
        }
        Poll::Ready(())
    }

    pub(crate) fn call<Req>(&mut self, request: Req) -> CarriedFuture<S::Future, E>
    where
        S: Service<Req, Error = E>,
    {
        match self.unready.take() {
            Some(error) => CarriedFuture::Unready { error: Some(error) },
            None => CarriedFuture::Calling {
                future: self.inner.call(request),
            },
        }
    }
}

pin_project! {
    #[project = CarriedProj]
    #[derive(Debug)]
    pub(crate) enum CarriedFuture<F, E> {
        Calling { #[pin] future: F },
        Unready { error: Option<E> },
    }
}

impl<F, Res, E> Future for CarriedFuture<F, E>
where
    F: Future<Output = Result<Res, E>>,
{
    type Output = Result<Res, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project() {
            CarriedProj::Calling { future } => future.poll(cx),
            CarriedProj::Unready { error } => match error.take() {
                Some(error) => Poll::Ready(Err(error)),
                None => panic!("polled after the call ended"),
            },
        }
    }
}
