//! The two questions that a user's own types may answer.

use std::error::Error as StdError;

use super::verdict::Verdict;
use crate::error::Stopped;

/// What may be done with a request: copy it, and send it more than once.
///
/// `Memo` is what is remembered of a request after it was handed to the
/// service: the method, an idempotency flag, a route. It is `Copy` so that
/// remembering costs no allocation.
///
/// # Examples
///
/// ```
/// use steadfast::Replay;
///
/// struct Command { verb: &'static str }
/// struct OnlyReads;
///
/// impl Replay<Command> for OnlyReads {
///     type Memo = bool;
///     fn memo(&self, request: &Command) -> bool { request.verb == "get" }
///     fn copy(&self, request: &Command) -> Option<Command> { Some(Command { verb: request.verb }) }
///     fn idempotent(&self, memo: &bool) -> bool { *memo }
/// }
/// assert!(OnlyReads.idempotent(&OnlyReads.memo(&Command { verb: "get" })));
/// ```
pub trait Replay<Req> {
    /// What is remembered of the request.
    type Memo: Copy;

    /// Taken before the request is sent.
    fn memo(&self, request: &Req) -> Self::Memo;

    /// A copy for a later attempt, or `None` where there can be none; then
    /// the request is sent once.
    fn copy(&self, request: &Req) -> Option<Req>;

    /// Whether a copy taken before an attempt can still be sent. Asked before
    /// each further attempt, since an attempt may spoil the copies taken
    /// before it: a streamed body that is kept while it is sent may have
    /// outgrown its buffer.
    ///
    /// # Default
    ///
    /// `true`: most copies stand on their own.
    fn is_intact(&self, copy: &Req) -> bool {
        let _ = copy;
        true
    }

    /// Whether sending the request twice does no more than sending it once
    /// (RFC 9110 §9.2.2). Asked only where it is unknown whether the work was
    /// done.
    fn idempotent(&self, memo: &Self::Memo) -> bool;
}

/// Judges the result of one attempt.
///
/// # Panics
///
/// A classifier that panics takes its own call with it and nothing else: the
/// breaker hears nothing of the attempt and gives back what it held.
pub trait Classify<Req, Res>: Replay<Req> {
    /// The verdict. Called once per attempt that was answered or failed;
    /// timeouts and refusals of steadfast are judged by steadfast.
    fn classify(
        &self,
        memo: &Self::Memo,
        result: Result<&Res, &(dyn StdError + Send + Sync + 'static)>,
    ) -> Verdict;

    /// Marks an answer with which the retries ended, where the answer can
    /// carry a mark, so that an outer stack does not start over. The default
    /// marks nothing; a mark in the task's scope serves then.
    fn seal(&self, response: &mut Res, stopped: &Stopped) {
        let _ = (response, stopped);
    }
}
