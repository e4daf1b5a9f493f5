//! One timer for all stages of a call.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::moment::Moment;

/// A timer counts in milliseconds, and fires up to so much late.
pub(crate) const TICK: Duration = Duration::from_millis(1);

pin_project! {
    /// The only timer of a call: for the attempt timeout, the deadline and
    /// the backoff in turn. It is made when something is first found pending,
    /// since making and dropping one costs as much as the rest of a call.
    #[derive(Debug)]
    pub struct Timer {
        #[pin]
        sleep: Option<Sleep>,
    }
}

impl Timer {
    pub(crate) const fn unarmed() -> Self {
        Self { sleep: None }
    }

    /// As [`poll_until`](Self::poll_until); pending for ever, if it never comes.
    pub(crate) fn poll_until_moment(
        self: Pin<&mut Self>,
        at: Moment,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        match at.instant() {
            Some(at) => self.poll_until(at, cx),
            None => Poll::Pending,
        }
    }

    /// Ready once `at` has passed; else wakes the task then.
    ///
    /// The timer is polled outside of tokio's cooperative budget: an inner
    /// future that eats the whole budget at every poll must still be timed
    /// out.
    pub(crate) fn poll_until(self: Pin<&mut Self>, at: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let mut sleep = self.project().sleep;
        if sleep.is_none() {
            sleep.set(Some(sleep_until(at)));
        }
        let Some(mut armed) = sleep.as_pin_mut() else {
            unreachable!("made above");
        };
        if armed.deadline() != at {
            armed.as_mut().reset(at);
        }
        std::pin::pin!(tokio::task::unconstrained(armed)).poll(cx)
    }
}
