//! The classifier below a generated client.

use std::error::Error as StdError;
use std::fmt;
use std::time::SystemTime;

use http::{Request, Response};
use tonic::{ConnectError, Status, TimeoutExpired};

use super::code::{judge_head, verdict_of};
use super::hints::StatusHints;
use super::seal::seal;
use crate::classify::traits::{Classify, Replay};
use crate::classify::verdict::{Health, Verdict};
use crate::error::Stopped;
use crate::error::chain::chain;
use crate::http::body::copy_request;
use crate::http::{CopyBody, Sealed, judge_error};

/// Judges gRPC calls where they are HTTP: between a generated client and its
/// channel.
///
/// An answer is judged by the `grpc-status` in its head, which is where a call
/// that fails without sending anything has it (a trailers-only answer, all
/// that a unary handler of tonic's fails with); by its HTTP status where that
/// is not 200. The codes mean what [`verdict_of`](super::verdict_of) says. A
/// status after a body stands in the trailers, which are not there yet when the
/// attempt is judged; [`judge_trailers`](super::judge_trailers) lets the
/// breaker hear of those. Errors of the channel are judged by
/// [`judge_error`](crate::http::judge_error).
///
/// # Idempotency
///
/// Every gRPC call is a POST, so nothing tells whether it may be sent twice.
/// Unless you say so, a call is sent again only where the work was certainly
/// not done: refused by a server that says when to come back, throttled, never
/// connected.
///
/// [`idempotent`](Self::idempotent) says so by the path of the method,
/// `/package.Service/Method`; a request extension [`Idempotent`] for one call,
/// and goes before it.
///
/// # Copies
///
/// As [`CopyBody`] says. The body of a generated client is none: put a
/// [`ReplayLayer`](crate::http::ReplayLayer) above the stack.
///
/// # Given up
///
/// An answer with which the retries ended gets `grpc-retry-pushback-ms: -1`
/// (gRPC proposal A6), so that neither a stack further out nor another client
/// starts over.
///
/// # Examples
///
/// ```
/// use steadfast::{Policy, grpc::GrpcClassifier};
///
/// let policy = Policy::builder("inventory")
///     .classify(GrpcClassifier::new().idempotent(|path| path.starts_with("/shop.Catalog/Get")))
///     .build()?;
/// # Ok::<(), steadfast::ConfigError>(())
/// ```
#[derive(Clone, Copy)]
pub struct GrpcClassifier<F = fn(&str) -> bool> {
    idempotent: F,
}

/// Whether one call may be sent twice; a request extension that goes before
/// what the classifier says of the method.
///
/// # Examples
///
/// ```
/// let mut request = tonic::Request::new(());
/// request.extensions_mut().insert(steadfast::grpc::Idempotent(true));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Idempotent(pub bool);

impl GrpcClassifier {
    /// No method may be sent twice.
    #[must_use]
    pub fn new() -> Self {
        Self {
            idempotent: |_| false,
        }
    }
}

impl Default for GrpcClassifier {
    fn default() -> Self {
        Self::new()
    }
}

impl<F> GrpcClassifier<F> {
    /// Lets `idempotent` say which methods may be sent again when it is
    /// unknown whether the work was done. It is given the path:
    /// `/package.Service/Method`.
    ///
    /// # Default
    ///
    /// None: a gRPC method does not say of itself whether it writes.
    pub fn idempotent<G: Fn(&str) -> bool>(self, idempotent: G) -> GrpcClassifier<G> {
        GrpcClassifier { idempotent }
    }
}

impl<F> fmt::Debug for GrpcClassifier<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrpcClassifier").finish_non_exhaustive()
    }
}

impl<B, F> Replay<Request<B>> for GrpcClassifier<F>
where
    B: CopyBody,
    F: Fn(&str) -> bool,
{
    type Memo = bool;

    fn memo(&self, request: &Request<B>) -> bool {
        match request.extensions().get() {
            Some(Idempotent(said)) => *said,
            None => (self.idempotent)(request.uri().path()),
        }
    }

    fn copy(&self, request: &Request<B>) -> Option<Request<B>> {
        copy_request(request)
    }

    fn is_intact(&self, copy: &Request<B>) -> bool {
        copy.body().is_intact()
    }

    fn idempotent(&self, memo: &bool) -> bool {
        *memo
    }
}

impl<B, R, F> Classify<Request<B>, Response<R>> for GrpcClassifier<F>
where
    B: CopyBody,
    F: Fn(&str) -> bool,
{
    fn classify(
        &self,
        _: &bool,
        result: Result<&Response<R>, &(dyn StdError + Send + Sync + 'static)>,
    ) -> Verdict {
        match result {
            Ok(response) => judge_answer(response),
            Err(error) => judge_cause(error),
        }
    }

    fn seal(&self, response: &mut Response<R>, stopped: &Stopped) {
        seal(response, *stopped);
    }
}

/// Judges calls made *through* a generated client, for a policy around one:
/// a [`tonic::Status`] by its code, other errors as those of a channel.
///
/// # Examples
///
/// ```
/// use steadfast::{Policy, classify::classify_fn, grpc};
///
/// let policy = Policy::builder("inventory")
///     .classify(classify_fn(grpc::judge::<tonic::Response<()>>).idempotent_if(|_: &()| false))
///     .build()?;
/// let call = policy.call(|| async { Ok::<_, tonic::Status>(tonic::Response::new(())) });
/// # let _ = call;
/// # Ok::<(), steadfast::ConfigError>(())
/// ```
#[must_use]
pub fn judge<T>(result: Result<&T, &(dyn StdError + Send + Sync + 'static)>) -> Verdict {
    match result {
        Ok(_) => Verdict::success(),
        Err(error) => judge_cause(error),
    }
}

fn judge_answer<R>(response: &Response<R>) -> Verdict {
    let verdict = judge_head(response.status(), response.headers(), SystemTime::now());
    let sealed = response.extensions().get::<Sealed>().is_some();
    if sealed && verdict.health() != Health::Ok {
        return Verdict::refused_below();
    }
    verdict
}

fn judge_cause(error: &(dyn StdError + 'static)) -> Verdict {
    let known = chain(error).find_map(|cause| {
        if cause.is::<ConnectError>() {
            return Some(Verdict::unreachable().because("connect failed"));
        }
        if cause.is::<TimeoutExpired>() {
            return Some(Verdict::ambiguous().because("timed out"));
        }
        // One with a source was made here, of an error of the channel; what
        // that is says more than the code that was chosen for it.
        let status = cause.downcast_ref::<Status>()?;
        (status.source().is_none()).then(|| verdict_of(status.code(), StatusHints::of(status)))
    });
    known.unwrap_or_else(|| judge_error(error))
}
