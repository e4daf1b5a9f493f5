//! A generated client, its stack, and a tonic server over loopback.

#![cfg(feature = "grpc")]
#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps in vain should fail"
)]

#[path = "support/inventory.rs"]
mod inventory;

use std::error::Error as _;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use h2::Reason;
use http::{HeaderMap, HeaderValue, Response};
use inventory::inventory_client::InventoryClient;
use inventory::inventory_server::{Inventory, InventoryServer};
use inventory::{StockReply, StockRequest};
use steadfast::grpc::{GrpcClassifier, Idempotent, StatusLayer, judge_trailers};
use steadfast::http::{ReplayBody, ReplayLayer, ShedLayer, WatchBodyLayer};
use steadfast::{
    Backoff, BreakerConfig, BreakerState, Error, Policy, PolicyBuilder, ServiceBuilderExt,
};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tonic::body::Body;
use tonic::codegen::{StdError, async_trait, tokio_stream};
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Code, Status};
use tonic_types::StatusExt;
use tower::ServiceBuilder;

// ---- the server ----------------------------------------------------------------

/// What a call does is said by its item.
#[derive(Clone, Default)]
struct Shop {
    gets: Arc<AtomicU32>,
    puts: Arc<AtomicU32>,
}

impl Shop {
    fn gets(&self) -> u32 {
        self.gets.load(Ordering::Relaxed)
    }

    fn puts(&self) -> u32 {
        self.puts.load(Ordering::Relaxed)
    }
}

async fn act(item: &str, nth: u32) -> Result<tonic::Response<StockReply>, Status> {
    let ok = Ok(tonic::Response::new(StockReply { count: nth }));
    match item {
        "ok" => ok,
        "unavailable" => Err(Status::unavailable("shop is closed")),
        "missing" => Err(Status::not_found("no such item")),
        "busy twice" if nth <= 2 => {
            let mut status = Status::unavailable("shop is busy");
            let metadata = status.metadata_mut();
            metadata.insert("grpc-retry-pushback-ms", "1".parse().unwrap());
            Err(status)
        }
        "busy twice" => ok,
        "hang" => std::future::pending().await,
        other => Err(Status::invalid_argument(other)),
    }
}

#[async_trait]
impl Inventory for Shop {
    async fn get(
        &self,
        request: tonic::Request<StockRequest>,
    ) -> Result<tonic::Response<StockReply>, Status> {
        let nth = self.gets.fetch_add(1, Ordering::Relaxed) + 1;
        act(&request.get_ref().item, nth).await
    }

    async fn put(
        &self,
        request: tonic::Request<StockRequest>,
    ) -> Result<tonic::Response<StockReply>, Status> {
        let nth = self.puts.fetch_add(1, Ordering::Relaxed) + 1;
        act(&request.get_ref().item, nth).await
    }

    type WatchStream = tokio_stream::Iter<std::vec::IntoIter<Result<StockReply, Status>>>;

    /// One answer, and then the end that the item says.
    async fn watch(
        &self,
        request: tonic::Request<StockRequest>,
    ) -> Result<tonic::Response<Self::WatchStream>, Status> {
        let mut parts = vec![Ok(StockReply { count: 1 })];
        if request.get_ref().item == "breaks" {
            parts.push(Err(Status::unavailable("shop has closed")));
        }
        Ok(tonic::Response::new(tokio_stream::iter(parts)))
    }
}

/// Ends the server with the test.
struct Serving {
    at: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(shop: impl Inventory) -> Serving {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let task = tokio::spawn(async move {
        let server = Server::builder().add_service(InventoryServer::new(shop));
        let incoming = TcpIncoming::from(listener);
        server.serve_with_incoming(incoming).await.unwrap();
    });
    Serving { at, task }
}

// ---- the client ----------------------------------------------------------------

fn channel(at: SocketAddr) -> Channel {
    Endpoint::from_shared(format!("http://{at}"))
        .unwrap()
        .connect_lazy()
}

fn bare() -> PolicyBuilder {
    Policy::builder("inventory")
        .no_deadline()
        .no_attempt_timeout()
        .max_attempts(3)
        .backoff(Backoff::none())
        .no_retry_budget()
        .no_breaker()
}

/// The whole stack. Only `Get` may be sent twice.
macro_rules! client {
    ($policy:expr, $at:expr) => {
        InventoryClient::new(
            ServiceBuilder::new()
                .layer(StatusLayer::new())
                .layer(ReplayLayer::default())
                .resilience($policy)
                .layer(WatchBodyLayer::new().judge_trailers(judge_trailers))
                .map_request(|request: http::Request<ReplayBody<Body>>| request.map(Body::new))
                .service(channel($at)),
        )
    };
}

fn grpc(policy: PolicyBuilder) -> Policy<GrpcClassifier<impl Fn(&str) -> bool + use<>>> {
    policy
        .classify(GrpcClassifier::new().idempotent(|path| path == "/shop.Inventory/Get"))
        .build()
        .unwrap()
}

fn item(item: &str) -> StockRequest {
    StockRequest { item: item.into() }
}

/// Our own error behind a status.
fn ours(status: &Status) -> &Error {
    status.source().unwrap().downcast_ref().unwrap()
}

fn pushback(status: &Status) -> Option<&str> {
    let value = status.metadata().get("grpc-retry-pushback-ms")?;
    Some(value.to_str().unwrap())
}

#[tokio::test]
async fn a_call_goes_through_the_stack() {
    let shop = Shop::default();
    let serving = serve(shop.clone()).await;
    let mut client = client!(grpc(bare()), serving.at);
    assert_eq!(client.get(item("ok")).await.unwrap().get_ref().count, 1);
    let status = client.get(item("missing")).await.unwrap_err();
    assert_eq!(
        (status.code(), status.message()),
        (Code::NotFound, "no such item")
    );
    assert_eq!(shop.gets(), 2);
}

#[tokio::test]
async fn what_may_be_repeated_is_and_the_last_answer_stands() {
    let shop = Shop::default();
    let serving = serve(shop.clone()).await;
    let mut client = client!(grpc(bare()), serving.at);
    let status = client.get(item("unavailable")).await.unwrap_err();
    assert_eq!(
        (status.code(), status.message()),
        (Code::Unavailable, "shop is closed")
    );
    assert_eq!(pushback(&status), Some("-1"), "we gave up, and say so");
    assert_eq!(shop.gets(), 3);

    let status = client.put(item("unavailable")).await.unwrap_err();
    assert_eq!(
        (status.code(), status.message()),
        (Code::Unavailable, "shop is closed")
    );
    assert_eq!(shop.puts(), 1, "nobody knows whether it was done");

    let mut request = tonic::Request::new(item("unavailable"));
    request.extensions_mut().insert(Idempotent(true));
    client.put(request).await.unwrap_err();
    assert_eq!(shop.puts(), 4);
}

#[tokio::test]
async fn work_that_was_not_begun_is_sent_again_with_the_whole_body() {
    let shop = Shop::default();
    let serving = serve(shop.clone()).await;
    let mut client = client!(grpc(bare()), serving.at);
    let answer = client.put(item("busy twice")).await.unwrap();
    assert_eq!(answer.get_ref().count, 3);
    assert_eq!(shop.puts(), 3);
}

#[tokio::test]
async fn a_refusal_is_unavailable_and_says_when_to_come_back() {
    let shop = Shop::default();
    let serving = serve(shop.clone()).await;
    let breaker = BreakerConfig::consecutive(1)
        .open_time(Duration::from_secs(30))
        .open_jitter(0.0);
    let policy = grpc(bare().max_attempts(1).breaker(breaker));
    let mut client = client!(policy.clone(), serving.at);
    client.get(item("unavailable")).await.unwrap_err();
    let status = client.get(item("ok")).await.unwrap_err();
    assert_eq!(shop.gets(), 1);
    assert_eq!(status.code(), Code::Unavailable);
    assert!(ours(&status).refusal().is_some());
    assert_eq!(pushback(&status), Some("-1"));
    let wait = status
        .get_details_retry_info()
        .unwrap()
        .retry_delay
        .unwrap();
    assert!(wait > Duration::from_secs(25) && wait <= Duration::from_secs(30));

    // What it is for: without the layer, the client knows nothing.
    let mut without = InventoryClient::new(
        ServiceBuilder::new()
            .layer(ReplayLayer::default())
            .resilience(policy)
            .map_request(|request: http::Request<ReplayBody<Body>>| request.map(Body::new))
            .service(channel(serving.at)),
    );
    let status = without.get(item("ok")).await.unwrap_err();
    assert_eq!(status.code(), Code::Unknown);
}

#[tokio::test]
async fn deadlines_attempt_timeouts_and_limits_have_their_codes() {
    let serving = serve(Shop::default()).await;
    let short = Duration::from_millis(50);
    for policy in [
        bare().deadline(short),
        bare().attempt_timeout(short).max_attempts(1),
    ] {
        let mut client = client!(grpc(policy), serving.at);
        let status = client.get(item("hang")).await.unwrap_err();
        assert_eq!(status.code(), Code::DeadlineExceeded);
        assert!(status.message().contains("`inventory`"));
    }
    let limited = grpc(bare().breaker(BreakerConfig::consecutive(5).concurrency_limit(1)));
    let held = limited.breaker().unwrap().admit().unwrap();
    let mut client = client!(limited.clone(), serving.at);
    let status = client.get(item("ok")).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    drop(held);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unavailable_and_any_call_tries_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    drop(listener);
    let mut client = client!(grpc(bare()), at);
    let status = client.put(item("ok")).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    let error = ours(&status);
    assert_eq!(
        error.attempts(),
        3,
        "never sent, so safe to repeat: {error:?}"
    );
    assert!(!status.message().contains(&at.to_string()), "{status}");
}

#[tokio::test]
async fn the_breaker_hears_of_a_status_in_trailers() {
    let serving = serve(Shop::default()).await;
    let policy = grpc(bare().breaker(BreakerConfig::consecutive(1)));
    let mut client = client!(policy.clone(), serving.at);
    let breaker = policy.breaker().unwrap().clone();
    for (what, end, state) in [
        ("ends", None, BreakerState::Closed),
        ("breaks", Some(Code::Unavailable), BreakerState::Open),
    ] {
        let mut stream = client.watch(item(what)).await.unwrap().into_inner();
        assert_eq!(stream.message().await.unwrap().unwrap().count, 1);
        assert_eq!(breaker.state(), BreakerState::Closed);
        let ended = stream.message().await;
        assert_eq!(ended.as_ref().err().map(Status::code), end);
        assert_eq!(breaker.state(), state, "{what}");
    }
}

/// Passes every call on through a stack of its own.
struct Gateway<C> {
    client: C,
}

#[async_trait]
impl<S> Inventory for Gateway<InventoryClient<S>>
where
    S: tonic::client::GrpcService<Body> + Clone + Send + Sync + 'static,
    S::Future: Send,
    S::Error: Into<StdError>,
    S::ResponseBody: http_body::Body<Data = Bytes> + Send + 'static,
    <S::ResponseBody as http_body::Body>::Error: Into<StdError> + Send,
{
    async fn get(
        &self,
        request: tonic::Request<StockRequest>,
    ) -> Result<tonic::Response<StockReply>, Status> {
        self.client.clone().get(request.into_inner()).await
    }

    async fn put(
        &self,
        request: tonic::Request<StockRequest>,
    ) -> Result<tonic::Response<StockReply>, Status> {
        self.client.clone().put(request.into_inner()).await
    }

    type WatchStream = tokio_stream::Empty<Result<StockReply, Status>>;

    async fn watch(
        &self,
        _: tonic::Request<StockRequest>,
    ) -> Result<tonic::Response<Self::WatchStream>, Status> {
        Err(Status::unimplemented("not passed on"))
    }
}

#[tokio::test]
async fn three_servers_in_a_row_send_no_more_than_one_of_them_would() {
    let shop = Shop::default();
    let bottom = serve(shop.clone()).await;
    let client = client!(grpc(bare()), bottom.at);
    let middle = serve(Gateway { client }).await;
    let client = client!(grpc(bare()), middle.at);
    let top = serve(Gateway { client }).await;
    let mut client = client!(grpc(bare()), top.at);
    let status = client.get(item("unavailable")).await.unwrap_err();
    assert_eq!(shop.gets(), 3, "not 27");
    // The bottom's own words, through all of them.
    assert_eq!(
        (status.code(), status.message()),
        (Code::Unavailable, "shop is closed")
    );
}

#[tokio::test]
async fn a_refusal_in_the_middle_is_told_to_the_outermost() {
    let shop = Shop::default();
    let bottom = serve(shop.clone()).await;
    let refuses = grpc(bare().breaker(BreakerConfig::consecutive(1)));
    refuses.breaker().unwrap().force_open("maintenance");
    let client = client!(refuses, bottom.at);
    let middle = serve(Gateway { client }).await;
    let outer = grpc(bare());
    let mut client = client!(outer, middle.at);
    let status = client.get(item("ok")).await.unwrap_err();
    assert_eq!(shop.gets(), 0);
    assert_eq!(status.code(), Code::Unavailable);
    assert_eq!(pushback(&status), Some("-1"));
    let info = status.get_details_error_info().unwrap();
    assert_eq!(info.reason, "DEPENDENCY_TEMPORARILY_UNAVAILABLE");
    assert_eq!(info.metadata["safe_action"], "defer_item");
    assert!(!format!("{status:?}").contains("maintenance"));
}

#[tokio::test]
async fn a_tonic_server_sheds_in_grpcs_words_and_the_client_comes_back() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let shop = Shop::default();
    let served = InventoryServer::new(shop.clone());
    let shed = ShedLayer::new(NonZeroU32::MIN).retry_after(Duration::from_millis(20));
    let task = tokio::spawn(async move {
        let server = Server::builder().layer(shed).add_service(served);
        let incoming = TcpIncoming::from(listener);
        server.serve_with_incoming(incoming).await.unwrap();
    });
    let serving = Serving { at, task };

    let mut plain = InventoryClient::new(channel(at));
    let mut other = plain.clone();
    let hangs = tokio::spawn(async move { other.get(item("hang")).await });
    while shop.gets() == 0 {
        tokio::task::yield_now().await;
    }
    let status = plain.put(item("ok")).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert_eq!(pushback(&status), Some("20"));

    let mut client = client!(grpc(bare().max_attempts(100)), serving.at);
    let put = tokio::spawn(async move { client.put(item("ok")).await });
    tokio::time::sleep(Duration::from_millis(60)).await;
    assert!(!put.is_finished(), "there is no place yet");
    hangs.abort();
    assert_eq!(put.await.unwrap().unwrap().get_ref().count, 1);
    assert_eq!(shop.puts(), 1);
}

/// Refuses the first two streams of each connection, serves the others.
async fn refuse_two_streams(listener: TcpListener, seen: Arc<AtomicU32>) {
    loop {
        let (socket, _) = listener.accept().await.unwrap();
        let mut connection = h2::server::handshake(socket).await.unwrap();
        while let Some(Ok((_, mut respond))) = connection.accept().await {
            if seen.fetch_add(1, Ordering::Relaxed) < 2 {
                respond.send_reset(Reason::REFUSED_STREAM);
                continue;
            }
            let mut head = Response::new(());
            let grpc = HeaderValue::from_static("application/grpc");
            head.headers_mut().insert("content-type", grpc);
            let mut body = respond.send_response(head, false).unwrap();
            // A message of no bytes: a reply of zero.
            body.send_data(Bytes::from_static(&[0; 5]), false).unwrap();
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", HeaderValue::from_static("0"));
            body.send_trailers(trailers).unwrap();
        }
    }
}

#[tokio::test]
async fn a_stream_that_was_refused_is_sent_again_whatever_it_was() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let seen = Arc::new(AtomicU32::new(0));
    let task = tokio::spawn(refuse_two_streams(listener, Arc::clone(&seen)));
    let serving = Serving { at, task };
    let mut client = client!(grpc(bare()), serving.at);
    let answer = client.put(item("ok")).await.unwrap();
    assert_eq!(answer.get_ref().count, 0);
    assert_eq!(seen.load(Ordering::Relaxed), 3);
}
