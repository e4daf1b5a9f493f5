//! The mark on an answer with which the retries ended.

use std::time::SystemTime;

use http::Response;
use http::header::{HeaderName, HeaderValue, RETRY_AFTER};

use super::hints::StatusHints;
use crate::error::Stopped;
use crate::http::Sealed;
use crate::notice::whole_seconds;

pub(super) const PUSHBACK: &str = "grpc-retry-pushback-ms";

/// Marks the answer for stacks further out in this process, and in gRPC's own
/// way for everyone else: a pushback of -1 ends the retries of any client
/// (proposal A6). A wait that stood there moves to `Retry-After`.
pub(super) fn seal<R>(response: &mut Response<R>, stopped: Stopped) {
    let wait = StatusHints::read(response.headers(), SystemTime::now()).wait();
    response.extensions_mut().insert(Sealed::new(stopped));
    let headers = response.headers_mut();
    headers.insert(
        HeaderName::from_static(PUSHBACK),
        HeaderValue::from_static("-1"),
    );
    if let Some(wait) = wait {
        headers.insert(RETRY_AFTER, whole_seconds(wait).into());
    }
}
