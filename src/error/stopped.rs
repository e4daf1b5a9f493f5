//! Why a call was not tried again.

use std::fmt;

use crate::refusal::Refusal;

/// The first reason against a further attempt, in the order in which they are
/// looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stopped {
    /// The verdict forbids it: the same request would end the same way.
    NotRetryable,
    /// It is unknown whether the work was done, and the request may not be
    /// sent twice.
    NotIdempotent,
    /// All attempts were made.
    AttemptsExhausted,
    /// The caller asked for no retries through the [`Scope`](crate::Scope).
    RetriesDisabled,
    /// The request cannot be copied, or the last attempt has spoilt its copy.
    NotReplayable,
    /// The breaker would not admit a further attempt.
    Breaker(Refusal),
    /// The [`CallCap`](crate::CallCap) in scope leaves no room for another send.
    CallCap,
    /// The server asked for a longer wait than the policy honours.
    HintTooLong,
    /// A further attempt could not start early enough before the deadline.
    Deadline,
    /// The retry budget is spent.
    BudgetExhausted,
}

impl Stopped {
    /// The name used in events, such as `"attempts_exhausted"`.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::NotRetryable => "not_retryable",
            Self::NotIdempotent => "not_idempotent",
            Self::AttemptsExhausted => "attempts_exhausted",
            Self::RetriesDisabled => "retries_disabled",
            Self::NotReplayable => "not_replayable",
            Self::Breaker(_) => "breaker",
            Self::CallCap => "call_cap",
            Self::HintTooLong => "hint_too_long",
            Self::Deadline => "deadline",
            Self::BudgetExhausted => "budget_exhausted",
        }
    }
}

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotRetryable => "a retry would end the same way",
            Self::NotIdempotent => "the request may not be sent twice",
            Self::AttemptsExhausted => "no attempts left",
            Self::RetriesDisabled => "the caller asked for no retries",
            Self::NotReplayable => "the request cannot be copied",
            Self::Breaker(_) => "the breaker would refuse a retry",
            Self::CallCap => "all calls that were allowed have been made",
            Self::HintTooLong => "the server asked for a longer wait than is honoured",
            Self::Deadline => "the deadline leaves no time for a retry",
            Self::BudgetExhausted => "the retry budget is spent",
        })
    }
}
