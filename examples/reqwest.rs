//! reqwest's client behind a policy, in front of a shop that loses answers and
//! forgets to end them.
//!
//! `cargo run --features reqwest --example reqwest`

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use http::Response;
use reqwest::{Body, Client, Request};
use steadfast::http::{HttpClassifier, WatchBodyLayer, WatchedBody};
use steadfast::{Backoff, BreakerConfig, CallReport, Error, Policy, ServiceBuilderExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
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
        .breaker(BreakerConfig::consecutive(4).open_time(Duration::from_millis(500)))
        .classify(HttpClassifier::new())
        .build()?;

    // Retries and timeouts are the stack's affair; connecting has a limit of
    // its own, since what never connected can be tried again, whatever it is.
    let client = Client::builder()
        .connect_timeout(Duration::from_millis(200))
        .retry(reqwest::retry::never())
        .build()?;

    // With `.resilience(policy).service(client)` it would do; what stands in
    // between lets the breaker hear how the body of an answer ends.
    let resilient = ServiceBuilder::new()
        .resilience(policy)
        .map_response(|answer: Response<WatchedBody<Body>>| {
            reqwest::Response::from(answer.map(Body::wrap))
        })
        .layer(WatchBodyLayer::new().idle(Duration::from_millis(200)))
        .map_response(Response::<Body>::from)
        .service(client.clone());
    let call = |request| call(resilient.clone(), request);

    let url = format!("http://{}/teapots", shop.address);
    let get = || client.get(&url).build();
    let post = || client.post(&url);

    println!("All is well:");
    call(get()?).await;

    println!("\nAn answer is lost. A GET is sent again; a POST may have been worked on,");
    println!("unless it carries a key by which the shop knows it again:");
    shop.loses(1);
    call(get()?).await;
    shop.loses(1);
    call(post().build()?).await;
    shop.loses(1);
    call(post().header("idempotency-key", "order-17").build()?).await;

    println!("\nAnswers begin and never end. After four nobody asks any more:");
    shop.stalls();
    for _ in 0..6 {
        call(get()?).await;
    }

    println!("\nThey end again. The breaker lets a probe through and closes:");
    shop.loses(0);
    sleep(Duration::from_millis(700)).await;
    call(get()?).await;
    call(get()?).await;
    Ok(())
}

/// Calls, reads the answer, and says how it went.
async fn call<S>(client: S, request: Request)
where
    S: Service<Request, Response = reqwest::Response, Error = Error>,
{
    let name = request.method().to_string();
    let (answer, report) = CallReport::capture(client.oneshot(request)).await;
    let attempts = report.map_or(0, |report| report.attempts());
    let answer = match answer {
        Err(error) => return println!("  {name}: {error}"),
        Ok(answer) => answer,
    };
    let status = answer.status();
    match answer.text().await {
        Ok(text) => println!("  {name}: {status}, attempts: {attempts}: {text}"),
        Err(_) => println!("  {name}: {status}, attempts: {attempts}, but its body was cut off"),
    }
}

/// A server that loses so many answers, or, below zero, does not end them.
struct Shop {
    address: SocketAddr,
    lost: Arc<AtomicI32>,
}

impl Shop {
    async fn open() -> Result<Self, BoxError> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let lost = Arc::new(AtomicI32::new(0));
        let shared = lost.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, shared.clone()));
            }
        });
        Ok(Self { address, lost })
    }

    fn loses(&self, answers: i32) {
        self.lost.store(answers, Ordering::Relaxed);
    }

    fn stalls(&self) {
        self.loses(-1);
    }
}

/// Serves requests without a body, as long as there are any.
async fn serve(mut stream: TcpStream, lost: Arc<AtomicI32>) -> std::io::Result<()> {
    let mut head = Vec::new();
    loop {
        while !head.ends_with(b"\r\n\r\n") {
            if stream.read_buf(&mut head).await? == 0 {
                return Ok(());
            }
        }
        head.clear();
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\n12 of it";
        match lost.load(Ordering::Relaxed) {
            0 => stream.write_all(answer).await?,
            1.. => {
                lost.fetch_sub(1, Ordering::Relaxed);
                return Ok(());
            }
            _ => stream.write_all(&answer[..answer.len() - 6]).await?,
        }
    }
}
