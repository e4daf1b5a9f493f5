//! What may stand in a fallback's chain.

use std::future::{Future, Ready, ready};
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use tower::BoxError;

use crate::error::Error;

/// An entry of a fallback, or a chain of them.
///
/// Implemented for closures `Fn(&Error) -> impl Future<Output = Result<..>>`,
/// and for what [`value`], [`with`](with()) and [`service`](super::service)
/// make. Chains are made with their `or`.
pub trait FallbackEntry<Req, Res> {
    /// How many entries the chain has.
    const LEN: usize = 1;

    /// The answer of one entry.
    type Future: Future<Output = Result<Res, BoxError>>;

    /// A copy of the request, taken before the primary gets it, if an entry
    /// needs one.
    fn keep(&self, request: &Req) -> Option<Req> {
        let _ = request;
        None
    }

    /// Whether the entry of this index may be sent the request where those
    /// before it may have done the work already.
    ///
    /// # Default
    ///
    /// `true`: what sends no request does nothing twice.
    fn repeats(&self, index: usize, kept: &Req) -> bool {
        let _ = (index, kept);
        true
    }

    /// Asks the entry of this index, or says why it is skipped.
    ///
    /// # Errors
    ///
    /// The reason for which the entry was not asked.
    fn ask(
        &self,
        index: usize,
        kept: Option<&Req>,
        error: &Error,
    ) -> Result<Self::Future, BoxError>;
}

macro_rules! chains {
    ($($generics:ident),*; $entry:ty) => {
        impl<$($generics),*> $entry {
            /// Adds an entry that is asked when all before it have failed.
            #[must_use]
            pub fn or<N>(self, next: N) -> Or<Self, N> {
                Or::new(self, next)
            }
        }
    };
}
pub(super) use chains;

chains!(T; Value<T>);
chains!(F; With<F>);
chains!(A, B; Or<A, B>);

/// A fixed answer, cloned for each call that it serves.
#[must_use]
pub const fn value<T: Clone>(value: T) -> Value<T> {
    Value { value }
}

/// Made by [`value`].
#[derive(Clone, Copy, Debug)]
pub struct Value<T> {
    value: T,
}

impl<Req, T: Clone> FallbackEntry<Req, T> for Value<T> {
    type Future = Ready<Result<T, BoxError>>;

    fn ask(&self, _: usize, _: Option<&Req>, _: &Error) -> Result<Self::Future, BoxError> {
        Ok(ready(Ok(self.value.clone())))
    }
}

/// An answer made from the error, as an entry that can be chained. A single
/// closure may be given as it is.
#[must_use]
pub const fn with<F, Fut>(answer: F) -> With<F>
where
    F: Fn(&Error) -> Fut,
{
    With { answer }
}

/// Made by [`with`](with()).
#[derive(Clone, Copy, Debug)]
pub struct With<F> {
    answer: F,
}

impl<Req, Res, F, Fut, E> FallbackEntry<Req, Res> for With<F>
where
    F: Fn(&Error) -> Fut,
    Fut: Future<Output = Result<Res, E>>,
    E: Into<BoxError>,
{
    type Future = WithFuture<Fut>;

    fn ask(&self, _: usize, _: Option<&Req>, error: &Error) -> Result<Self::Future, BoxError> {
        let future = (self.answer)(error);
        Ok(WithFuture { future })
    }
}

impl<Req, Res, F, Fut, E> FallbackEntry<Req, Res> for F
where
    F: Fn(&Error) -> Fut,
    Fut: Future<Output = Result<Res, E>>,
    E: Into<BoxError>,
{
    type Future = WithFuture<Fut>;

    fn ask(&self, _: usize, _: Option<&Req>, error: &Error) -> Result<Self::Future, BoxError> {
        let future = self(error);
        Ok(WithFuture { future })
    }
}

pin_project! {
    /// Future of a closure's answer.
    #[derive(Debug)]
    pub struct WithFuture<F> {
        #[pin]
        future: F,
    }
}

impl<F, Res, E> Future for WithFuture<F>
where
    F: Future<Output = Result<Res, E>>,
    E: Into<BoxError>,
{
    type Output = Result<Res, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().future.poll(cx).map_err(Into::into)
    }
}

/// A chain: the second is asked when the first has failed.
#[derive(Clone, Copy, Debug)]
pub struct Or<A, B> {
    first: A,
    second: B,
}

impl<A, B> Or<A, B> {
    pub(super) const fn new(first: A, second: B) -> Self {
        Self { first, second }
    }
}

impl<Req, Res, A, B> FallbackEntry<Req, Res> for Or<A, B>
where
    A: FallbackEntry<Req, Res>,
    B: FallbackEntry<Req, Res>,
{
    const LEN: usize = A::LEN + B::LEN;

    type Future = OrFuture<A::Future, B::Future>;

    fn keep(&self, request: &Req) -> Option<Req> {
        let kept = self.first.keep(request);
        kept.or_else(|| self.second.keep(request))
    }

    fn repeats(&self, index: usize, kept: &Req) -> bool {
        if index < A::LEN {
            self.first.repeats(index, kept)
        } else {
            self.second.repeats(index - A::LEN, kept)
        }
    }

    fn ask(
        &self,
        index: usize,
        kept: Option<&Req>,
        error: &Error,
    ) -> Result<Self::Future, BoxError> {
        let part = if index < A::LEN {
            let future = self.first.ask(index, kept, error)?;
            Part::First { future }
        } else {
            let future = self.second.ask(index - A::LEN, kept, error)?;
            Part::Second { future }
        };
        Ok(OrFuture { part })
    }
}

pin_project! {
    /// Future of one entry of a chain.
    #[derive(Debug)]
    pub struct OrFuture<A, B> {
        #[pin]
        part: Part<A, B>,
    }
}

pin_project! {
    #[project = PartProj]
    #[derive(Debug)]
    enum Part<A, B> {
        First { #[pin] future: A },
        Second { #[pin] future: B },
    }
}

impl<A, B> Future for OrFuture<A, B>
where
    A: Future,
    B: Future<Output = A::Output>,
{
    type Output = A::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<A::Output> {
        match self.project().part.project() {
            PartProj::First { future } => future.poll(cx),
            PartProj::Second { future } => future.poll(cx),
        }
    }
}
