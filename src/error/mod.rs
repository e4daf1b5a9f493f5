//! The one error of every stage.

pub(crate) mod chain;
mod model;
mod park_limit;
mod stopped;

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use tower::BoxError;

use crate::classify::verdict::{Again, Verdict};
use crate::refusal::Refusal;
use crate::span::Span;

use chain::chain;
pub use park_limit::ParkLimit;
pub use stopped::Stopped;

/// What kind of end a call came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The last attempt failed; [`Error::stopped`] says why there was no other.
    Failed,
    /// The last attempt got no answer within the attempt timeout.
    TimedOut,
    /// The deadline passed before there was an answer.
    DeadlineExceeded,
    /// The breaker turned the call away, or the [`CallCap`](crate::CallCap) in
    /// scope did.
    Refused,
}

/// How a call ended that has no answer to give.
///
/// One concrete type, whatever the service below fails with: it works with
/// `?`, with `anyhow` and as a `BoxError`. The service's own error is the
/// [`source`](StdError::source); `downcast_ref` on it gives the typed one
/// back. After an attempt that timed out, which has none, it is that of the
/// last attempt before that failed with one.
///
/// A refusal is built without an allocation.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use steadfast::{ErrorKind, Policy};
///
/// let policy = Policy::builder("inventory").max_attempts(1).build().unwrap();
/// let error = policy
///     .call(|| async { Err::<(), _>(std::io::Error::other("broken pipe")) })
///     .await
///     .unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Failed);
/// assert_eq!(error.attempts(), 1);
/// let source = std::error::Error::source(&error).unwrap();
/// assert!(source.is::<std::io::Error>());
/// # }
/// ```
pub struct Error {
    dependency: &'static str,
    kind: ErrorKind,
    attempts: u32,
    owns_retries: bool,
    park_limit: Option<ParkLimit>,
    elapsed: Span,
    stopped: Option<Stopped>,
    verdict: Option<Verdict>,
    source: Option<BoxError>,
    // Boxed once more to save a word: an error with it is rare.
    fallback: Option<Box<BoxError>>,
}

impl Error {
    /// An error that says nothing yet but who, what kind, and when.
    pub(crate) const fn new(kind: ErrorKind, dependency: &'static str) -> Self {
        Self {
            dependency,
            kind,
            attempts: 0,
            owns_retries: false,
            park_limit: None,
            elapsed: Span::ZERO,
            stopped: None,
            verdict: None,
            source: None,
            fallback: None,
        }
    }

    pub(crate) const fn refused(refusal: Refusal, dependency: &'static str) -> Self {
        let mut error = Self::new(ErrorKind::Refused, dependency);
        error.stopped = Some(Stopped::Breaker(refusal));
        error
    }

    pub(crate) fn after(mut self, attempts: u32, elapsed: Duration) -> Self {
        self.attempts = attempts;
        self.elapsed = Span::new(Some(elapsed));
        self
    }

    pub(crate) fn stopped_by(mut self, stopped: Option<Stopped>) -> Self {
        self.stopped = stopped;
        self
    }

    pub(crate) fn owning_retries(mut self, owns_retries: bool) -> Self {
        self.owns_retries = owns_retries;
        self
    }

    pub(crate) fn judged(mut self, verdict: Option<Verdict>) -> Self {
        self.verdict = verdict;
        self
    }

    pub(crate) fn caused_by(mut self, source: Option<BoxError>) -> Self {
        self.source = source;
        self
    }

    /// Keeps what the error before this one had to say of the dependency, where
    /// this one says nothing.
    pub(crate) fn keeping(mut self, earlier: Option<Self>) -> Self {
        if let Some(earlier) = earlier {
            self.source = self.source.or(earlier.source);
            self.verdict = self.verdict.or(earlier.verdict);
        }
        self
    }

    pub(crate) fn limited_by(mut self, limit: Option<ParkLimit>) -> Self {
        self.park_limit = limit;
        self
    }

    pub(crate) fn with_fallback_error(mut self, error: Option<BoxError>) -> Self {
        self.fallback = error.map(Box::new);
        self
    }

    /// The dependency's name.
    #[must_use]
    pub const fn dependency(&self) -> &'static str {
        self.dependency
    }

    /// What kind of end.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// How many attempts reached the service; 0 for a call refused at once.
    #[must_use]
    pub const fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Time from the call to its end.
    #[must_use]
    pub const fn elapsed(&self) -> Duration {
        match self.elapsed.get() {
            Some(elapsed) => elapsed,
            None => Duration::ZERO,
        }
    }

    /// Why there was no further attempt, or none at all; `None` where the
    /// question did not come up because the deadline passed.
    #[must_use]
    pub const fn stopped(&self) -> Option<Stopped> {
        self.stopped
    }

    /// The breaker's refusal, if it ended the call or forbade a retry.
    #[must_use]
    pub const fn refusal(&self) -> Option<&Refusal> {
        match &self.stopped {
            Some(Stopped::Breaker(refusal)) => Some(refusal),
            _ => None,
        }
    }

    /// The verdict on the last attempt, if there was one.
    #[must_use]
    pub const fn verdict(&self) -> Option<&Verdict> {
        self.verdict.as_ref()
    }

    /// How long to wait before coming back: the breaker's next check, or the
    /// server's own hint.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        let refused = self.refusal().and_then(Refusal::retry_after);
        refused.or_else(|| self.verdict.as_ref().and_then(Verdict::hint))
    }

    /// Whether the call may simply be put off: the breaker refused it, or
    /// forbade its next attempt.
    #[must_use]
    pub const fn is_deferrable(&self) -> bool {
        self.refusal().is_some()
    }

    /// The bound that a [`Defer`](crate::defer) ran into which would have put
    /// the call off; `None` where none was asked, or the call cannot be put
    /// off. The refusal itself stands as ever.
    #[must_use]
    pub const fn park_limit(&self) -> Option<ParkLimit> {
        self.park_limit
    }

    /// What the last fallback failed with, if the call fell through and every
    /// fallback failed.
    #[must_use]
    pub fn fallback_error(&self) -> Option<&(dyn StdError + Send + Sync + 'static)> {
        self.fallback.as_ref().map(|error| &***error)
    }

    /// The last attempt's own error, by value.
    #[must_use]
    pub fn into_source(self) -> Option<BoxError> {
        self.source
    }

    /// The refusal that the call ended with, if it did.
    fn turned_away(&self) -> Option<&Refusal> {
        self.refusal().filter(|_| self.kind == ErrorKind::Refused)
    }

    /// Whether a stack further out must leave it at this: retries were owned
    /// here, or would be useless.
    ///
    /// A stack of one attempt owns no retries, so an ordinary failure of it
    /// may be tried again further out; its refusals may not.
    pub(crate) fn is_final(&self) -> bool {
        self.kind == ErrorKind::Refused
            || self.owns_retries
            || self.verdict.is_some_and(|v| v.again() == Again::Never)
    }

    /// Whether the call came on top of all that may be made.
    fn is_capped(&self) -> bool {
        self.kind == ErrorKind::Refused && self.stopped == Some(Stopped::CallCap)
    }

    /// Whether the default fallback rule lets this through.
    pub(crate) fn falls_through(&self) -> bool {
        match self.kind {
            // Our own excess must not be shoved on to a secondary.
            ErrorKind::Refused => !self.is_capped(),
            ErrorKind::DeadlineExceeded | ErrorKind::TimedOut => true,
            ErrorKind::Failed if capped_below(self) => false,
            ErrorKind::Failed => self.verdict.is_none_or(|verdict| verdict.falls_through()),
        }
    }
}

/// Whether, somewhere in the chain, an inner stack has refused or given up, or
/// a breaker asked by hand has refused.
pub(crate) fn given_up_below(error: &(dyn StdError + 'static)) -> bool {
    chain(error).any(|cause| {
        let inner = cause.downcast_ref::<Error>();
        inner.is_some_and(Error::is_final) || cause.is::<Refusal>()
    })
}

/// Whether a stack further down found no room under the cap on sends.
fn capped_below(error: &(dyn StdError + 'static)) -> bool {
    chain(error).any(|cause| {
        let inner = cause.downcast_ref::<Error>();
        inner.is_some_and(Error::is_capped)
    })
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dependency = self.dependency;
        match self.kind {
            ErrorKind::Failed => write!(f, "call to `{dependency}` failed")?,
            ErrorKind::TimedOut => write!(f, "call to `{dependency}` timed out")?,
            ErrorKind::DeadlineExceeded => {
                write!(f, "deadline exceeded calling `{dependency}`")?;
            }
            ErrorKind::Refused => match self.turned_away() {
                Some(refusal) => write!(f, "{refusal}")?,
                None => write!(f, "call to `{dependency}` was not made")?,
            },
        }
        if self.attempts > 0 {
            let plural = if self.attempts == 1 { "" } else { "s" };
            write!(f, " after {} attempt{plural}", self.attempts)?;
            write!(f, " in {:?}", self.elapsed())?;
        }
        if let (Some(stopped), None) = (&self.stopped, self.turned_away()) {
            write!(f, ": {stopped}")?;
        }
        if let Some(limit) = self.park_limit {
            write!(f, "; {limit}")?;
        }
        if let (Some(verdict), None) = (&self.verdict, &self.source) {
            write!(f, " (last attempt: {})", verdict.reason())?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("dependency", &self.dependency)
            .field("kind", &self.kind)
            .field("attempts", &self.attempts)
            .field("elapsed", &self.elapsed())
            .field("stopped", &self.stopped)
            .field("park_limit", &self.park_limit)
            .field("verdict", &self.verdict)
            .field("source", &self.source)
            .field("fallback", &self.fallback)
            .finish_non_exhaustive()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_told_if_there_were_any() {
        let told = |attempts| {
            let error = Error::new(ErrorKind::Failed, "inventory");
            let text = error.after(attempts, Duration::from_secs(3)).to_string();
            text.replace("call to `inventory` failed", "")
        };
        assert_eq!(
            [0, 1, 2].map(told),
            ["", " after 1 attempt in 3s", " after 2 attempts in 3s"]
        );
    }

    #[test]
    fn an_error_is_small_enough_to_be_returned_by_value() {
        assert!(size_of::<Error>() <= 120, "{}", size_of::<Error>());
    }
}
