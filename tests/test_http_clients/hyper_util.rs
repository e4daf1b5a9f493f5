//! hyper-util's client.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, Version};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use steadfast::http::{HttpClassifier, WatchBodyLayer, WatchedBody, judge_error};
use steadfast::{Again, Breaker, CallReport, Error, Health, ServiceBuilderExt};
use tower::util::BoxCloneSyncService;
use tower::{ServiceBuilder, ServiceExt};

use crate::cells::cells_of;
use crate::matrix::{Column, LONG, Seen, Settings};
use crate::server::{Form, Server};

type Stack = BoxCloneSyncService<Request<Full<Bytes>>, Response<WatchedBody<Incoming>>, Error>;

/// Over HTTP/1, or over HTTP/2.
struct HyperUtil<const HTTP2: bool> {
    client: Stack,
    breaker: Breaker,
    uri: String,
}

type Http1 = HyperUtil<false>;
type Http2 = HyperUtil<true>;

/// The client below the stack.
pub(crate) fn client(
    http2: bool,
    connect_timeout: Duration,
    keep_alive: Option<Duration>,
) -> Client<HttpConnector, Full<Bytes>> {
    let mut connector = HttpConnector::new();
    connector.set_connect_timeout(Some(connect_timeout));
    let mut client = Client::builder(TokioExecutor::new());
    if let Some(interval) = keep_alive {
        client
            .timer(TokioTimer::new())
            .http2_keep_alive_interval(interval)
            .http2_keep_alive_timeout(interval);
    }
    client
        .http2_only(http2)
        .retry_canceled_requests(false)
        .build(connector)
}

impl<const HTTP2: bool> Column for HyperUtil<HTTP2> {
    const FORM: Form = if HTTP2 { Form::Http2 } else { Form::Http1 };

    async fn connect(server: &Server, settings: Settings) -> Self {
        let policy = settings.policy(HttpClassifier::new());
        let breaker = policy.breaker().unwrap().clone();
        let stack = ServiceBuilder::new()
            .resilience(policy)
            .layer(WatchBodyLayer::new().idle(settings.idle))
            .service(client(HTTP2, settings.connect_timeout, settings.keep_alive));
        Self {
            client: BoxCloneSyncService::new(stack),
            breaker,
            uri: format!("http://{}/", server.address),
        }
    }

    fn breaker(&self) -> &Breaker {
        &self.breaker
    }

    async fn call(&self, method: Method) -> Seen {
        let body = if method == Method::POST { "order" } else { "" };
        let request = Request::builder().method(method).uri(&self.uri);
        let request = request.body(Full::from(body)).unwrap();
        let call = self.client.clone().oneshot(request);
        let (answer, report) = CallReport::capture(call).await;
        match answer {
            Err(error) => Seen::error(&error, report),
            Ok(answer) => {
                let seen = Seen::answer(answer.status().as_u16(), report);
                match answer.into_body().collect().await {
                    Ok(_) => seen,
                    Err(error) => seen.broken(&*error),
                }
            }
        }
    }
}

cells_of!(Http1, Http2);

#[tokio::test]
async fn a_request_that_cannot_be_sent_is_our_own_mistake() {
    let unsendable = [
        Request::get("/relative"),
        Request::connect("http://127.0.0.1:1").version(Version::HTTP_10),
        Request::get("http://127.0.0.1:1").version(Version::HTTP_3),
    ];
    for request in unsendable {
        let request = request.body(Full::from("")).unwrap();
        let error = client(false, LONG, None)
            .oneshot(request)
            .await
            .unwrap_err();
        let verdict = judge_error(&error);
        assert_eq!(verdict.again(), Again::Never, "{error:?}");
        assert_eq!(verdict.health(), Health::Neutral, "{error:?}");
    }
}
