//! What a request that ran out of time is answered.

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Response, StatusCode};

/// Which protocol a request speaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Http,
    /// gRPC, in this content type.
    Grpc(HeaderValue),
}

impl Protocol {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        const GRPC: &[u8] = b"application/grpc";
        let kind = headers.get(CONTENT_TYPE);
        let is_grpc = |kind: &&HeaderValue| {
            let start = kind.as_bytes().get(..GRPC.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(GRPC))
        };
        kind.filter(is_grpc)
            .map_or(Self::Http, |kind| Self::Grpc(kind.clone()))
    }
}

pub(super) fn too_late<R: Default>(protocol: &Protocol) -> Response<R> {
    let mut answer = Response::new(R::default());
    match protocol {
        Protocol::Http => *answer.status_mut() = StatusCode::GATEWAY_TIMEOUT,
        Protocol::Grpc(kind) => {
            // A gRPC answer without a message has its trailers in the head,
            // and status 200 whatever it says.
            let headers = answer.headers_mut();
            headers.insert(CONTENT_TYPE, kind.clone());
            headers.insert("grpc-status", HeaderValue::from_static("4"));
            let message = HeaderValue::from_static("deadline exceeded");
            headers.insert("grpc-message", message);
        }
    }
    answer
}
