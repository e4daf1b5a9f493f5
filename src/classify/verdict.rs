//! What one attempt showed: three independent answers and a short reason.

use std::fmt;
use std::time::Duration;

use crate::span::Span;

/// Whether the call may be tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Again {
    /// The same request would end the same way.
    Never,
    /// After the server's hint where it gave one, else after our own backoff.
    AfterDelay,
}

/// What the attempt says about the dependency, which is all that the breaker
/// hears.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Health {
    /// The dependency did its work, or answered that the request is wrong.
    Ok,
    /// The dependency cannot serve what it ordinarily serves.
    Failing,
    /// The attempt says nothing about the dependency.
    Neutral,
}

/// Whether the dependency did what was asked, which decides if a request that
/// is not idempotent may be sent a second time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Work {
    /// Done, or answered for good.
    Done,
    /// Certainly not begun: a second send cannot do it twice.
    NotDone,
    /// Nobody on this side can know.
    Unknown,
}

/// Why a [`Verdict`] was given: a static text or a status code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// A short text, such as `"attempt timeout"`.
    Text(&'static str),
    /// A status code of the dependency's protocol, such as `503`.
    Status(u16),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Status(code) => write!(f, "status {code}"),
        }
    }
}

impl From<&'static str> for Reason {
    fn from(text: &'static str) -> Self {
        Self::Text(text)
    }
}

impl From<u16> for Reason {
    fn from(code: u16) -> Self {
        Self::Status(code)
    }
}

/// The judgement of one attempt.
///
/// "May it be tried again", "is the dependency failing" and "was the work
/// done" are separate questions: a 429 may be tried again and says nothing
/// about health, a 404 may not and proves that the dependency answers. One
/// enum that stands for all three gets one of them wrong.
///
/// | constructor | again | health | work |
/// |---|---|---|---|
/// | [`success`](Self::success) | never | ok | done |
/// | [`transient`](Self::transient) | after backoff | failing | unknown |
/// | [`overloaded`](Self::overloaded) | after hint or backoff | failing | not done |
/// | [`unreachable`](Self::unreachable) | after backoff | failing | not done |
/// | [`throttled`](Self::throttled) | after hint or backoff | neutral | not done |
/// | [`ambiguous`](Self::ambiguous) | after backoff | failing | unknown |
/// | [`terminal`](Self::terminal) | never | ok | not done |
/// | [`blocked`](Self::blocked) | never | neutral | not done |
/// | [`refused_below`](Self::refused_below) | never | neutral | unknown |
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use steadfast::{Health, Verdict};
///
/// let verdict = Verdict::overloaded(Some(Duration::from_secs(3))).because(529);
/// assert_eq!(verdict.health(), Health::Failing);
/// assert_eq!(verdict.hint(), Some(Duration::from_secs(3)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    hint: Span,
    reason: Reason,
    again: Again,
    health: Health,
    work: Work,
    heard: Heard,
    kind: Kind,
}

/// Which constructor made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Success,
    Transient,
    Overloaded,
    Unreachable,
    Throttled,
    Ambiguous,
    Terminal,
    Blocked,
    RefusedBelow,
}

/// What was heard of the dependency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heard {
    /// An answer or a refusal of its own.
    Answer,
    /// Nothing, though it was asked.
    Silence,
    /// Nothing, as it was not asked.
    NotAsked,
}

impl Verdict {
    const fn new(
        kind: Kind,
        again: Again,
        health: Health,
        work: Work,
        reason: &'static str,
    ) -> Self {
        Self {
            hint: Span::NONE,
            reason: Reason::Text(reason),
            again,
            health,
            work,
            heard: Heard::Answer,
            kind,
        }
    }

    /// The dependency did what was asked. Deposits into the retry budget.
    #[must_use]
    pub const fn success() -> Self {
        Self::new(
            Kind::Success,
            Again::Never,
            Health::Ok,
            Work::Done,
            "success",
        )
    }

    /// A failure that may pass: 500, 502, 504.
    #[must_use]
    pub const fn transient() -> Self {
        let (again, health) = (Again::AfterDelay, Health::Failing);
        Self::new(
            Kind::Transient,
            again,
            health,
            Work::Unknown,
            "transient failure",
        )
    }

    /// The dependency turned the work away to protect itself: 529, a 503 with
    /// a hint, a refused stream.
    #[must_use]
    pub const fn overloaded(hint: Option<Duration>) -> Self {
        let (again, health) = (Again::AfterDelay, Health::Failing);
        Self::new(Kind::Overloaded, again, health, Work::NotDone, "overloaded").hinted(hint)
    }

    /// The request never left: connect refused, connect timeout, DNS, a
    /// service that is never ready.
    #[must_use]
    pub const fn unreachable() -> Self {
        let (again, health) = (Again::AfterDelay, Health::Failing);
        Self::new(
            Kind::Unreachable,
            again,
            health,
            Work::NotDone,
            "unreachable",
        )
    }

    /// We ask for more than our share: 429, a local limit. No evidence about
    /// the dependency's health.
    #[must_use]
    pub const fn throttled(hint: Option<Duration>) -> Self {
        let (again, health) = (Again::AfterDelay, Health::Neutral);
        Self::new(Kind::Throttled, again, health, Work::NotDone, "throttled").hinted(hint)
    }

    /// No answer, or a broken one, after the request was sent: a timeout, a
    /// reset. A retry costs two budget tokens instead of one, because the
    /// first try may have been worked on in vain.
    #[must_use]
    pub const fn ambiguous() -> Self {
        let (again, health) = (Again::AfterDelay, Health::Failing);
        Self::new(Kind::Ambiguous, again, health, Work::Unknown, "no answer").unanswered()
    }

    /// An answer that will stay the same: 400, 404, 422. The dependency works,
    /// so this counts as health and deposits into the retry budget.
    #[must_use]
    pub const fn terminal() -> Self {
        Self::new(
            Kind::Terminal,
            Again::Never,
            Health::Ok,
            Work::NotDone,
            "terminal answer",
        )
    }

    /// We may not: 401, 403, a spend cap. Neither a retry nor a breaker mends
    /// it; a fallback can.
    #[must_use]
    pub const fn blocked() -> Self {
        Self::new(
            Kind::Blocked,
            Again::Never,
            Health::Neutral,
            Work::NotDone,
            "blocked",
        )
    }

    /// A steadfast stack further down refused or gave up: it owns the retries,
    /// so this one adds none.
    #[must_use]
    pub const fn refused_below() -> Self {
        let (again, health) = (Again::Never, Health::Neutral);
        Self::new(
            Kind::RefusedBelow,
            again,
            health,
            Work::Unknown,
            "refused or given up below",
        )
        .not_asked()
    }

    /// Gives the reason that errors and events show.
    #[must_use]
    pub fn because(mut self, reason: impl Into<Reason>) -> Self {
        self.reason = reason.into();
        self
    }

    /// Forbids a further try, whatever the constructor allowed.
    #[must_use]
    pub const fn never_again(mut self) -> Self {
        self.again = Again::Never;
        self
    }

    /// Adds how long the dependency asked us to wait. It is never undercut; a
    /// further attempt waits at least that long, and a breaker that opens at
    /// this verdict stays open for as long.
    #[must_use]
    pub const fn hinted(mut self, hint: Option<Duration>) -> Self {
        self.hint = Span::new(hint);
        self
    }

    /// Takes back what the verdict says of the dependency's health.
    #[must_use]
    pub const fn no_evidence(mut self) -> Self {
        self.health = Health::Neutral;
        self
    }

    pub(crate) const fn not_asked(mut self) -> Self {
        self.heard = Heard::NotAsked;
        self
    }

    /// Whether the dependency itself said anything.
    pub(crate) const fn is_answer(&self) -> bool {
        matches!(self.heard, Heard::Answer)
    }

    pub(crate) const fn unanswered(mut self) -> Self {
        self.heard = Heard::Silence;
        self
    }

    /// The constructor's name, such as `"transient"`, whatever was changed
    /// since.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self.kind {
            Kind::Success => "success",
            Kind::Transient => "transient",
            Kind::Overloaded => "overloaded",
            Kind::Unreachable => "unreachable",
            Kind::Throttled => "throttled",
            Kind::Ambiguous => "ambiguous",
            Kind::Terminal => "terminal",
            Kind::Blocked => "blocked",
            Kind::RefusedBelow => "refused_below",
        }
    }

    /// Whether the call may be tried again.
    #[must_use]
    pub const fn again(&self) -> Again {
        self.again
    }

    /// What the breaker hears.
    #[must_use]
    pub const fn health(&self) -> Health {
        self.health
    }

    /// Whether the dependency did what was asked.
    #[must_use]
    pub const fn work(&self) -> Work {
        self.work
    }

    /// How long the dependency asked us to wait.
    #[must_use]
    pub const fn hint(&self) -> Option<Duration> {
        self.hint.get()
    }

    /// The same in one word.
    pub(crate) const fn hint_span(&self) -> Span {
        self.hint
    }

    /// Why.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        self.reason
    }

    /// Whether the attempt got an answer or a refusal; decides what a retry
    /// costs.
    pub(crate) const fn answered(&self) -> bool {
        !matches!(self.heard, Heard::Silence)
    }

    pub(crate) const fn is_success(&self) -> bool {
        matches!((self.health, self.work), (Health::Ok, Work::Done))
    }

    /// Whether a fallback serves after this verdict ended a call: the
    /// dependency cannot or will not serve us, and neither our own excess
    /// (throttled) nor our own mistake (terminal) is to blame.
    pub(crate) const fn falls_through(&self) -> bool {
        match (self.again, self.health) {
            (_, Health::Ok) | (Again::AfterDelay, Health::Neutral) => false,
            (_, Health::Failing) | (Again::Never, Health::Neutral) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_falls_through_is_a_failing_or_blocked_dependency_only() {
        for verdict in [
            Verdict::transient(),
            Verdict::overloaded(None),
            Verdict::unreachable(),
            Verdict::ambiguous(),
            Verdict::blocked(),
            Verdict::refused_below(),
        ] {
            assert!(verdict.falls_through(), "{verdict:?}");
        }
        for verdict in [
            Verdict::success(),
            Verdict::throttled(None),
            Verdict::terminal(),
        ] {
            assert!(!verdict.falls_through(), "{verdict:?}");
        }
    }
}
