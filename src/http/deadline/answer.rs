//! What a request that ran out of time is answered.

use http::{HeaderValue, Response, StatusCode};

use crate::http::trailers_only::trailers_only;

/// `grpc` is the content type of a gRPC request.
pub(super) fn too_late<R: Default>(grpc: Option<&HeaderValue>) -> Response<R> {
    let Some(kind) = grpc else {
        let mut answer = Response::new(R::default());
        *answer.status_mut() = StatusCode::GATEWAY_TIMEOUT;
        return answer;
    };
    let mut answer = trailers_only(kind.clone(), "4");
    let message = HeaderValue::from_static("deadline exceeded");
    answer.headers_mut().insert("grpc-message", message);
    answer
}
