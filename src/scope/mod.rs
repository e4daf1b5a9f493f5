//! What is in scope for a call and everything below it.
//!
//! The deadline, the number of the attempt and the caller's wishes for one
//! call are ambient: nested stacks, code that writes headers and the user's
//! own functions see them without an argument. They hold for the task that
//! polls the stack; [`Scope::wrap`] carries them into a spawned one.

pub(crate) mod ambient;
pub(crate) mod cap;
pub(crate) mod collect;
pub(crate) mod current;
pub(crate) mod marks;
pub(crate) mod report;

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use crate::deadline::Deadline;
use crate::moment::Moment;
use ambient::Ambient;
use cap::HeldCap;
use current::Entered;
use marks::Marks;

/// Everything ambient, as a value.
///
/// Also the way to ask for something for one call only: a shorter deadline,
/// no retries, a request that must not be sent twice.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use std::time::Duration;
/// use steadfast::{Deadline, Policy, Scope};
///
/// let policy = Policy::builder("inventory").build().unwrap();
/// let answer = Scope::current()
///     .with_deadline(Deadline::after(Duration::from_millis(200)))
///     .no_retries()
///     .wrap(policy.call(|| async { Ok::<_, std::io::Error>(1) }))
///     .await;
/// assert_eq!(answer.unwrap(), 1);
///
/// // A spawned task starts with an empty scope, unless it is wrapped:
/// # let work = async {};
/// tokio::spawn(Scope::current().wrap(work)).await.unwrap();
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "a scope does nothing until it wraps a future"]
pub struct Scope {
    ambient: Ambient,
}

impl Scope {
    /// Wishes for nothing.
    #[cfg(feature = "http")]
    pub(crate) const NONE: Self = Self {
        ambient: Ambient::NONE,
    };

    /// What is in scope here.
    pub fn current() -> Self {
        Self {
            ambient: Ambient::current().unmarked(Marks::NOT_CARRIED),
        }
    }

    /// Bounds everything inside; a longer deadline than the one in scope
    /// changes nothing.
    pub fn with_deadline(mut self, deadline: Deadline) -> Self {
        self.ambient.deadline = self.ambient.deadline.min(Moment::of(deadline.instant()));
        self
    }

    /// One attempt per call, in every stack inside.
    pub const fn no_retries(mut self) -> Self {
        self.ambient = self.ambient.marked(Marks::NO_RETRIES);
        self
    }

    /// Requests inside are not sent a second time when it is unknown whether
    /// the work was done, whatever their classifier says.
    pub const fn not_idempotent(mut self) -> Self {
        self.ambient = self.ambient.marked(Marks::NOT_IDEMPOTENT);
        self
    }

    /// Which attempt of the nearest stack is running, from 1; 0 outside of
    /// any attempt.
    #[must_use]
    pub const fn attempt(&self) -> u32 {
        self.ambient.usual.attempt()
    }

    /// The deadline, if there is one.
    #[must_use]
    pub fn deadline(&self) -> Option<Deadline> {
        self.ambient.deadline().map(Deadline::at)
    }

    /// Puts this scope around `future`, wherever that is polled. A scope there
    /// holds as well: the earlier deadline, and every wish of either.
    ///
    /// # Cancel safety
    ///
    /// As safe as the future inside; dropping it drops that.
    pub fn wrap<F: Future>(self, future: F) -> Scoped<F> {
        Scoped {
            future,
            ambient: self.ambient,
            cap: HeldCap::of(self.ambient.cap()),
        }
    }
}

pin_project! {
    /// Future of [`Scope::wrap`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless awaited"]
    pub struct Scoped<F> {
        #[pin]
        future: F,
        ambient: Ambient,
        cap: HeldCap,
    }
}

impl<F: Future> Future for Scoped<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let outer = Ambient::current();
        let mut frame = this.ambient.within(outer);
        if let (Some(own), Some(around)) = (this.ambient.cap(), outer.cap()) {
            frame = frame.capped(Some(this.cap.within(own, around)));
        }
        let entered = Entered::new(&mut frame);
        let polled = this.future.poll(cx);
        drop(entered);
        frame.pass_on_grant();
        this.ambient.set(Marks::GIVEN_UP, frame.given_up());
        if polled.is_ready() {
            Ambient::mark_given_up(frame.given_up());
        }
        polled
    }
}
