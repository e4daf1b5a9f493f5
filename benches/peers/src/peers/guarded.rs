//! What a user writes to put a breaker without a tower form between tower's
//! retry and timeout.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tower::BoxError;

use crate::contender::Refusable;

/// The error of such a layer. The breakers' own are no `std::error::Error`
/// around a boxed one, which tower's timeout answers.
#[derive(Debug)]
pub enum Guarded {
    Refused,
    Failed(BoxError),
}

impl Refusable for Guarded {
    fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused)
    }
}

impl fmt::Display for Guarded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused => f.write_str("refused"),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Guarded {}

pin_project! {
    /// The breaker's future, with its error made one of ours.
    pub struct GuardedFuture<F> {
        #[pin]
        future: F,
    }
}

impl<F> GuardedFuture<F> {
    pub fn new(future: F) -> Self {
        Self { future }
    }
}

impl<F, E> Future for GuardedFuture<F>
where
    F: Future<Output = Result<u64, E>>,
    E: Into<Guarded>,
{
    type Output = Result<u64, Guarded>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(ready!(self.project().future.poll(cx)).map_err(Into::into))
    }
}
