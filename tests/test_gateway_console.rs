//! What the gateway example shows of itself, over loopback: metrics that the
//! documented table knows, health as JSON, hosts that can be broken.

#![cfg(all(
    feature = "axum",
    feature = "hyper",
    feature = "keyed",
    feature = "metrics"
))]
#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps in vain should fail"
)]

#[path = "../examples/gateway/main.rs"]
#[allow(dead_code, reason = "the example's own story is not told here")]
mod gateway;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use http::{Method, Request, StatusCode};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

const TABLE: &str = include_str!("../src/telemetry/metrics/table.md");

struct Asking {
    gateway: SocketAddr,
}

impl Asking {
    async fn ask(&self, method: Method, path: &str) -> (StatusCode, String) {
        let client = Client::builder(TokioExecutor::new()).build_http::<Body>();
        let request = Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", self.gateway));
        let answer = client.request(request.body(Body::empty()).unwrap());
        let answer = answer.await.unwrap();
        let status = answer.status();
        let body = Body::new(answer.into_body());
        let body = to_bytes(body, usize::MAX).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    async fn get(&self, path: &str) -> String {
        let (status, text) = self.ask(Method::GET, path).await;
        assert_eq!(status, StatusCode::OK, "{path}: {text}");
        text
    }

    async fn health(&self) -> Value {
        let health: Value = serde_json::from_str(&self.get("/health").await).unwrap();
        health["policies"][0].clone()
    }
}

/// Names and kinds as the table has them.
fn documented() -> BTreeMap<String, String> {
    let rows = TABLE.lines().filter_map(|row| row.strip_prefix("| `"));
    let rows = rows.map(|row| {
        let (name, rest) = row.split_once('`').unwrap();
        let kind = rest.split('|').nth(1).unwrap().trim();
        (name.to_owned(), kind.to_owned())
    });
    rows.collect()
}

#[tokio::test]
async fn metrics_health_and_switches_tell_of_the_same_outage() {
    let running = gateway::start(0).await.unwrap();
    let gateway = Asking {
        gateway: running.address,
    };
    assert!(gateway.get("/").await.contains("<title>steadfast gateway"));
    assert!(gateway.get("/orders/7").await.contains("from primary"));
    let health = gateway.health().await;
    assert_eq!(health["dependency"], "primary");
    assert_eq!(health["breakers"][0]["key"], "primary");
    assert_eq!(health["breakers"][0]["state"], "closed");

    for wrong in ["/-/primary/explodes", "/-/nobody/fails"] {
        let (status, _) = gateway.ask(Method::POST, wrong).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{wrong}");
    }
    let (status, _) = gateway.ask(Method::POST, "/-/primary/fails").await;
    assert_eq!(status, StatusCode::NO_CONTENT);
    let modes: Value = serde_json::from_str(&gateway.get("/-/modes").await).unwrap();
    assert_eq!(modes["primary"], "fails");
    assert_eq!(modes["replica"], "works");
    let open = async {
        while gateway.health().await["breakers"][0]["state"] != "open" {
            assert!(gateway.get("/orders/7").await.contains("from replica"));
        }
    };
    tokio::time::timeout(Duration::from_secs(30), open)
        .await
        .unwrap();

    let text = gateway.get("/metrics").await;
    let documented = documented();
    let mut seen = BTreeSet::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').unwrap();
        assert_eq!(documented.get(name).map(String::as_str), Some(kind));
        seen.insert(name);
    }
    assert!(seen.len() >= documented.len() - 1, "{seen:?}");
    let opened =
        r#"steadfast_breaker_transitions_total{dependency="hosts",state="open",key="primary"} 1"#;
    assert!(text.contains(opened), "{text}");
    let served = r#"steadfast_fallbacks_total{dependency="primary",entry="0",result="served"}"#;
    assert!(text.contains(served), "{text}");
}
