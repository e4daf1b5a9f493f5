//! A load that never ends, so that there is something to look at.

use std::net::SocketAddr;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use http::Request;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tokio::time::{MissedTickBehavior, interval};

const PER_SECOND: u32 = 40;

/// Asks the gateway for one of twenty orders after another, whether or not the
/// answers come.
pub(crate) async fn run(gateway: SocketAddr) {
    let client = Client::builder(TokioExecutor::new()).build_http();
    let mut ticks = interval(Duration::from_secs(1) / PER_SECOND);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    for order in (0..20).cycle() {
        ticks.tick().await;
        let client = client.clone();
        let request = Request::get(format!("http://{gateway}/orders/{order}"));
        tokio::spawn(async move {
            let Ok(request) = request.body(Body::empty()) else {
                return;
            };
            // What came of it is in the gateway's metrics.
            if let Ok(answer) = client.request(request).await {
                to_bytes(Body::new(answer.into_body()), 64 * 1024)
                    .await
                    .ok();
            }
        });
    }
}
