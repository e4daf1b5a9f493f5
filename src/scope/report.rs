//! How a call went, for calls that end well too.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;

use super::ambient::Ambient;
use super::collect::collect;
use super::marks::Marks;
use crate::classify::verdict::Verdict;
use crate::error::{Error, ErrorKind, Stopped};
use crate::telemetry::Observers;

/// Who gave the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ServedBy {
    /// The service itself (or its error stands).
    Primary,
    /// The fallback entry of this index, from 0.
    Fallback(usize),
}

/// How one call through a stack went.
///
/// An `Ok` does not tell that it took three attempts, nor an `Ok(503)` why
/// there was no fourth. [`CallReport::capture`] does.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use steadfast::{CallReport, Policy};
///
/// let policy = Policy::builder("inventory").build().unwrap();
/// let call = policy.call(|| async { Ok::<_, std::io::Error>(7) });
/// let (answer, report) = CallReport::capture(call).await;
/// assert_eq!(answer.unwrap(), 7);
/// assert_eq!(report.unwrap().attempts(), 1);
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallReport {
    pub(crate) dependency: &'static str,
    pub(crate) attempts: u32,
    pub(crate) elapsed: Duration,
    /// What the fallback took on top of it.
    pub(crate) fallback_took: Duration,
    pub(crate) stopped: Option<Stopped>,
    pub(crate) verdict: Option<Verdict>,
    pub(crate) served_by: ServedBy,
    /// Whether the call ended with an answer rather than an error.
    pub(crate) answered: bool,
}

impl CallReport {
    /// Runs `future` and reports the last call that a stack ended inside it,
    /// in the same task. Stacks further down report to the one above them and
    /// are not seen here.
    pub const fn capture<F: Future>(future: F) -> Capture<F> {
        Capture {
            future,
            report: None,
        }
    }

    /// What a call that ended with this error has to report.
    pub(crate) fn of_error(error: &Error) -> Self {
        Self {
            dependency: error.dependency(),
            attempts: error.attempts(),
            elapsed: error.elapsed(),
            fallback_took: Duration::ZERO,
            stopped: error.stopped(),
            verdict: error.verdict().copied(),
            served_by: ServedBy::Primary,
            answered: false,
        }
    }

    /// An answer that was judged a failure, as an error without a source.
    pub(crate) fn as_error(&self) -> Error {
        Error::new(ErrorKind::Failed, self.dependency)
            .after(self.attempts, self.elapsed)
            .stopped_by(self.stopped)
            .judged(self.verdict)
    }

    /// The dependency's name.
    #[must_use]
    pub const fn dependency(&self) -> &'static str {
        self.dependency
    }

    /// How many attempts reached the service.
    #[must_use]
    pub const fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Time from the call to its end, fallbacks included.
    #[must_use]
    pub const fn elapsed(&self) -> Duration {
        self.elapsed.saturating_add(self.fallback_took)
    }

    /// How long the service itself took, retries included, until it had
    /// answered or failed. Less than [`elapsed`](Self::elapsed) only where
    /// fallbacks were asked after it.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use steadfast::{CallReport, Policy, ServedBy, ServiceBuilderExt, fallback};
    /// use tower::{ServiceBuilder, ServiceExt, service_fn};
    ///
    /// let policy = Policy::builder("inventory").max_attempts(1).build().unwrap();
    /// let client = ServiceBuilder::new()
    ///     .fallback(fallback::value(0))
    ///     .resilience(policy)
    ///     .service(service_fn(|_: ()| async { Err::<u32, _>(std::io::Error::other("down")) }));
    /// let (answer, report) = CallReport::capture(client.oneshot(())).await;
    /// assert_eq!(answer.unwrap(), 0);
    /// let report = report.unwrap();
    /// assert_eq!(report.served_by(), ServedBy::Fallback(0));
    /// println!("{} took {:?}", report.dependency(), report.primary_elapsed());
    /// # }
    /// ```
    #[must_use]
    pub const fn primary_elapsed(&self) -> Duration {
        self.elapsed
    }

    /// Why the retries ended, where they ended without success.
    #[must_use]
    pub const fn stopped(&self) -> Option<Stopped> {
        self.stopped
    }

    /// The verdict on the last attempt, if there was one.
    #[must_use]
    pub const fn verdict(&self) -> Option<&Verdict> {
        self.verdict.as_ref()
    }

    /// Who gave the answer.
    #[must_use]
    pub const fn served_by(&self) -> ServedBy {
        self.served_by
    }
}

pin_project! {
    /// Future of [`CallReport::capture`].
    ///
    /// # Cancel safety
    ///
    /// As safe as the future inside; dropping it drops that.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless awaited"]
    pub struct Capture<F> {
        #[pin]
        future: F,
        report: Option<CallReport>,
    }
}

impl<F: Future> Future for Capture<F> {
    type Output = (F::Output, Option<CallReport>);

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut frame = Ambient::current().marked(Marks::REPORT_WANTED);
        // Who captures has nobody to tell of it.
        let mut observers = Observers::NONE;
        let poll = || this.future.poll(cx);
        let polled = collect(&mut frame, this.report, &mut observers, poll);
        frame.pass_on_grant();
        Ambient::mark_given_up(frame.given_up());
        polled.map(|output| (output, *this.report))
    }
}
