//! One timer and one clock read for all stages of a call.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep, sleep_until};

/// The present, read at most once per poll and only if somebody asks.
#[derive(Debug)]
pub struct Tick {
    now: Option<Instant>,
}

impl Tick {
    pub(crate) const fn unread() -> Self {
        Self { now: None }
    }

    pub(crate) fn now(&mut self) -> Instant {
        *self.now.get_or_insert_with(Instant::now)
    }
}

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
