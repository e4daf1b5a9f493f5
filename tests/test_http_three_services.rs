//! Three services in a row, each in a runtime of its own and with a stack of
//! four attempts, over sockets: nothing but headers tells the outer ones that
//! the inner one has tried all there is to try.

#![cfg(all(feature = "axum", feature = "hyper"))]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on ends with a panic"
)]

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{Request, StatusCode};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use steadfast::http::{HttpClassifier, InboundDeadlineLayer};
use steadfast::{Backoff, Error, Policy, ServiceBuilderExt};
use tokio::net::TcpListener;
use tower::{Service, ServiceBuilder, ServiceExt, service_fn};

/// What a service makes of what the one below it came to.
#[derive(Clone, Copy, Debug)]
enum Handler {
    /// Passes the answer on, and the error as a problem.
    PassesOn,
    /// Has words of its own for both, as most handlers do.
    SaysItself,
}

/// Serves in a thread and a runtime of its own, for the life of the process.
fn serve<F, Fut>(router: F) -> SocketAddr
where
    F: FnOnce() -> Fut + Send + 'static,
    Fut: Future<Output = Router>,
{
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
            tell.send(listener.local_addr().unwrap()).unwrap();
            axum::serve(listener, router().await).await.unwrap();
        });
    });
    told.recv().unwrap()
}

/// The service at the bottom: fails, and counts.
fn bottom(status: StatusCode, sends: &Arc<AtomicUsize>) -> SocketAddr {
    let sends = Arc::clone(sends);
    serve(move || async move {
        Router::new().fallback(move || {
            sends.fetch_add(1, Ordering::Relaxed);
            async move { status }
        })
    })
}

fn policy(name: &'static str) -> Policy<HttpClassifier> {
    Policy::builder(name)
        .max_attempts(4)
        .backoff(Backoff::fixed(Duration::from_millis(1)))
        .no_retry_budget()
        .no_breaker()
        .classify(HttpClassifier::new())
        .build()
        .unwrap()
}

/// A client of the service at `below`, with a stack.
fn client(
    name: &'static str,
    below: SocketAddr,
) -> impl Service<
    Request<()>,
    Response = http::Response<hyper::body::Incoming>,
    Error = Error,
    Future: Send,
> + Clone
+ Send
+ Sync
+ 'static {
    let client = Client::builder(TokioExecutor::new()).build_http::<Body>();
    ServiceBuilder::new()
        .resilience(policy(name))
        .service(service_fn(move |_: Request<()>| {
            let request = Request::get(format!("http://{below}/")).body(Body::empty());
            client.request(request.unwrap())
        }))
}

/// A service whose handler asks the one below.
fn service(name: &'static str, below: SocketAddr, handler: Handler) -> SocketAddr {
    serve(move || async move {
        let client = client(name, below);
        let answer = move || {
            let client = client.clone();
            async move {
                let answer: Response = match (client.oneshot(Request::new(())).await, handler) {
                    (Ok(answer), Handler::PassesOn) => answer.map(Body::new),
                    (Err(error), Handler::PassesOn) => error.into_response(),
                    (Ok(answer), Handler::SaysItself) if answer.status().is_success() => {
                        answer.map(Body::new)
                    }
                    (_, Handler::SaysItself) => StatusCode::BAD_GATEWAY.into_response(),
                };
                answer
            }
        };
        Router::new()
            .fallback(answer)
            .layer(InboundDeadlineLayer::capped(Duration::from_secs(20)))
    })
}

async fn sends_at_the_bottom(status: StatusCode, handler: Handler) -> usize {
    let sends = Arc::new(AtomicUsize::new(0));
    let bottom = bottom(status, &sends);
    let third = service("bottom", bottom, handler);
    let second = service("third", third, handler);
    let first = service("second", second, handler);

    let client = Client::builder(TokioExecutor::new()).build_http::<Body>();
    let request = Request::get(format!("http://{first}/")).body(Body::empty());
    let answer = client.request(request.unwrap()).await.unwrap();
    assert!(answer.status().is_server_error(), "{}", answer.status());
    assert_eq!(answer.headers()["x-should-retry"], "false");
    sends.load(Ordering::Relaxed)
}

#[tokio::test]
async fn three_services_in_a_row_send_four_requests_and_not_sixty_four() {
    for handler in [Handler::PassesOn, Handler::SaysItself] {
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        assert_eq!(sends_at_the_bottom(status, handler).await, 4, "{handler:?}");
    }
}

#[tokio::test]
async fn a_service_that_asks_nobody_again_leaves_the_retries_to_its_caller() {
    // Nobody in between to say stop: the caller's own four attempts.
    let sends = Arc::new(AtomicUsize::new(0));
    let bottom = bottom(StatusCode::BAD_GATEWAY, &sends);
    let answer = client("bottom", bottom).oneshot(Request::new(())).await;
    assert_eq!(answer.unwrap().status(), StatusCode::BAD_GATEWAY);
    assert_eq!(sends.load(Ordering::Relaxed), 4);
}
