//! hyper-util's client.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::mpsc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, Version};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use steadfast::http::{HttpClassifier, WatchBodyLayer, WatchedBody, judge_error};
use steadfast::{Again, Breaker, CallReport, Error, Health, Policy, ServiceBuilderExt, Work};
use tower::util::BoxCloneSyncService;
use tower::{ServiceBuilder, ServiceExt};

use crate::cells::cells_of;
use crate::h1;
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
    client.http2_only(http2).build(connector)
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

/// As where a load balancer accepts connections for servers that are gone.
#[tokio::test]
async fn a_connection_that_closes_before_it_is_ready_was_sent_nothing() {
    let (ours, theirs) = tokio::io::duplex(1024);
    let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(ours));
    let (mut sender, connection) = handshake.await.unwrap();
    drop(theirs);
    let _ = connection.await;
    let request = Request::get("http://upstream/").body(Full::<Bytes>::from(""));
    let unready = sender.ready().await.unwrap_err();
    let unsent = sender.send_request(request.unwrap()).await.unwrap_err();
    assert!(unready.is_closed() && unsent.is_canceled());
    for error in [unready, unsent] {
        let verdict = judge_error(&error);
        assert_eq!(verdict.work(), Work::NotDone, "{error:?}");
        assert_eq!(verdict.health(), Health::Failing, "{error:?}");
    }
}

/// A connection that the server closed while it was idle: the client replaces
/// it below the stack, or, if told not to, the stack does. Either way nothing
/// is sent twice, so a POST goes through; but the stack takes the closed
/// connection for a failed attempt.
#[tokio::test]
async fn a_connection_that_closed_while_idle_is_replaced_by_the_client_or_the_stack() {
    for (replaces, attempts) in [(true, 1), (false, 2)] {
        let (address, close) = closes_once_while_idle();
        let client: Client<_, Full<Bytes>> = Client::builder(TokioExecutor::new())
            .retry_canceled_requests(replaces)
            .build_http();
        let policy = Policy::builder("upstream").classify(HttpClassifier::new());
        let policy = policy.build().unwrap();
        let client = ServiceBuilder::new()
            .resilience(policy.clone())
            .service(client);
        let call = |method| {
            let request = Request::builder().method(method);
            let request = request.uri(format!("http://{address}/"));
            let request = request.body(Full::from("")).unwrap();
            CallReport::capture(client.clone().oneshot(request))
        };

        let (answer, _) = call(Method::GET).await;
        answer.unwrap().into_body().collect().await.unwrap();
        // The runtime hears of the end, and the connection's task has not run
        // yet when the request is handed to it.
        close();
        tokio::task::yield_now().await;
        let (answer, report) = call(Method::POST).await;
        assert_eq!(answer.unwrap().status(), 200);
        assert_eq!(report.unwrap().attempts(), attempts);
        let failures = policy.breaker().unwrap().snapshot().failures();
        assert_eq!(failures, u64::from(attempts - 1));
    }
}

/// Serves one connection after another, one request each, from a thread of its
/// own, and closes the first when it is told to.
fn closes_once_while_idle() -> (SocketAddr, impl Fn()) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (close, closes) = mpsc::channel();
    let (tell, closed) = mpsc::channel();
    std::thread::spawn(move || {
        let first = serve_one(&listener);
        let _ = closes.recv();
        drop(first);
        tell.send(()).unwrap();
        let _second = serve_one(&listener);
        let _ = closes.recv();
    });
    let close = move || {
        close.send(()).unwrap();
        closed.recv().unwrap();
    };
    (address, close)
}

fn serve_one(listener: &std::net::TcpListener) -> std::net::TcpStream {
    let (mut stream, _) = listener.accept().unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    stream.write_all(h1::SERVED).unwrap();
    stream
}
