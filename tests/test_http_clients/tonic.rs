//! A generated client over tonic's channel. `stock` may be sent twice, as a
//! GET, and `reserve` may not, as a POST.

use std::error::Error as StdError;
use std::iter::successors;

use http::{Method, Request};
use steadfast::grpc::{GrpcClassifier, StatusLayer, judge_trailers};
use steadfast::http::{BodyCut, ReplayBody, ReplayLayer, WatchBodyLayer};
use steadfast::{Breaker, CallReport, Error, ErrorKind, ServiceBuilderExt};
use tonic::Status;
use tonic::body::Body;
use tonic::transport::Endpoint;
use tower::ServiceBuilder;
use tower::util::BoxCloneSyncService;

use crate::matrix::{Cell, Column, End, Seen, Settings};
use crate::server::{Act, Door, Form, Server};
use crate::shop::Item;
use crate::shop::inventory_client::InventoryClient;

type Stack = BoxCloneSyncService<Request<Body>, http::Response<Body>, Status>;

struct Tonic {
    client: InventoryClient<Stack>,
    breaker: Breaker,
}

impl Column for Tonic {
    const FORM: Form = Form::Grpc;

    async fn connect(server: &Server, settings: Settings) -> Self {
        let classify = GrpcClassifier::new().idempotent(|path| path.ends_with("/Stock"));
        let policy = settings.policy(classify);
        let breaker = policy.breaker().unwrap().clone();
        let mut endpoint = Endpoint::from_shared(format!("http://{}", server.address))
            .unwrap()
            .connect_timeout(settings.connect_timeout);
        if let Some(interval) = settings.keep_alive {
            endpoint = endpoint
                .http2_keep_alive_interval(interval)
                .keep_alive_timeout(interval);
        }
        let stack = ServiceBuilder::new()
            .map_response(|answer: http::Response<_>| answer.map(Body::new))
            .layer(StatusLayer::new())
            .layer(ReplayLayer::default())
            .resilience(policy)
            .layer(
                WatchBodyLayer::new()
                    .idle(settings.idle)
                    .judge_trailers(judge_trailers),
            )
            .map_request(|request: Request<ReplayBody<Body>>| request.map(Body::new))
            .service(endpoint.connect_lazy());
        Self {
            client: InventoryClient::new(BoxCloneSyncService::new(stack)),
            breaker,
        }
    }

    fn breaker(&self) -> &Breaker {
        &self.breaker
    }

    async fn call(&self, method: Method) -> Seen {
        let mut client = self.client.clone();
        let item = Item {
            name: String::from("teapot"),
        };
        let (answer, report) = match method {
            Method::GET => CallReport::capture(client.stock(item)).await,
            _ => CallReport::capture(client.reserve(item)).await,
        };
        let report = report.unwrap();
        let end = answer.map_or_else(|status| end(&status), |_| End::Answer(200));
        Seen { end, report }
    }
}

/// What the status was made of: an error of the stack, one of the body, or the
/// server's own.
fn end(status: &Status) -> End {
    let mut causes = successors(status.source(), |&error| error.source());
    match causes.clone().find_map(<dyn StdError>::downcast_ref) {
        Some(error) => End::Failed(Error::kind(error)),
        None if causes.any(<dyn StdError>::is::<BodyCut>) => End::Cut,
        None if status.source().is_some() => End::Broken,
        None => End::Answer(u16::try_from(i32::from(status.code())).unwrap()),
    }
}

#[tokio::test]
async fn a_channel_that_never_connects_repeats_whatever_it_is() {
    let cell = Cell::behind(Door::Shut).because("connect failed");
    cell.holds_for::<Tonic>().await;
}

#[tokio::test]
async fn a_channels_connect_timeout_is_no_more_than_a_refused_connection() {
    let cell = Cell::behind(Door::Stuck).because("connect failed");
    cell.holds_for::<Tonic>().await;
}

#[tokio::test]
async fn a_reset_leaves_open_whether_the_call_was_made() {
    let cell = Cell::of(Act::Reset).because("connection reset");
    cell.holds_for::<Tonic>().await;
}

#[tokio::test]
async fn a_server_that_hangs_is_cut_by_the_attempt_timeout() {
    let cell = Cell::of(Act::Hang).because("attempt timeout");
    let timed_out = End::Failed(ErrorKind::TimedOut);
    cell.ends(timed_out).holds_for::<Tonic>().await;
}

#[tokio::test]
async fn a_message_that_stalls_is_cut_and_heard_but_not_repeated() {
    let cell = Cell::of(Act::Stall).attempts(1, 1);
    cell.ends(End::Cut).holds_for::<Tonic>().await;
}

#[tokio::test]
async fn an_unavailable_with_a_pushback_is_repeated_whatever_it_is() {
    let cell = Cell::of(Act::Overload).attempts(2, 2);
    let unavailable = cell.ends(End::Answer(14)).because("UNAVAILABLE");
    unavailable.holds_for::<Tonic>().await;
}

#[tokio::test]
async fn a_message_that_breaks_off_is_heard_but_not_repeated() {
    let cell = Cell::of(Act::Break).attempts(1, 1);
    cell.ends(End::Broken).holds_for::<Tonic>().await;
}

#[tokio::test]
async fn a_goaway_below_the_call_is_repeated_and_no_evidence() {
    let cell = Cell::of(Act::Drain).attempts(2, 2).no_evidence();
    let drained = cell.because("connection is draining");
    let used = drained.on_a_used_connection();
    tokio::join!(drained.holds_for::<Tonic>(), used.holds_for::<Tonic>());
}

#[tokio::test]
async fn a_goaway_above_the_call_leaves_open_whether_it_was_made() {
    let cell = Cell::of(Act::DrainBegun).because("connection reset");
    cell.holds_for::<Tonic>().await;
}

#[tokio::test]
async fn a_refused_stream_is_repeated_whatever_the_call() {
    let cell = Cell::of(Act::Refuse).attempts(2, 2);
    cell.because("stream refused").holds_for::<Tonic>().await;
}

#[tokio::test]
async fn a_connection_that_dies_in_silence_is_noticed_by_its_keep_alive() {
    let cell = Cell::of(Act::Die).because("timed out");
    cell.holds_for::<Tonic>().await;
}
