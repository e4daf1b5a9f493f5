//! What the gateway shows of itself: metrics, health, and a page.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{Html, IntoResponse, Json, Response};
use axum::routing::{get, post};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use serde_json::{Map, Value, json};

use super::proxy::Health;
use super::upstream::{Mode, Upstream};

const PAGE: &str = include_str!("page.html");

struct Console {
    recorder: PrometheusHandle,
    health: Health,
    hosts: Vec<Upstream>,
}

/// Where all metrics go. To be installed before policies are built.
pub(crate) fn recorder() -> Result<PrometheusHandle, BuildError> {
    let seconds: Vec<f64> = (0..17)
        .map(|power| f64::from(1 << power) / 1000.0)
        .collect();
    let attempts = [0.0, 1.0, 2.0, 3.0, 5.0, 8.0];
    let ends_in = |end: &str| Matcher::Suffix(end.to_owned());
    PrometheusBuilder::new()
        .set_buckets_for_metric(ends_in("_seconds"), &seconds)?
        .set_buckets_for_metric(ends_in("_attempts"), &attempts)?
        .install_recorder()
}

pub(crate) fn console(recorder: PrometheusHandle, health: Health, hosts: Vec<Upstream>) -> Router {
    let console = Console {
        recorder,
        health,
        hosts,
    };
    Router::new()
        .route("/", get(|| async { Html(PAGE) }))
        .route("/metrics", get(metrics))
        .route("/health", get(health_of))
        .route("/-/modes", get(modes))
        .route("/-/{host}/{mode}", post(set_mode))
        .with_state(Arc::new(console))
}

async fn metrics(State(console): State<Arc<Console>>) -> Response {
    console.recorder.run_upkeep();
    let text = "text/plain; version=0.0.4";
    ([(CONTENT_TYPE, text)], console.recorder.render()).into_response()
}

/// Always 200: this process is well when its dependencies are not, and to
/// restart it would not mend them.
async fn health_of(State(console): State<Arc<Console>>) -> Response {
    let policies = (console.health)();
    let health = Json(json!({ "policies": policies }));
    ([(CACHE_CONTROL, "no-store")], health).into_response()
}

async fn modes(State(console): State<Arc<Console>>) -> Json<Value> {
    let modes = console.hosts.iter();
    let modes = modes.map(|host| (host.name().to_owned(), json!(host.mode().as_str())));
    Json(Value::Object(modes.collect::<Map<_, _>>()))
}

async fn set_mode(
    State(console): State<Arc<Console>>,
    Path((host, mode)): Path<(String, String)>,
) -> StatusCode {
    let host = console.hosts.iter().find(|known| known.name() == host);
    match (host, Mode::named(&mode)) {
        (Some(host), Some(mode)) => {
            host.set(mode);
            StatusCode::NO_CONTENT
        }
        _ => StatusCode::NOT_FOUND,
    }
}
