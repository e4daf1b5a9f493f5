//! Errors as statuses.

use std::collections::HashMap;
use std::error::Error as StdError;
use std::sync::Arc;

use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use super::seal::PUSHBACK;
use crate::error::Error;
use crate::error::chain::chain;
use crate::http::told::{End, Told};
use crate::notice::RefusalNotice;
use crate::refusal::Refusal;

/// The value of `ErrorInfo.domain`.
const DOMAIN: &str = "steadfast";

/// Feature `grpc`.
///
/// | the call | code | `ErrorInfo.reason` |
/// |---|---|---|
/// | was refused by a breaker | `UNAVAILABLE` | `DEPENDENCY_TEMPORARILY_UNAVAILABLE` |
/// | was refused by a limit of our own | `RESOURCE_EXHAUSTED` | `DEPENDENCY_TEMPORARILY_UNAVAILABLE` |
/// | failed, and we gave up | `UNAVAILABLE` | `DEPENDENCY_FAILED` |
/// | got no answer within the attempt timeout | `DEADLINE_EXCEEDED` | `ATTEMPT_TIMED_OUT` |
/// | ran into its deadline | `DEADLINE_EXCEEDED` | `DEADLINE_EXCEEDED` |
/// | was not accepted by a dependency that works | `UNAVAILABLE` | `DEPENDENCY_REJECTED` |
///
/// If the dependency itself answered with a status, its code and message
/// stand, and its details where it gave any: no answer of ours says more. (A
/// status that tonic made of an error of the channel is not one.)
///
/// The details (`grpc-status-details-bin`) hold an `ErrorInfo` of the domain
/// `steadfast`, with the dependency's name and, where the breaker had a say,
/// the members of [`RefusalNotice`]; and a `RetryInfo` where a wait is known.
/// Where a further try would only multiply ours, the metadata holds
/// `grpc-retry-pushback-ms: -1` (gRPC proposal A6): `RetryInfo` then says after
/// which time a *new* call makes sense.
///
/// The error is the status's source, which stays within the process: a stack
/// further out finds it there, and adds no retries. Its text is not told.
///
/// # Examples
///
/// A handler passes on what its client's stack failed with:
///
/// ```
/// use steadfast::Policy;
///
/// async fn stock(policy: &Policy) -> Result<tonic::Response<u32>, tonic::Status> {
///     let stock = policy.call(|| async { Ok::<_, std::io::Error>(17) }).await?;
///     Ok(tonic::Response::new(stock))
/// }
/// ```
impl From<Error> for Status {
    fn from(error: Error) -> Self {
        into_status(error, true)
    }
}

/// As for an [`Error`] that is a refusal; feature `grpc`.
impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        let mut status = ours(&Told::from(&refusal), true);
        finish(&mut status, true);
        status.set_source(Arc::new(refusal));
        status
    }
}

pub(super) fn into_status(error: Error, named: bool) -> Status {
    let told = Told::from(&error);
    let mut status = match theirs(&error) {
        Some(status) => like(status, &told, named),
        None => ours(&told, named),
    };
    finish(&mut status, told.is_final);
    status.set_source(Arc::new(error));
    status
}

/// The last status that the dependency itself has sent.
fn theirs(error: &Error) -> Option<&Status> {
    chain(error).find_map(|cause| {
        let status = cause.downcast_ref::<Status>()?;
        // One with a source was made on this side: by tonic of an error of the
        // channel, or by us, passing on an answer or telling an end.
        match status.source() {
            None => Some(status),
            Some(source) => chain(source)
                .any(|cause| cause.is::<Error>() || cause.is::<Refusal>())
                .then_some(status),
        }
    })
}

fn like(theirs: &Status, told: &Told, named: bool) -> Status {
    let (code, message) = (theirs.code(), theirs.message());
    if theirs.details().is_empty() {
        return Status::with_error_details(code, message, details(told, named));
    }
    let details = theirs.details().to_vec().into();
    Status::with_details_and_metadata(code, message, details, MetadataMap::new())
}

fn ours(told: &Told, named: bool) -> Status {
    let code = match told.end {
        End::Refused | End::GaveUp | End::Rejected => Code::Unavailable,
        End::Limited | End::Capped => Code::ResourceExhausted,
        End::OutOfTime | End::TimedOut => Code::DeadlineExceeded,
    };
    Status::with_error_details(code, told.detail(named), details(told, named))
}

fn details(told: &Told, named: bool) -> ErrorDetails {
    let reason = match told.end {
        End::Refused | End::Limited => "DEPENDENCY_TEMPORARILY_UNAVAILABLE",
        End::Capped => "CALL_CAP_REACHED",
        End::OutOfTime => "DEADLINE_EXCEEDED",
        End::TimedOut => "ATTEMPT_TIMED_OUT",
        End::GaveUp => "DEPENDENCY_FAILED",
        End::Rejected => "DEPENDENCY_REJECTED",
    };
    let mut metadata = HashMap::new();
    let mut tell = |key: &str, value: &str| metadata.insert(key.to_owned(), value.to_owned());
    if named {
        tell("dependency", told.dependency);
    }
    if let Some(refusal) = &told.refusal {
        let notice = refusal.notice(None);
        tell("code", RefusalNotice::CODE);
        tell("operation_id", notice.operation_id());
        tell("safe_action", RefusalNotice::SAFE_ACTION);
        tell("prohibited_action", RefusalNotice::PROHIBITED_ACTION);
        if let Some(seconds) = notice.next_status_check_after_seconds() {
            tell("next_status_check_after_seconds", &seconds.to_string());
        }
    }
    let mut details = ErrorDetails::new();
    details.set_error_info(reason, DOMAIN, metadata);
    if told.wait.is_some() {
        details.set_retry_info(told.wait);
    }
    details
}

fn finish(status: &mut Status, is_final: bool) {
    if is_final {
        let never = MetadataValue::from_static("-1");
        status.metadata_mut().insert(PUSHBACK, never);
    }
}
