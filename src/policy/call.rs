//! A closure as a service.

use std::future::Future;
use std::task::{Context, Poll};

use tower::{BoxError, Service};

use crate::stage::Renew;

/// The service behind [`Policy::call`](crate::Policy::call).
#[derive(Debug)]
pub struct FnService<F> {
    function: F,
}

impl<F> FnService<F> {
    pub(crate) const fn new(function: F) -> Self {
        Self { function }
    }
}

/// It is always ready, so it never waits for anything; and the closure need
/// not be `Clone`.
impl<F> Renew for FnService<F> {
    fn renewed(&self) -> Option<Self> {
        None
    }
}

impl<F, Fut, T, E> Service<()> for FnService<F>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T, E>>,
    E: Into<BoxError>,
{
    type Response = T;
    type Error = E;
    type Future = Fut;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), E>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, (): ()) -> Fut {
        (self.function)()
    }
}
