//! A client through a gateway: a server of axum's that calls its upstream
//! through a stack. The client has a stack as well, which adds no sends.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::response::IntoResponse;
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use steadfast::http::{HttpClassifier, InboundDeadlineLayer, WatchBodyLayer, WatchedBody};
use steadfast::{Breaker, CallReport, Error, Policy, ServiceBuilderExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tower::util::BoxCloneSyncService;
use tower::{ServiceBuilder, ServiceExt};

use crate::hyper_util::client;
use crate::matrix::{Cell, Column, End, LONG, Seen, Settings};
use crate::server::{Act, Door, Form, Server};

type Stack<B> = BoxCloneSyncService<Request<Full<Bytes>>, Response<B>, Error>;

struct Gateway {
    client: Stack<Incoming>,
    uri: String,
    upstream: Upstream,
    _served: JoinSet<()>,
}

/// What the handler works with.
#[derive(Clone)]
struct Upstream {
    client: Stack<WatchedBody<Incoming>>,
    breaker: Breaker,
    uri: String,
    /// How its last call went.
    report: Arc<Mutex<Option<CallReport>>>,
}

/// Passes on the upstream's answer, or tells why there is none.
async fn handle(State(upstream): State<Upstream>, method: Method) -> axum::response::Response {
    let request = Request::builder().method(method).uri(&upstream.uri);
    let request = request.body(Full::from("")).unwrap();
    let call = upstream.client.oneshot(request);
    let (answer, report) = CallReport::capture(call).await;
    *upstream.report.lock().unwrap() = report;
    match answer {
        Err(error) => error.into_response(),
        Ok(answer) => answer.map(Body::new),
    }
}

impl Column for Gateway {
    const FORM: Form = Form::Http1;

    async fn connect(server: &Server, settings: Settings) -> Self {
        let policy = settings.policy(HttpClassifier::new());
        let upstream = Upstream {
            breaker: policy.breaker().unwrap().clone(),
            client: BoxCloneSyncService::new(
                ServiceBuilder::new()
                    .resilience(policy)
                    .layer(WatchBodyLayer::new().idle(settings.idle))
                    .service(client(false, settings.connect_timeout, None)),
            ),
            uri: format!("http://{}/", server.address),
            report: Arc::default(),
        };
        let app = Router::new()
            .fallback(handle)
            .layer(InboundDeadlineLayer::capped(LONG))
            .with_state(upstream.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let uri = format!("http://{}/", listener.local_addr().unwrap());
        let mut served = JoinSet::new();
        served.spawn(async move { axum::serve(listener, app).await.unwrap() });

        let policy = Policy::builder("gateway").classify(HttpClassifier::new());
        let policy = policy.max_attempts(3).no_breaker().build().unwrap();
        let outer = ServiceBuilder::new().resilience(policy);
        Self {
            client: BoxCloneSyncService::new(outer.service(client(false, LONG, None))),
            uri,
            upstream,
            _served: served,
        }
    }

    fn breaker(&self) -> &Breaker {
        &self.upstream.breaker
    }

    async fn call(&self, method: Method) -> Seen {
        let request = Request::builder().method(method).uri(&self.uri);
        let request = request.body(Full::from("")).unwrap();
        let call = self.client.clone().oneshot(request);
        let (answer, outer) = CallReport::capture(call).await;
        let answer = answer.unwrap();
        assert_eq!(outer.unwrap().attempts(), 1, "the gateway owns the retries");

        let report = self.upstream.report.lock().unwrap().take();
        let seen = Seen::answer(answer.status().as_u16(), report);
        let (head, body) = answer.into_parts();
        let body = match body.collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) => return seen.broken(&error),
        };
        if head
            .headers
            .get("content-type")
            .is_none_or(|kind| kind != "application/problem+json")
        {
            return seen;
        }
        let problem: serde_json::Value = serde_json::from_slice(&body).unwrap();
        let code = String::from(problem["code"].as_str().unwrap());
        let end = End::Problem(head.status.as_u16(), code.leak());
        Seen { end, ..seen }
    }
}

const FAILED: End = End::Problem(503, "dependency_failed");

#[tokio::test]
async fn an_upstream_that_refuses_connections_is_a_503() {
    let cell = Cell::behind(Door::Shut).because("connect failed");
    cell.ends(FAILED).holds_for::<Gateway>().await;
}

#[tokio::test]
async fn an_upstream_that_does_not_accept_connections_is_a_503() {
    let cell = Cell::behind(Door::Stuck).because("connect failed");
    cell.ends(FAILED).holds_for::<Gateway>().await;
}

#[tokio::test]
async fn an_upstream_that_resets_is_a_503() {
    let cell = Cell::of(Act::Reset).because("connection reset");
    cell.ends(FAILED).holds_for::<Gateway>().await;
}

#[tokio::test]
async fn an_upstream_that_hangs_is_a_504() {
    let cell = Cell::of(Act::Hang).because("attempt timeout");
    let timed_out = End::Problem(504, "attempt_timed_out");
    cell.ends(timed_out).holds_for::<Gateway>().await;
}

/// The gateway has passed on the head by then.
#[tokio::test]
async fn an_upstream_whose_body_stalls_breaks_the_gateways_answer() {
    let cell = Cell::of(Act::Stall).attempts(1, 1);
    cell.ends(End::Broken).holds_for::<Gateway>().await;
}

#[tokio::test]
async fn an_upstream_that_says_when_to_come_back_is_passed_on_and_not_asked_again() {
    let cell = Cell::of(Act::Overload).attempts(2, 2).because(503);
    cell.ends(End::Answer(503)).holds_for::<Gateway>().await;
}

#[tokio::test]
async fn an_upstream_whose_body_breaks_off_breaks_the_gateways_answer() {
    let cell = Cell::of(Act::Break).attempts(1, 1);
    cell.ends(End::Broken).holds_for::<Gateway>().await;
}

#[tokio::test]
async fn an_upstream_that_drains_its_connections_is_a_503() {
    let cell = Cell::of(Act::Drain)
        .on_a_used_connection()
        .because("closed before the answer was complete");
    cell.ends(FAILED).holds_for::<Gateway>().await;
}
