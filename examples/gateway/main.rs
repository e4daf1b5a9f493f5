//! A gateway in front of two hosts: inbound deadlines, a breaker per host, a
//! second host and a stale cache as fallbacks, refusals as `problem+json`.
//!
//! `cargo run --release --features full --example gateway` tells a story and
//! ends. With `-- --serve 8080` it stays, under a load of its own: look at
//! <http://localhost:8080/>, break a host there and mend it, or by curl:
//!
//! ```sh
//! curl -i localhost:8080/orders/7
//! curl -i -H 'x-envoy-upstream-rq-timeout-ms: 100' localhost:8080/orders/7
//! curl -X POST localhost:8080/-/primary/fails     # or hangs, or works
//! curl localhost:8080/health
//! curl localhost:8080/metrics
//! ```
//!
//! `dashboard.json` beside this file shows these metrics in Grafana.

mod cache;
mod console;
mod load;
mod proxy;
mod upstream;

use std::net::SocketAddr;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use http::{Request, Response};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use proxy::{Gateway, Hosts, gateway};
use steadfast::Breakers;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tower::BoxError;
use upstream::{Mode, Upstream};

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let port = port()?;
    let Running {
        address,
        primary,
        replica,
        breakers,
        serving,
    } = start(port.unwrap_or(0)).await?;
    println!("gateway on http://{address}, in front of two hosts");
    if port.is_some() {
        println!("look at http://{address}/");
        tokio::spawn(load::run(address));
        return Ok(serving.await??);
    }

    let story = Story {
        client: Client::builder(TokioExecutor::new()).build_http(),
        gateway: address,
    };
    let state = |host: &Upstream| breakers.get(&host.address.to_string()).state();

    println!("\nall is well:");
    story.ask(None).await?;

    println!("\nthe primary answers 500; the replica serves, and soon nobody asks the primary:");
    primary.set(Mode::Fails);
    for _ in 0..8 {
        story.ask(None).await?;
    }
    println!(
        "  the primary has seen {} requests, its breaker is {:?}",
        primary.requests(),
        state(&primary)
    );

    println!("\nthe replica hangs too; what is left is the cache, and for others a refusal:");
    replica.set(Mode::Hangs);
    for _ in 0..12 {
        story.ask(None).await?;
    }
    story.say("/orders/8", None).await?;

    println!("\na caller in a hurry gets its answer in time, whatever it is:");
    story.ask(Some(Duration::from_millis(50))).await?;

    println!("\nboth work again; the next checks find out:");
    primary.set(Mode::Works);
    replica.set(Mode::Works);
    sleep(Duration::from_secs(3)).await;
    for _ in 0..3 {
        story.ask(None).await?;
    }
    Ok(())
}

/// The gateway, its console and the hosts behind it, all on loopback.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    primary: Upstream,
    replica: Upstream,
    breakers: Breakers<String>,
    serving: JoinHandle<std::io::Result<()>>,
}

pub(crate) async fn start(port: u16) -> Result<Running, BoxError> {
    let primary = Upstream::start("primary").await?;
    let replica = Upstream::start("replica").await?;
    // Before anything is built that is to be measured.
    let recorder = console::recorder()?;
    let Gateway {
        router,
        breakers,
        health,
    } = gateway(Hosts {
        primary: primary.address,
        replica: replica.address,
    })?;
    let hosts = vec![primary.clone(), replica.clone()];
    let router = console::console(recorder, health, hosts).fallback_service(router);
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    let address = listener.local_addr()?;
    let serving = tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(Running {
        address,
        primary,
        replica,
        breakers,
        serving,
    })
}

/// The port to stay on, if any.
fn port() -> Result<Option<u16>, BoxError> {
    let mut arguments = std::env::args().skip(1);
    match (
        arguments.next().as_deref(),
        arguments.next(),
        arguments.next(),
    ) {
        (None, ..) => Ok(None),
        (Some("--serve"), Some(port), None) => match port.parse() {
            Ok(port) => Ok(Some(port)),
            Err(_) => Err(format!("--serve: `{port}` is not a port").into()),
        },
        _ => Err("usage: gateway [--serve PORT]".into()),
    }
}

struct Story {
    client: Client<HttpConnector, Body>,
    gateway: SocketAddr,
}

impl Story {
    async fn ask(&self, patience: Option<Duration>) -> Result<(), BoxError> {
        self.say("/orders/7", patience).await
    }

    /// Sends a request and prints in a line what came of it.
    async fn say(&self, path: &str, patience: Option<Duration>) -> Result<(), BoxError> {
        let mut request = Request::get(format!("http://{}{path}", self.gateway));
        if let Some(patience) = patience {
            let left = patience.as_millis().to_string();
            request = request.header("x-envoy-upstream-rq-timeout-ms", left);
        }
        let asked = Instant::now();
        let answer = self.client.request(request.body(Body::empty())?).await?;
        let took = asked.elapsed();
        println!(
            "  {path}: {} in {took:.1?}: {}",
            answer.status(),
            text(answer).await?
        );
        Ok(())
    }
}

async fn text(answer: Response<hyper::body::Incoming>) -> Result<String, BoxError> {
    let is_stale = answer.headers().contains_key("warning");
    let body = to_bytes(Body::new(answer.into_body()), 64 * 1024).await?;
    let text = String::from_utf8_lossy(&body).into_owned();
    Ok(if is_stale {
        format!("{text} (stale)")
    } else {
        text
    })
}
