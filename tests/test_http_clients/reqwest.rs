//! reqwest's client.

use std::time::Duration;

use http::{Method, Response};
use reqwest::{Body, Client, Request};
use steadfast::http::{HttpClassifier, WatchBodyLayer, WatchedBody};
use steadfast::{Breaker, CallReport, Error, ServiceBuilderExt};
use tower::util::BoxCloneSyncService;
use tower::{ServiceBuilder, ServiceExt};

use crate::cells::cells_of;
use crate::matrix::{Cell, Column, Seen, Settings};
use crate::server::{Act, Form, Server};

/// Over HTTP/1, or over HTTP/2; with its own retries, or without.
struct Reqwest<const HTTP2: bool, const RETRIES: bool> {
    client: BoxCloneSyncService<Request, reqwest::Response, Error>,
    breaker: Breaker,
    url: reqwest::Url,
}

type Http1 = Reqwest<false, false>;
type Http2 = Reqwest<true, false>;

fn client(http2: bool, retries: bool, settings: Settings) -> Client {
    let mut client = Client::builder()
        .no_proxy()
        .connect_timeout(settings.connect_timeout);
    if http2 {
        client = client.http2_prior_knowledge();
    }
    if let Some(interval) = settings.keep_alive {
        client = client
            .http2_keep_alive_interval(interval)
            .http2_keep_alive_timeout(interval);
    }
    if !retries {
        client = client.retry(reqwest::retry::never());
    }
    client.build().unwrap()
}

impl<const HTTP2: bool, const RETRIES: bool> Column for Reqwest<HTTP2, RETRIES> {
    const FORM: Form = if HTTP2 { Form::Http2 } else { Form::Http1 };

    async fn connect(server: &Server, settings: Settings) -> Self {
        let policy = settings.policy(HttpClassifier::new());
        let breaker = policy.breaker().unwrap().clone();
        let stack = ServiceBuilder::new()
            .resilience(policy)
            .map_response(|answer: Response<WatchedBody<Body>>| {
                reqwest::Response::from(answer.map(Body::wrap))
            })
            .layer(WatchBodyLayer::new().idle(settings.idle))
            .map_response(Response::<Body>::from)
            .service(client(HTTP2, RETRIES, settings));
        Self {
            client: BoxCloneSyncService::new(stack),
            breaker,
            url: format!("http://{}/", server.address).parse().unwrap(),
        }
    }

    fn breaker(&self) -> &Breaker {
        &self.breaker
    }

    async fn call(&self, method: Method) -> Seen {
        let is_post = method == Method::POST;
        let mut request = Request::new(method, self.url.clone());
        if is_post {
            *request.body_mut() = Some("order".into());
        }
        let call = self.client.clone().oneshot(request);
        let (answer, report) = CallReport::capture(call).await;
        match answer {
            Err(error) => Seen::error(&error, report),
            Ok(answer) => {
                let seen = Seen::answer(answer.status().as_u16(), report);
                match answer.bytes().await {
                    Ok(_) => seen,
                    Err(error) => seen.broken(&error),
                }
            }
        }
    }
}

cells_of!(Http1, Http2);

/// Why the client's own retries are switched off: of each attempt it makes up
/// to three, of which the breaker hears as one.
#[tokio::test]
async fn retries_of_its_own_multiply_with_those_of_the_stack() {
    let refused = Cell::of(Act::Refuse)
        .attempts(2, 2)
        .sends_per_attempt(3)
        .because("stream refused");
    let drained = Cell::of(Act::Drain)
        .attempts(2, 2)
        .sends_per_attempt(3)
        .because("connection is draining")
        .no_evidence();
    tokio::join!(
        refused.holds_for::<Reqwest<true, true>>(),
        drained.holds_for::<Reqwest<true, true>>(),
    );
}

/// Its total timeout is one more limit of the attempt: no answer, and nobody
/// knows what was done.
#[tokio::test]
async fn a_timeout_of_its_own_is_judged_as_one() {
    let server = Server::start(Form::Http1, crate::server::Door::Open)
        .await
        .unwrap();
    server.act(Act::Hang);
    let client = Client::builder()
        .no_proxy()
        .timeout(Duration::from_millis(50))
        .build()
        .unwrap();
    let url = format!("http://{}/", server.address);
    let error = client.get(url).send().await.unwrap_err();
    let verdict = steadfast::http::judge_error(&error);
    assert_eq!(verdict.reason(), "timed out".into());
    assert_eq!(verdict.work(), steadfast::Work::Unknown);
}
