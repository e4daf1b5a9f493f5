//! Bodies that are sent again, and looked at, by a real client to a real
//! server: what `http_body::Body` promises is used by others here.

#![cfg(feature = "http")]
#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps in vain should fail"
)]

mod support;

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::{Request as Incoming, State};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, StatusCode, header};
use http_body::Frame;
use http_body_util::BodyExt;
use http_body_util::channel::Channel;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use steadfast::http::{ErrorBody, HttpClassifier, LookLayer, ReplayLayer};
use steadfast::{CallReport, ServiceBuilderExt, Stopped};
use support::bare;
use tokio::net::TcpListener;
use tower::{ServiceBuilder, ServiceExt};

/// What the server does with a request.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Answers at once.
    Early,
    /// Answers when it has read the first of the body.
    ReadOne,
    /// Answers when it has read all of it.
    ReadAll,
}

/// A body and the trailers after it.
type Whole = (Bytes, Option<HeaderMap>);

#[derive(Clone, Default)]
struct Server {
    script: Arc<Mutex<Vec<Step>>>,
    whole: Arc<Mutex<Vec<Whole>>>,
}

/// 503 with a body of two parts, or 200 once the script is done.
async fn serve(State(server): State<Server>, request: Incoming) -> (StatusCode, &'static str) {
    let step = server.script.lock().unwrap().pop();
    let mut body = request.into_body();
    match step {
        Some(Step::Early) => {}
        Some(Step::ReadOne) => drop(body.frame().await),
        Some(Step::ReadAll) | None => {
            let whole = body.collect().await.unwrap();
            let trailers = whole.trailers().cloned();
            let whole = (whole.to_bytes(), trailers);
            server.whole.lock().unwrap().push(whole);
        }
    }
    match step {
        None => (StatusCode::OK, "done"),
        Some(_) => (StatusCode::SERVICE_UNAVAILABLE, "not now"),
    }
}

/// Sends `a`, `b`, `c` and trailers, a few milliseconds apart, to a server that
/// fails by `script` first. Gives what the server has read whole.
async fn send(http2: bool, script: &[Step], cap: usize) -> (StatusCode, CallReport, Vec<Whole>) {
    let server = Server::default();
    *server.script.lock().unwrap() = script.iter().rev().copied().collect();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().fallback(serve).with_state(server.clone());
    let serving = tokio::spawn(async move { axum::serve(listener, router).await });

    let (mut source, body) = Channel::<Bytes, Infallible>::new(1);
    let trailers = HeaderMap::from_iter([(header::ETAG, HeaderValue::from_static("checksum"))]);
    tokio::spawn(async move {
        for data in ["a", "b", "c"] {
            tokio::time::sleep(Duration::from_millis(5)).await;
            if source.send_data(data.into()).await.is_err() {
                return;
            }
        }
        let _ = source.send(Frame::trailers(trailers)).await;
    });
    let policy = bare()
        .max_attempts(script.len() as u32 + 1)
        .attempt_timeout(Duration::from_secs(10))
        .classify(HttpClassifier::new().repeats_all())
        .build()
        .unwrap();
    let client = ServiceBuilder::new()
        .layer(ReplayLayer::new(cap))
        .resilience(policy)
        .layer(LookLayer::new())
        .service(
            Client::builder(TokioExecutor::new())
                .http2_only(http2)
                .build_http(),
        );
    let mut request = Request::post(format!("http://{address}/"))
        .body(body)
        .unwrap();
    let headers = request.headers_mut();
    headers.insert(header::TRAILER, HeaderValue::from_static("etag"));
    let (answer, report) = CallReport::capture(client.oneshot(request)).await;
    let answer = answer.unwrap();
    let status = answer.status();
    if status != StatusCode::OK {
        let seen = answer.extensions().get::<ErrorBody>().unwrap();
        assert_eq!(*seen, ErrorBody::complete("not now"));
        let body = answer.into_body().collect().await.unwrap();
        assert_eq!(body.to_bytes(), "not now");
    } else {
        assert!(answer.extensions().get::<ErrorBody>().is_none());
        let body = answer.into_body().collect().await.unwrap();
        assert_eq!(body.to_bytes(), "done");
    }
    serving.abort();
    let whole = server.whole.lock().unwrap().clone();
    (status, report.unwrap(), whole)
}

fn assert_whole(whole: &[Whole], times: usize) {
    assert_eq!(whole.len(), times);
    for (bytes, trailers) in whole {
        assert_eq!(bytes, "abc");
        let trailer = trailers.as_ref().and_then(|all| all.get(header::ETAG));
        assert_eq!(trailer, Some(&HeaderValue::from_static("checksum")));
    }
}

#[tokio::test]
async fn every_attempt_sends_the_whole_body_and_its_trailers() {
    for http2 in [false, true] {
        let script = [Step::ReadAll, Step::ReadAll];
        let (status, report, whole) = send(http2, &script, 1024).await;
        assert_eq!((status, report.attempts()), (StatusCode::OK, 3));
        assert_whole(&whole, 3);
    }
}

#[tokio::test]
async fn a_server_that_answers_before_it_has_read_all_gets_all_at_the_next_attempt() {
    for http2 in [false, true] {
        for step in [Step::Early, Step::ReadOne] {
            let (status, report, whole) = send(http2, &[step, step], 1024).await;
            assert_eq!((status, report.attempts()), (StatusCode::OK, 3), "{step:?}");
            assert_whole(&whole, 1);
        }
    }
}

#[tokio::test]
async fn over_the_cap_the_only_attempt_sends_all_and_its_answer_stands() {
    for http2 in [false, true] {
        let (status, report, whole) = send(http2, &[Step::ReadAll], 2).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(report.attempts(), 1);
        assert_eq!(report.stopped(), Some(Stopped::NotReplayable));
        assert_whole(&whole, 1);
    }
}
