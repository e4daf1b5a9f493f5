//! A generated client of tonic's behind a policy, in front of a shop that has a
//! bad day.
//!
//! `cargo run --features grpc --example grpc`
//!
//! The code under `generated/` is what `tonic-prost-build` makes of
//! `inventory.proto`; with `protox` to read that, no `protoc` is needed.

#[path = "generated/shop.rs"]
#[allow(
    clippy::doc_markdown,
    dead_code,
    unreachable_pub,
    reason = "generated, and not all of it is used"
)]
mod shop;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use shop::inventory_client::InventoryClient;
use shop::inventory_server::{Inventory, InventoryServer};
use shop::{Amount, Item};
use steadfast::grpc::{GrpcClassifier, StatusLayer, judge_trailers};
use steadfast::http::{ReplayBody, ReplayLayer, WatchBodyLayer};
use steadfast::{Backoff, BreakerConfig, CallReport, Policy, ServiceBuilderExt};
use tokio::net::TcpListener;
use tokio::time::sleep;
use tonic::body::Body;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Endpoint, Server};
use tonic::{Request, Response, Status};
use tower::{BoxError, ServiceBuilder};

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let day = Arc::new(Day::default());
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = Server::builder()
        .add_service(InventoryServer::from_arc(day.clone()))
        .serve_with_incoming(TcpIncoming::from(listener));
    tokio::spawn(server);

    // Built once, and cloned with the client. Every gRPC call is a POST: only
    // we can say which methods may be called twice.
    let policy = Policy::builder("inventory")
        .deadline(Duration::from_secs(2))
        .attempt_timeout(Duration::from_millis(500))
        .backoff(Backoff::full_jitter(
            Duration::from_millis(20),
            Duration::from_secs(1),
        ))
        .breaker(BreakerConfig::consecutive(5).open_time(Duration::from_millis(500)))
        .classify(GrpcClassifier::new().idempotent(|path| path == "/shop.Inventory/Stock"))
        .build()?;

    // A lazy channel: a server that is down is then a failed attempt, and not
    // an error before there is a stack.
    let channel = Endpoint::from_shared(format!("http://{address}"))?
        .connect_timeout(Duration::from_millis(200))
        .http2_keep_alive_interval(Duration::from_secs(20))
        .connect_lazy();
    let service = ServiceBuilder::new()
        .layer(StatusLayer::new())
        .layer(ReplayLayer::default())
        .resilience(policy)
        .layer(WatchBodyLayer::new().judge_trailers(judge_trailers))
        .map_request(|request: http::Request<ReplayBody<Body>>| request.map(Body::new))
        .service(channel);
    let mut client = InventoryClient::new(service);
    let teapot = || Item {
        name: String::from("teapot"),
    };

    println!("All is well:");
    tell("stock", CallReport::capture(client.stock(teapot())).await);
    tell(
        "reserve",
        CallReport::capture(client.reserve(teapot())).await,
    );

    println!("\nOne answer is UNAVAILABLE. Stock only reads, and is asked for again;");
    println!("a reservation may have been made:");
    day.turns_away(1, false);
    tell("stock", CallReport::capture(client.stock(teapot())).await);
    day.turns_away(1, false);
    tell(
        "reserve",
        CallReport::capture(client.reserve(teapot())).await,
    );

    println!("\nA server that says when to come back has not begun:");
    day.turns_away(1, true);
    tell(
        "reserve",
        CallReport::capture(client.reserve(teapot())).await,
    );

    println!("\nThe shop is down. After five failures nobody asks any more:");
    day.turns_away(u32::MAX, false);
    for _ in 0..4 {
        tell("stock", CallReport::capture(client.stock(teapot())).await);
    }

    println!("\nIt is back, and is asked as soon as the breaker lets a probe through:");
    day.turns_away(0, false);
    sleep(Duration::from_millis(700)).await;
    tell("stock", CallReport::capture(client.stock(teapot())).await);
    tell(
        "reserve",
        CallReport::capture(client.reserve(teapot())).await,
    );
    Ok(())
}

/// Says how a call went.
fn tell(method: &str, (answer, report): (Result<Response<Amount>, Status>, Option<CallReport>)) {
    let attempts = report.map_or(0, |report| report.attempts());
    let stopped = report.and_then(|report| report.stopped());
    match (answer, stopped) {
        (Ok(amount), _) => {
            let pieces = amount.into_inner().pieces;
            println!("  {method}: {pieces} pieces, attempts: {attempts}");
        }
        (Err(status), Some(why)) => {
            let (code, message) = (status.code(), status.message());
            println!("  {method}: {code:?}: {message}, attempts: {attempts} ({why})");
        }
        (Err(status), None) => println!("  {method}: {status}, attempts: {attempts}"),
    }
}

/// Turns away so many calls.
#[derive(Default)]
struct Day {
    turned_away: AtomicU32,
    /// In milliseconds; 0 says nothing.
    come_back_in: AtomicU32,
}

impl Day {
    fn turns_away(&self, calls: u32, says_when: bool) {
        let milliseconds = if says_when { 50 } else { 0 };
        self.come_back_in.store(milliseconds, Ordering::Relaxed);
        self.turned_away.store(calls, Ordering::Relaxed);
    }

    fn answer(&self) -> Result<Response<Amount>, Status> {
        let one_less = |left: u32| left.checked_sub(1);
        let turned_away = &self.turned_away;
        if turned_away
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less)
            .is_err()
        {
            return Ok(Response::new(Amount { pieces: 12 }));
        }
        let mut status = Status::unavailable("stocktaking");
        match self.come_back_in.load(Ordering::Relaxed) {
            0 => {}
            wait => {
                let metadata = status.metadata_mut();
                metadata.insert("grpc-retry-pushback-ms", wait.into());
            }
        }
        Err(status)
    }
}

#[tonic::async_trait]
impl Inventory for Day {
    async fn stock(&self, _: Request<Item>) -> Result<Response<Amount>, Status> {
        self.answer()
    }

    async fn reserve(&self, _: Request<Item>) -> Result<Response<Amount>, Status> {
        self.answer()
    }
}
