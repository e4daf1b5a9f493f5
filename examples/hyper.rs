//! hyper-util's client behind a policy, in front of a shop that has a bad day.
//!
//! `cargo run --features hyper --example hyper`

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use steadfast::http::{HttpClassifier, WatchBodyLayer, WatchedBody};
use steadfast::{Backoff, BreakerConfig, CallReport, Error, Policy, ServiceBuilderExt};
use tokio::time::sleep;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt};

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let shop = Shop::open().await?;

    // Built once, and cloned with the client.
    let policy = Policy::builder("shop")
        .deadline(Duration::from_secs(2))
        .attempt_timeout(Duration::from_millis(500))
        .backoff(Backoff::full_jitter(
            Duration::from_millis(20),
            Duration::from_secs(1),
        ))
        .breaker(BreakerConfig::consecutive(5).open_time(Duration::from_millis(500)))
        .classify(HttpClassifier::new())
        .build()?;

    // Connecting has a limit of its own: what never connected can be tried
    // again, whatever it is. And a connection must not lie idle for as long as
    // the server keeps it, or a request may meet its end.
    let mut connector = HttpConnector::new();
    connector.set_connect_timeout(Some(Duration::from_millis(200)));
    let client: Client<_, Full<Bytes>> = Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(Duration::from_secs(10))
        .build(connector);

    let client = ServiceBuilder::new()
        .resilience(policy)
        .layer(WatchBodyLayer::new().idle(Duration::from_secs(5)))
        .service(client);
    let call = |method| call(client.clone(), method, shop.address);

    println!("All is well:");
    call(Method::GET).await;
    call(Method::POST).await;

    println!("\nOne answer is a 500. A GET is sent again; a POST may have been worked on:");
    shop.fails(1);
    call(Method::GET).await;
    shop.fails(1);
    call(Method::POST).await;

    println!("\nThe shop is down. After five failures nobody asks any more:");
    shop.fails(u32::MAX);
    for _ in 0..4 {
        call(Method::GET).await;
    }

    println!("\nIt is back, and is asked as soon as the breaker lets a probe through:");
    shop.fails(0);
    sleep(Duration::from_millis(700)).await;
    call(Method::GET).await;
    call(Method::POST).await;

    println!("\n{} requests reached the shop", shop.seen());
    Ok(())
}

/// Calls, reads the answer, and says how it went.
async fn call<S, B>(client: S, method: Method, shop: SocketAddr)
where
    S: Service<Request<Full<Bytes>>, Response = Response<WatchedBody<B>>, Error = Error>,
    WatchedBody<B>: http_body::Body<Error = BoxError>,
{
    let name = method.to_string();
    let request = Request::builder()
        .method(method)
        .uri(format!("http://{shop}/teapots"))
        .body(Full::default())
        .expect("a valid request");
    let (answer, report) = CallReport::capture(client.oneshot(request)).await;
    let attempts = report.map_or(0, |report| report.attempts());
    let answer = match answer {
        Err(error) => return println!("  {name}: {error}"),
        Ok(answer) => answer,
    };
    let status = answer.status();
    let stopped = report.and_then(|report| report.stopped());
    match answer.into_body().collect().await {
        Err(error) => println!("  {name}: {status}, then {error}"),
        Ok(_) => match stopped {
            None => println!("  {name}: {status}, attempts: {attempts}"),
            Some(why) => println!("  {name}: {status}, attempts: {attempts} ({why})"),
        },
    }
}

/// A server that answers so many requests with a 500.
struct Shop {
    address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    failing: AtomicU32,
    seen: AtomicU32,
}

impl Shop {
    async fn open() -> Result<Self, BoxError> {
        let state = Arc::new(State::default());
        let served = state.clone();
        let handler = move || async move {
            served.seen.fetch_add(1, Ordering::Relaxed);
            let one_less = |left: u32| left.checked_sub(1);
            let failing = &served.failing;
            match failing.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less) {
                Ok(_) => StatusCode::INTERNAL_SERVER_ERROR,
                Err(_) => StatusCode::OK,
            }
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let app = axum::Router::new().fallback(handler);
        tokio::spawn(async move { axum::serve(listener, app).await });
        Ok(Self { address, state })
    }

    fn fails(&self, times: u32) {
        self.state.failing.store(times, Ordering::Relaxed);
    }

    fn seen(&self) -> u32 {
        self.state.seen.load(Ordering::Relaxed)
    }
}
