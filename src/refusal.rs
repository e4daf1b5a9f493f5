//! A call that was turned away here, before the dependency saw it.

use std::fmt;
use std::time::Duration;

use crate::span::Span;

/// Why a breaker turned a call away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RefusalReason {
    /// The breaker is open: the dependency failed too often.
    Open,
    /// The breaker is half-open and its probes are out: their outcome decides.
    HalfOpen,
}

impl RefusalReason {
    /// The name used in events, such as `"half_open"`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::HalfOpen => "half_open",
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
    dependency: &'static str,
    reason: RefusalReason,
    retry_after: Span,
}

impl Refusal {
    pub(crate) const fn new(
        dependency: &'static str,
        reason: RefusalReason,
        retry_after: Option<Duration>,
    ) -> Self {
        Self {
            dependency,
            reason,
            retry_after: Span::new(retry_after),
        }
    }

    /// The dependency's name.
    #[must_use]
    pub const fn dependency(&self) -> &'static str {
        self.dependency
    }

    /// Why.
    #[must_use]
    pub const fn reason(&self) -> RefusalReason {
        self.reason
    }

    /// How long until the breaker's next check: not before then can a call be
    /// admitted. While probes are out this is a guess (one opening time), as
    /// their answer may come at any moment.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        self.retry_after.get()
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.reason {
            RefusalReason::Open => "open",
            RefusalReason::HalfOpen => "half-open and its probes are out",
        };
        write!(
            f,
            "dependency `{}` is temporarily unavailable: its breaker is {state}",
            self.dependency
        )?;
        if let Some(wait) = self.retry_after() {
            write!(f, "; next check in {wait:?}")?;
        }
        Ok(())
    }
}
