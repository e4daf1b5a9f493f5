//! Answers to gRPC requests that have no message.
//!
//! Such an answer has its trailers in the head, and HTTP status 200 whatever it
//! says.

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Response};

/// The content type of a gRPC request, to be answered in kind; `None` for any
/// other request.
pub(super) fn grpc_type(headers: &HeaderMap) -> Option<HeaderValue> {
    const GRPC: &[u8] = b"application/grpc";
    let value = headers.get(CONTENT_TYPE)?;
    let kind = value.as_bytes().get(..GRPC.len())?;
    kind.eq_ignore_ascii_case(GRPC).then(|| value.clone())
}

/// An answer of this type with this status.
pub(super) fn trailers_only<R: Default>(kind: HeaderValue, status: &'static str) -> Response<R> {
    let mut answer = Response::new(R::default());
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, kind);
    headers.insert("grpc-status", HeaderValue::from_static(status));
    answer
}
