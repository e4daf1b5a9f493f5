//! The dependency of the paused scenarios: answers at once, is down for a while, and keeps a record
//! of everything that reached it.

use std::future::{Ready, ready};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Instant;
use tower::Service;

/// The error of a dependency that is down.
#[derive(Debug, thiserror::Error)]
#[error("the dependency is down")]
pub(crate) struct Down;

/// An attempt that reached the dependency.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Send {
    /// Since the dependency was made.
    pub(crate) at: Duration,
    pub(crate) failed: bool,
}

/// Down from the moment it is made until `outage` has passed; its clones share the record.
#[derive(Clone)]
pub(crate) struct Dependency {
    since: Instant,
    outage: Duration,
    sends: Arc<Mutex<Vec<Send>>>,
}

impl Dependency {
    pub(crate) fn down_for(outage: Duration) -> Self {
        Self {
            since: Instant::now(),
            outage,
            sends: Arc::default(),
        }
    }

    /// When the outage began.
    pub(crate) fn since(&self) -> Instant {
        self.since
    }

    /// All that has reached it so far, in order.
    pub(crate) fn sends(&self) -> Vec<Send> {
        self.sends
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// How many attempts have reached it while it was down.
    pub(crate) fn failed_sends(&self) -> u64 {
        self.sends().iter().filter(|send| send.failed).count() as u64
    }
}

impl Service<()> for Dependency {
    type Response = ();
    type Error = Down;
    type Future = Ready<Result<(), Down>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Down>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, (): ()) -> Self::Future {
        let at = self.since.elapsed();
        let failed = at < self.outage;
        let send = Send { at, failed };
        self.sends
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(send);
        ready(if failed { Err(Down) } else { Ok(()) })
    }
}
