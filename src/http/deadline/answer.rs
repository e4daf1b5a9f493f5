//! What a request that ran out of time is answered.

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Response, StatusCode};

/// Which protocol a request speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Http,
    Grpc,
}

impl Protocol {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
        let is_grpc = kind.and_then(|kind| kind.get(..GRPC.len()));
        if is_grpc.is_some_and(|kind| kind.eq_ignore_ascii_case(GRPC.as_bytes())) {
            Self::Grpc
        } else {
            Self::Http
        }
    }
}

const GRPC: &str = "application/grpc";

pub(super) fn too_late<R: Default>(protocol: Protocol) -> Response<R> {
    let mut answer = Response::new(R::default());
    match protocol {
        Protocol::Http => *answer.status_mut() = StatusCode::GATEWAY_TIMEOUT,
        Protocol::Grpc => {
            // A gRPC answer without a message has its trailers in the head,
            // and status 200 whatever it says.
            let headers = answer.headers_mut();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(GRPC));
            headers.insert("grpc-status", HeaderValue::from_static("4"));
            let message = HeaderValue::from_static("deadline exceeded");
            headers.insert("grpc-message", message);
        }
    }
    answer
}
