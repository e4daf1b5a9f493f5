//! What a scripted service notes of a call.

use std::time::Duration;

use tokio::time::Instant;

use crate::deadline::Deadline;
use crate::scope::Scope;

/// A call that arrived at a [`ScriptedService`](super::ScriptedService), as it
/// saw it.
#[derive(Clone, Debug)]
pub struct ScriptedCall<Req> {
    request: Req,
    at: Instant,
    attempt: u32,
    deadline: Option<Deadline>,
}

impl<Req> ScriptedCall<Req> {
    /// As a call that arrives here and now.
    pub(super) fn arriving(request: Req) -> Self {
        let scope = Scope::current();
        Self {
            request,
            at: Instant::now(),
            attempt: scope.attempt(),
            deadline: scope.deadline(),
        }
    }

    /// The request.
    #[must_use]
    pub const fn request(&self) -> &Req {
        &self.request
    }

    /// The request itself.
    #[must_use]
    pub fn into_request(self) -> Req {
        self.request
    }

    /// When it arrived.
    #[must_use]
    pub const fn at(&self) -> Instant {
        self.at
    }

    /// Which attempt of the nearest stack it was, from 1; 0 outside of any.
    #[must_use]
    pub const fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The deadline that was in scope.
    #[must_use]
    pub const fn deadline(&self) -> Option<Deadline> {
        self.deadline
    }

    /// How long it had left when it arrived, by the deadline in scope; zero
    /// when that was past.
    #[must_use]
    pub fn time_left(&self) -> Option<Duration> {
        let end = self.deadline?.instant();
        Some(end.saturating_duration_since(self.at))
    }
}
