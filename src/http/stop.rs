//! Says across a wire that all has been tried.

use http::{HeaderMap, HeaderValue, Response};

use super::seal::Sealed;

/// Tells the caller of a failing answer not to try again, if a stack below has
/// refused or given up: a mark in the scope said so, or the answer is that
/// stack's and carries its seal.
///
/// Failing is also a status that nobody tries again by itself, since the answer
/// may have come with an `x-should-retry: true` from further down.
pub(super) fn stop_retries<R>(mut answer: Response<R>, given_up: bool) -> Response<R> {
    if !given_up && answer.extensions().get::<Sealed>().is_none() {
        return answer;
    }
    let in_grpc = fails_in_grpc(answer.headers());
    let status = answer.status();
    let in_http = status.is_client_error() || status.is_server_error();
    let headers = answer.headers_mut();
    if in_grpc {
        let never = HeaderValue::from_static("-1");
        headers.insert("grpc-retry-pushback-ms", never);
    }
    if in_grpc || in_http {
        let no = HeaderValue::from_static("false");
        headers.insert("x-should-retry", no);
    }
    answer
}

/// Whether the head of the answer has a gRPC status, and not OK.
fn fails_in_grpc(headers: &HeaderMap) -> bool {
    let status = headers.get("grpc-status");
    status.is_some_and(|status| status.as_bytes() != b"0")
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;

    /// The two headers of an answer that was stopped, or was not.
    fn stopped(status: u16, grpc: Option<&'static str>, given_up: bool) -> [Option<String>; 2] {
        let mut answer = Response::builder().status(status);
        if let Some(grpc) = grpc {
            answer = answer.header("grpc-status", grpc);
        }
        let answer = answer.header("x-should-retry", "true").body(()).unwrap();
        let answer = stop_retries(answer, given_up);
        ["x-should-retry", "grpc-retry-pushback-ms"].map(|name| {
            let value = answer.headers().get(name)?;
            Some(value.to_str().unwrap().to_owned())
        })
    }

    fn texts(texts: [Option<&str>; 2]) -> [Option<String>; 2] {
        texts.map(|text| text.map(str::to_owned))
    }

    #[test]
    fn a_failing_answer_of_a_stack_that_gave_up_says_so() {
        for status in [500, 502, 503, 504, 529, 408, 409, 425, 429] {
            let no = texts([Some("false"), None]);
            assert_eq!(stopped(status, None, true), no, "{status}");
        }
        for grpc in ["14", "4", "2", "not a number", ""] {
            let no = texts([Some("false"), Some("-1")]);
            assert_eq!(stopped(200, Some(grpc), true), no, "{grpc}");
        }
    }

    #[test]
    fn the_seal_of_a_stack_serves_where_no_mark_is_in_scope() {
        let mut answer = Response::new(());
        *answer.status_mut() = StatusCode::BAD_GATEWAY;
        let sealed = Sealed::new(crate::Stopped::AttemptsExhausted);
        answer.extensions_mut().insert(sealed);
        let answer = stop_retries(answer, false);
        assert_eq!(answer.headers()["x-should-retry"], "false");
    }

    #[test]
    fn all_other_answers_stay_as_they_are() {
        let same = texts([Some("true"), None]);
        for status in [200, 204, 302, 304] {
            assert_eq!(stopped(status, None, true), same, "{status}");
        }
        assert_eq!(stopped(200, Some("0"), true), same);
        assert_eq!(stopped(503, None, false), same);
        assert_eq!(stopped(200, Some("14"), false), same);
    }
}
