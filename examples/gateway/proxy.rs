//! The gateway itself: one `ServiceBuilder`, from the listener to the client.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::header::HOST;
use http::uri::{Authority, Scheme};
use http::{HeaderName, Request, Response, Uri};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use steadfast::fallback::{self, FallbackLayer};
use steadfast::http::{
    AnswerErrorsLayer, AttemptSpanLayer, DeadlineHeader, HttpClassifier, InboundDeadlineLayer,
    OutboundDeadlineLayer, ReplayBody, ReplayLayer, ShedLayer, WatchBodyLayer, WatchedBody,
};
use steadfast::telemetry::Metrics;
use steadfast::{
    Backoff, BreakerConfig, Breakers, ConfigError, Policy, PolicySnapshot, ServiceBuilderExt,
    Window,
};
use tower::{BoxError, Service, ServiceBuilder, service_fn};

use super::cache::StaleCache;

/// Requests in the gateway at once.
const PLACES: NonZeroU32 = NonZeroU32::MIN.saturating_add(399);

/// A request whose body can be sent again.
type Outbound = Request<ReplayBody<Body>>;

/// What stands behind the gateway.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hosts {
    pub(crate) primary: SocketAddr,
    /// Sized for a tenth of the traffic.
    pub(crate) replica: SocketAddr,
}

impl Hosts {
    /// What metrics and snapshots call a host: an address changes with each
    /// start.
    fn name_of(self, host: &str) -> String {
        if host == self.primary.to_string() {
            "primary".to_owned()
        } else if host == self.replica.to_string() {
            "replica".to_owned()
        } else {
            host.to_owned()
        }
    }
}

/// The gateway, the breakers of its hosts, and what its policies know.
pub(crate) struct Gateway {
    pub(crate) router: Router,
    pub(crate) breakers: Breakers<String>,
    pub(crate) health: Health,
}

pub(crate) type Health = Box<dyn Fn() -> [PolicySnapshot; 2] + Send + Sync>;

pub(crate) fn gateway(hosts: Hosts) -> Result<Gateway, ConfigError> {
    // One for both policies: what they tell of the shared breakers counts once.
    let metrics = Arc::new(Metrics::new().with_keys());
    let breakers = Breakers::<String>::new(
        "hosts",
        BreakerConfig::failure_rate(0.5)
            .window(Window::time(Duration::from_secs(10)))
            .min_calls(10)
            .last_failed(10)
            .open_time(Duration::from_secs(1))
            .max_open_time(Duration::from_secs(4))
            .ramp(Duration::from_secs(4)),
    )?
    .naming_keys(move |host| hosts.name_of(host));
    let primary = Policy::builder("primary")
        .deadline(Duration::from_secs(2))
        .attempt_timeout(Duration::from_millis(300))
        .max_attempts(3)
        .backoff(Backoff::full_jitter(
            Duration::from_millis(20),
            Duration::from_secs(1),
        ))
        .breakers(breakers.clone(), host)
        .classify(HttpClassifier::new().for_proxies())
        .observer(metrics.clone())
        .build()?;
    // One attempt: what the primary could not do is not tried twice elsewhere.
    let replica = Policy::builder("replica")
        .attempt_timeout(Duration::from_millis(300))
        .max_attempts(1)
        .breakers(breakers.clone(), host)
        .classify(HttpClassifier::new().for_proxies())
        .observer(metrics)
        .build()?;
    let health = {
        let (primary, replica) = (primary.clone(), replica.clone());
        Box::new(move || [primary.snapshot(), replica.snapshot()])
    };

    let cache = StaleCache::default();
    let stale = cache.clone();
    let copies = HttpClassifier::new();
    let replica_address = hosts.replica;
    let elsewhere = fallback::service(
        ServiceBuilder::new()
            .resilience(replica)
            .service(client(cache.clone())),
    )
    .map_request(move |request| sent_to(request, replica_address))
    .replay(copies.clone())
    .limit(20)
    .or(fallback::service(service_fn(move |request: Outbound| {
        let answer = stale.answer(request.uri().path());
        async { answer }
    }))
    .replay(copies));

    let stack = ServiceBuilder::new()
        // More than this at once are turned away before they cost anything.
        .layer(ShedLayer::new(PLACES))
        // What callers behind the same edge say they have left, at most 3 s.
        .layer(
            InboundDeadlineLayer::capped(Duration::from_secs(3)).trusting(DeadlineHeader::envoy()),
        )
        // What could not be answered becomes problem+json.
        .layer(AnswerErrorsLayer::new())
        .layer(ReplayLayer::default())
        .map_request(move |request: Outbound| sent_to(request, hosts.primary))
        .layer(FallbackLayer::new(elsewhere).reserve(Duration::from_millis(400)))
        .resilience(primary)
        .service(client(cache));
    Ok(Gateway {
        router: Router::new().fallback_service(stack),
        breakers,
        health,
    })
}

/// Below the stack: everything that happens once per attempt.
fn client(
    cache: StaleCache,
) -> impl Service<Outbound, Response = Response<Body>, Error = BoxError, Future: Send + 'static>
+ Clone
+ Send
+ Sync
+ 'static {
    let client =
        Client::builder(TokioExecutor::new()).build::<HttpConnector, ReplayBody<Body>>(connector());
    ServiceBuilder::new()
        .layer(AttemptSpanLayer::new())
        .layer(
            OutboundDeadlineLayer::new(DeadlineHeader::envoy())
                .numbering(HeaderName::from_static("x-envoy-attempt-count")),
        )
        .layer(cache)
        .map_response(|answer: Response<WatchedBody<Incoming>>| answer.map(Body::new))
        .layer(WatchBodyLayer::new().idle(Duration::from_secs(5)))
        .service(client)
}

fn connector() -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.set_connect_timeout(Some(Duration::from_millis(200)));
    connector
}

/// The breaker's key.
fn host(request: &Outbound) -> &str {
    request.uri().authority().map_or("", Authority::as_str)
}

fn sent_to(mut request: Outbound, host: SocketAddr) -> Outbound {
    let mut parts = request.uri().clone().into_parts();
    parts.scheme = Some(Scheme::HTTP);
    parts.authority = host.to_string().parse().ok();
    // A path is always there: the request came from a client.
    if let Ok(uri) = Uri::from_parts(parts) {
        *request.uri_mut() = uri;
    }
    request.headers_mut().remove(HOST);
    request
}
