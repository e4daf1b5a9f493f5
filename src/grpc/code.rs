//! What a status code says of an attempt. Pure.

use std::time::SystemTime;

use http::{HeaderMap, StatusCode};
use tonic::Code;

use super::hints::StatusHints;
use crate::classify::verdict::Verdict;

/// The verdict on a gRPC status, wherever it was found: in the head of an
/// answer without a body, or in the trailers after one.
///
/// | code | verdict | because |
/// |---|---|---|
/// | `OK` | success | |
/// | `CANCELLED` | never again, no evidence, work unknown | somebody has left; as likely on our side as on theirs |
/// | `UNKNOWN` | transient | an error nobody mapped, such as a panic |
/// | `INVALID_ARGUMENT` | terminal | wrong whatever the state of the system |
/// | `DEADLINE_EXCEEDED` | transient | the server was too slow; the work may be done |
/// | `NOT_FOUND` | terminal | an answer |
/// | `ALREADY_EXISTS` | terminal | an answer |
/// | `PERMISSION_DENIED` | blocked | who we are, not how it is |
/// | `RESOURCE_EXHAUSTED` | throttled | a quota of ours |
/// | `FAILED_PRECONDITION` | terminal | somebody must act first |
/// | `ABORTED` | terminal | to be tried again from its beginning (read, modify, write), not call by call |
/// | `OUT_OF_RANGE` | terminal | an answer |
/// | `UNIMPLEMENTED` | terminal | stays so |
/// | `INTERNAL` | transient | a broken invariant, or a broken stream |
/// | `UNAVAILABLE` | transient; overloaded with a hint | a server that says when protects itself and has not begun |
/// | `DATA_LOSS` | failing, never again | a retry does not bring it back |
/// | `UNAUTHENTICATED` | blocked | as `PERMISSION_DENIED` |
///
/// The meanings are those of gRPC's `statuscodes.md`. A hint is kept wherever
/// a further try is possible; a pushback that forbids it makes any of them
/// "never again".
///
/// # Examples
///
/// ```
/// use steadfast::{Again, Health, grpc};
/// use tonic::Code;
///
/// let verdict = grpc::verdict_of(Code::Aborted, grpc::StatusHints::NONE);
/// assert_eq!(verdict.again(), Again::Never);
/// assert_eq!(verdict.health(), Health::Ok);
/// ```
#[must_use]
pub fn verdict_of(code: Code, hints: StatusHints) -> Verdict {
    let hint = hints.wait();
    let verdict = match code {
        Code::Ok => Verdict::success(),
        Code::Cancelled => Verdict::transient().never_again().no_evidence(),
        Code::Unknown | Code::DeadlineExceeded | Code::Internal => {
            Verdict::transient().hinted(hint)
        }
        Code::Unavailable if hint.is_some() => Verdict::overloaded(hint),
        Code::Unavailable => Verdict::transient(),
        Code::ResourceExhausted => Verdict::throttled(hint),
        Code::DataLoss => Verdict::transient().never_again(),
        Code::PermissionDenied | Code::Unauthenticated => Verdict::blocked(),
        Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::FailedPrecondition
        | Code::Aborted
        | Code::OutOfRange
        | Code::Unimplemented => Verdict::terminal(),
    };
    let verdict = verdict.because(name(code));
    if hints.forbids() {
        verdict.never_again()
    } else {
        verdict
    }
}

/// The verdict on the trailers after an answer, for
/// [`WatchBodyLayer::judge_trailers`](crate::http::WatchBodyLayer::judge_trailers):
/// the breaker then hears of a stream that ends badly.
///
/// Without a `grpc-status` the stream was cut off by something in between:
/// ambiguous. One that is no number, or none of the 17, counts as `UNKNOWN`.
///
/// # Examples
///
/// ```
/// use steadfast::{Health, grpc, http::WatchBodyLayer};
///
/// let layer = WatchBodyLayer::new().judge_trailers(grpc::judge_trailers);
///
/// let mut trailers = http::HeaderMap::new();
/// assert_eq!(grpc::judge_trailers(&trailers).health(), Health::Failing);
/// trailers.insert("grpc-status", "5".parse()?);
/// assert_eq!(grpc::judge_trailers(&trailers).health(), Health::Ok);
/// # let _ = layer;
/// # Ok::<(), http::header::InvalidHeaderValue>(())
/// ```
#[must_use]
pub fn judge_trailers(trailers: &HeaderMap) -> Verdict {
    judge_status(trailers, SystemTime::now())
        .unwrap_or_else(|| Verdict::ambiguous().because("no grpc-status"))
}

/// The verdict on the `grpc-status`, if there is one.
fn judge_status(headers: &HeaderMap, now: SystemTime) -> Option<Verdict> {
    let status = headers.get("grpc-status")?;
    let code = Code::from_bytes(status.as_bytes());
    let hints = match code {
        Code::Ok => StatusHints::NONE,
        _ => StatusHints::read(headers, now),
    };
    Some(verdict_of(code, hints))
}

/// The verdict on the head of an answer.
///
/// A 200 without a `grpc-status` has a body to come, and its status after
/// that: a success as far as a head can tell. Other statuses come from
/// something that does not speak gRPC, and mean what gRPC's
/// `http-grpc-status-mapping.md` says. (One exception: it has `UNAVAILABLE`
/// for 429, for want of a better code; here that is what it says, throttled.)
pub(super) fn judge_head(status: StatusCode, headers: &HeaderMap, now: SystemTime) -> Verdict {
    if let Some(verdict) = judge_status(headers, now) {
        return verdict;
    }
    let code = match status {
        StatusCode::OK => return Verdict::success(),
        StatusCode::BAD_REQUEST => Code::Internal,
        StatusCode::UNAUTHORIZED => Code::Unauthenticated,
        StatusCode::FORBIDDEN => Code::PermissionDenied,
        StatusCode::NOT_FOUND => Code::Unimplemented,
        StatusCode::TOO_MANY_REQUESTS => Code::ResourceExhausted,
        StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
            Code::Unavailable
        }
        _ => Code::Unknown,
    };
    verdict_of(code, StatusHints::read(headers, now)).because(status.as_u16())
}

const fn name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}
