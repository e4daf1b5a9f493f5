//! A call that was turned away here, before the dependency saw it.

use std::fmt;
use std::time::Duration;

use crate::name::Name;
use crate::span::Span;

/// Why a breaker turned a call away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RefusalReason {
    /// The breaker is open: the dependency failed too often.
    Open,
    /// The breaker is half-open and its probes are out: their outcome decides.
    HalfOpen,
    /// The breaker is recovering and its share of the calls is used up.
    Recovering,
    /// The breaker was opened by hand; see [`Refusal::note`].
    ForcedOpen,
    /// As many calls are in flight as the breaker allows: a limit of our own,
    /// and no evidence about the dependency.
    ConcurrencyLimit,
}

impl RefusalReason {
    /// The name used in events, such as `"half_open"`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::HalfOpen => "half_open",
            Self::Recovering => "recovering",
            Self::ForcedOpen => "forced_open",
            Self::ConcurrencyLimit => "concurrency_limit",
        }
    }
}

/// A refusal: the dependency was not asked.
///
/// Work that was refused has not been done badly, it has not been done: put
/// it off, and do not count it as a failure of the item.
///
/// A refusal holds no allocation and no reference count, so that turning away
/// a flood costs next to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Refusal {
    dependency: Name,
    note: Option<Name>,
    retry_after: Span,
    reason: RefusalReason,
}

impl Refusal {
    pub(crate) const fn new(dependency: Name, reason: RefusalReason, retry_after: Span) -> Self {
        Self {
            dependency,
            note: None,
            retry_after,
            reason,
        }
    }

    pub(crate) const fn noting(mut self, note: Name) -> Self {
        self.note = Some(note);
        self
    }

    /// The dependency's name.
    #[must_use]
    pub const fn dependency(&self) -> &'static str {
        self.dependency.as_str()
    }

    /// Why.
    #[must_use]
    pub const fn reason(&self) -> RefusalReason {
        self.reason
    }

    /// The reason given by whoever forced the breaker open.
    #[must_use]
    pub const fn note(&self) -> Option<&'static str> {
        match self.note {
            Some(note) => Some(note.as_str()),
            None => None,
        }
    }

    /// How long until the breaker's next check: not before then can a call be
    /// admitted. While probes are out this is a guess (one opening time), as
    /// their answer may come at any moment; during a recovery too (a tenth of
    /// it), as the next call may be within the share. `None` where no time can
    /// be named: forced open, or a limit of our own.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        self.retry_after.get()
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.reason {
            RefusalReason::Open => "its breaker is open",
            RefusalReason::HalfOpen => "its breaker is half-open and the probes are out",
            RefusalReason::Recovering => "its breaker lets a growing share of the calls pass",
            RefusalReason::ForcedOpen => "its breaker was opened by hand",
            RefusalReason::ConcurrencyLimit => "as many calls are in flight as are allowed",
        };
        let dependency = self.dependency();
        write!(
            f,
            "dependency `{dependency}` is temporarily unavailable: {state}"
        )?;
        if let Some(note) = self.note() {
            write!(f, " ({note})")?;
        }
        if let Some(wait) = self.retry_after() {
            write!(f, "; next check in {wait:?}")?;
        }
        Ok(())
    }
}
