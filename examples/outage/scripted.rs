//! A service that answers at once and fails at random.

use std::future::{Ready, ready};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use rand::RngExt;
use rand::rngs::StdRng;
use tower::Service;

use super::dependency::Down;

/// A service whose attempts fail at random, counted.
#[derive(Clone)]
pub(crate) struct Scripted {
    f: f64,
    state: Arc<Mutex<(StdRng, u64)>>,
}

impl Scripted {
    pub(crate) fn new(f: f64, random: StdRng) -> Self {
        Self {
            f,
            state: Arc::new(Mutex::new((random, 0))),
        }
    }

    /// One attempt: whether it succeeded.
    pub(crate) fn attempt(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.1 += 1;
        state.0.random::<f64>() >= self.f
    }

    pub(crate) fn sends(&self) -> u64 {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).1
    }
}

impl Service<()> for Scripted {
    type Response = ();
    type Error = Down;
    type Future = Ready<Result<(), Down>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Down>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, (): ()) -> Self::Future {
        ready(if self.attempt() { Ok(()) } else { Err(Down) })
    }
}
