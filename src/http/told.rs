//! What a caller on the other side of a wire is told of an error: its kind,
//! who, what limited it, and when to come back. Never the text of the source.

use std::error::Error as StdError;
use std::fmt::Write as _;
use std::time::Duration;

use crate::classify::verdict::{Again, Health, Verdict, Work};
use crate::error::chain::chain;
use crate::error::{Error, ErrorKind, Stopped};
use crate::refusal::{Refusal, RefusalReason};

/// What kind of end, as far as it matters to a caller elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The breaker turned the call away.
    Refused,
    /// A limit of our own turned it away.
    Limited,
    /// The caller's task has made all the calls that it may.
    Capped,
    /// The deadline passed.
    OutOfTime,
    /// The last attempt got no answer in time.
    TimedOut,
    /// The dependency fails, and we gave up on it.
    GaveUp,
    /// The dependency works and did not take the request, or would not serve
    /// us; waiting mends neither.
    Rejected,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    pub(crate) end: End,
    pub(crate) dependency: &'static str,
    /// Why a further attempt was not made, or none at all.
    pub(crate) refusal: Option<Refusal>,
    /// After which time a new call makes sense.
    pub(crate) wait: Option<Duration>,
    /// Whether a loop further out would only multiply what was done here.
    pub(crate) is_final: bool,
    attempts: u32,
    stopped: Option<Stopped>,
}

impl From<&Refusal> for Told {
    fn from(refusal: &Refusal) -> Self {
        Self {
            end: match refusal.reason() {
                RefusalReason::ConcurrencyLimit => End::Limited,
                _ => End::Refused,
            },
            dependency: refusal.dependency(),
            refusal: Some(*refusal),
            wait: refusal.retry_after(),
            is_final: true,
            attempts: 0,
            stopped: None,
        }
    }
}

impl From<&Error> for Told {
    /// A failure whose source is a stack further down, or a breaker asked by
    /// hand, ended there: that end is told, as it says more.
    fn from(error: &Error) -> Self {
        let mut told = Self::of_this(error);
        if error.kind() != ErrorKind::Failed {
            return told;
        }
        let Some(below) = error.source().and_then(Self::below) else {
            return told;
        };
        told.end = below.end;
        told.dependency = below.dependency;
        told.refusal = told.refusal.or(below.refusal);
        told.wait = told.wait.or(below.wait);
        told.is_final |= below.is_final;
        told
    }
}

impl Told {
    fn of_this(error: &Error) -> Self {
        let end = match (error.kind(), error.refusal()) {
            (ErrorKind::Refused, Some(refusal)) => Self::from(refusal).end,
            (ErrorKind::Refused, None) => End::Capped,
            (ErrorKind::DeadlineExceeded, _) => End::OutOfTime,
            (ErrorKind::TimedOut, _) => End::TimedOut,
            (ErrorKind::Failed, _) => match error.verdict() {
                Some(verdict) if is_rejection(verdict) => End::Rejected,
                _ => End::GaveUp,
            },
        };
        Self {
            end,
            dependency: error.dependency(),
            refusal: error.refusal().copied(),
            wait: error.retry_after(),
            is_final: error.is_final(),
            attempts: error.attempts(),
            stopped: error.stopped(),
        }
    }

    /// The end that the nearest stack below came to.
    fn below(source: &(dyn StdError + 'static)) -> Option<Self> {
        chain(source).find_map(|cause| {
            let error = cause.downcast_ref::<Error>().map(Self::from);
            error.or_else(|| cause.downcast_ref::<Refusal>().map(Self::from))
        })
    }

    /// One sentence for people, which names the dependency only if `named`.
    pub(crate) fn detail(&self, named: bool) -> String {
        let who = if named {
            format!("the dependency `{}`", self.dependency)
        } else {
            String::from("a dependency")
        };
        let mut text = match self.end {
            End::Refused => {
                let again = if self.attempts > 0 { " again" } else { "" };
                format!("{who} is temporarily unavailable, and this call was not sent to it{again}")
            }
            End::Capped => format!("no further call to {who} is allowed within this request"),
            End::Limited => format!("as many calls to {who} are in flight as are allowed"),
            End::OutOfTime => format!("the deadline passed before {who} answered"),
            End::TimedOut => format!("{who} did not answer in time"),
            End::GaveUp => format!("{who} failed"),
            End::Rejected => format!("{who} did not accept the request"),
        };
        if self.attempts > 0 {
            let plural = if self.attempts == 1 { "" } else { "s" };
            let _ = write!(text, " after {} attempt{plural}", self.attempts);
        }
        match (self.end, self.stopped) {
            (End::Refused, _) => {
                if let Some(refusal) = &self.refusal {
                    let _ = write!(text, ": {}", why(refusal.reason()));
                }
            }
            (End::GaveUp | End::TimedOut, Some(stopped)) => {
                let _ = write!(text, ": {stopped}");
            }
            _ => {}
        }
        text
    }
}

/// Whether a dependency that is well has said no. What nobody can tell, such as
/// that a stack below has given up in words of its own, is no such word.
fn is_rejection(verdict: &Verdict) -> bool {
    let works = verdict.health() != Health::Failing && verdict.work() != Work::Unknown;
    verdict.again() == Again::Never && works
}

/// Without the note of whoever opened a breaker by hand, which is for us.
const fn why(reason: RefusalReason) -> &'static str {
    match reason {
        RefusalReason::Open => "it failed too often",
        RefusalReason::HalfOpen => "whether it works again is being tried",
        RefusalReason::Recovering => "it recovers, and takes a growing share of the calls",
        RefusalReason::ForcedOpen => "calls to it were stopped by hand",
        RefusalReason::ConcurrencyLimit => "too many calls to it are in flight",
    }
}
