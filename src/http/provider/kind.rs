//! What a provider's error is, whatever the provider.

use std::fmt;
use std::time::Duration;

use ::http::StatusCode;

use crate::classify::verdict::Verdict;

/// What kind of error a model provider answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProviderErrorKind {
    /// The provider has no capacity, for anyone or for this model: it can be
    /// tried again, and the breaker hears of it.
    Overloaded,
    /// We ask faster than we may: it can be tried again after a wait, and says
    /// nothing about the provider.
    RateLimited,
    /// Credits, a spend cap or a quota of days or months are used up: no retry
    /// mends it, a fallback can.
    Quota,
    /// The key or its rights: no retry mends it, a fallback can.
    Auth,
    /// The request is wrong, and would be elsewhere too.
    InvalidRequest,
    /// The content is not wanted. Asking someone else is not for a fallback to
    /// decide.
    ContentFilter,
    /// The model took longer than the provider allows.
    TimedOut,
    /// The model failed.
    Failed,
}

impl ProviderErrorKind {
    /// The verdict, with what the server asked us to wait.
    ///
    /// | kind | verdict |
    /// |---|---|
    /// | `Overloaded` | overloaded |
    /// | `RateLimited` | throttled |
    /// | `Quota`, `Auth` | blocked: falls back, and is no evidence |
    /// | `InvalidRequest`, `ContentFilter` | terminal: does not fall back |
    /// | `TimedOut` | ambiguous: a retry costs two tokens |
    /// | `Failed` | transient: a retry costs one |
    #[must_use]
    pub const fn verdict(self, wait: Option<Duration>) -> Verdict {
        match self {
            Self::Overloaded => Verdict::overloaded(wait),
            Self::RateLimited => Verdict::throttled(wait),
            Self::Quota | Self::Auth => Verdict::blocked(),
            Self::InvalidRequest | Self::ContentFilter => Verdict::terminal(),
            Self::TimedOut => Verdict::ambiguous().hinted(wait),
            Self::Failed => Verdict::transient().hinted(wait),
        }
    }

    /// As it is called in verdicts and events, such as `"rate limit"`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Overloaded => "overloaded",
            Self::RateLimited => "rate limit",
            Self::Quota => "quota or spend limit",
            Self::Auth => "not authorised",
            Self::InvalidRequest => "invalid request",
            Self::ContentFilter => "content filter",
            Self::TimedOut => "model timeout",
            Self::Failed => "model error",
        }
    }

    /// What a code says together with the status it came with, if they agree.
    ///
    /// A server error never counts as the caller's mistake, which would tell
    /// the breaker that all is well. A server error that speaks of a rate is
    /// the server protecting itself. "Invalid" is what providers call what has
    /// no name of its own; where the status says more, the status stands.
    pub(super) fn at(self, status: StatusCode) -> Option<Self> {
        let code = status.as_u16();
        match self {
            _ if code < 400 => None,
            Self::RateLimited if code >= 500 => Some(Self::Overloaded),
            Self::InvalidRequest | Self::ContentFilter if code >= 500 => None,
            Self::InvalidRequest if matches!(code, 401..=403 | 407 | 408 | 425 | 429) => None,
            kind => Some(kind),
        }
    }

    /// Whether more of the body could have made it another kind.
    pub(super) const fn can_be_refined(self) -> bool {
        matches!(self, Self::RateLimited | Self::InvalidRequest)
    }
}

impl fmt::Display for ProviderErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
