//! The real thing: a TCP server on loopback that is killed under load and started again, in real
//! time, behind a stack with a breaker and a fallback.

mod server;

use std::num::NonZeroU32;

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;
use steadfast::{Backoff, CallReport, Error, Policy, ServedBy, ServiceBuilderExt, fallback};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tower::{BoxError, Service, ServiceBuilder, ServiceExt, service_fn};

use self::server::{Client, Server};
use super::clock;
use super::inputs::{Input, grouped};
use super::parts::steady_breaker;
use super::report::{Band, Report, Table};
use super::scenario::{Scenario, at_most, some_time};

/// The inputs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Live {
    pub(crate) rate: f64,
    pub(crate) warm_up: Duration,
    pub(crate) outage: Duration,
    pub(crate) threshold: NonZeroU32,
    pub(crate) open_time: Duration,
}

impl Default for Live {
    fn default() -> Self {
        Self {
            rate: 200.0,
            warm_up: Duration::from_millis(500),
            outage: Duration::from_secs(2),
            threshold: const { NonZeroU32::new(5).unwrap() },
            open_time: Duration::from_millis(350),
        }
    }
}

/// What was measured.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    /// Attempts that went out while nobody listened.
    pub(crate) sends_during_outage: u64,
    /// Requests for which no attempt was made.
    pub(crate) refused: u64,
    /// Requests answered with the fallback value.
    pub(crate) served_by_fallback: u64,
    /// Requests that ended in an error.
    pub(crate) failed: u64,
    /// All requests.
    pub(crate) requests: u64,
    /// The slowest of the refused ones, its fallback included.
    pub(crate) slowest_refusal: Duration,
    /// From the restart to the first answer of the dependency's own.
    pub(crate) recovered_after: Duration,
}

/// How one request ended.
struct Ended {
    at: Instant,
    took: Duration,
    by: By,
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum By {
    Dependency,
    FallbackAfterRefusal,
    FallbackAfterAttempts,
    Nobody,
}

impl Live {
    /// How long the server takes over a request.
    const WORK: Duration = Duration::from_millis(2);
    /// How long the load goes on after the recovery.
    const TAIL: Duration = Duration::from_millis(200);
    /// The fallback value; no answer of the server's is odd.
    const STAND_IN: u64 = 1;

    /// Runs it.
    ///
    /// # Errors
    ///
    /// When loopback does not work, the policy cannot be built, or the stack does not recover.
    pub(crate) fn measure(&self, seed: u64) -> Result<Figures, BoxError> {
        clock::real(self.story(seed))
    }

    async fn story(&self, seed: u64) -> Result<Figures, BoxError> {
        let client = Client::default();
        let stack = self.stack(&client, seed)?;
        let mut server = Some(Server::start(&client.address, Self::WORK).await?);

        let started = Instant::now();
        let mut restarted: Option<Instant> = None;
        let mut recovered: Option<Instant> = None;
        let mut requests = JoinSet::new();
        let mut ended = Vec::new();
        let mut load = interval(Duration::from_secs_f64(1.0 / self.rate));
        load.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for number in 0.. {
            load.tick().await;
            let now = Instant::now();
            match (restarted, recovered) {
                (None, _) if now >= started + self.warm_up + self.outage => {
                    server = Some(Server::start(&client.address, Self::WORK).await?);
                    client.is_down.store(false, Ordering::Relaxed);
                    restarted = Some(Instant::now());
                }
                (None, _) if now >= started + self.warm_up => {
                    if let Some(server) = server.take() {
                        server.kill().await;
                        client.is_down.store(true, Ordering::Relaxed);
                    }
                }
                (_, Some(recovered)) if now >= recovered + Self::TAIL => break,
                (Some(restarted), None) if now >= restarted + 10 * self.open_time => {
                    return Err("the dependency is back, but no request reaches it".into());
                }
                _ => {}
            }
            requests.spawn(request(stack.clone(), number));
            while let Some(request) = requests.try_join_next() {
                let request = request?;
                if restarted.is_some_and(|at| request.at > at) && request.by == By::Dependency {
                    recovered = recovered.or(Some(request.at));
                }
                ended.push(request);
            }
        }
        ended.extend(requests.join_all().await);
        drop(server);

        let count = |by: By| ended.iter().filter(|request| request.by == by).count() as u64;
        let refused = ended
            .iter()
            .filter(|request| request.by == By::FallbackAfterRefusal);
        Ok(Figures {
            sends_during_outage: client.sends_while_down.load(Ordering::Relaxed),
            refused: count(By::FallbackAfterRefusal),
            served_by_fallback: count(By::FallbackAfterRefusal) + count(By::FallbackAfterAttempts),
            failed: count(By::Nobody),
            requests: ended.len() as u64,
            slowest_refusal: refused
                .map(|request| request.took)
                .max()
                .unwrap_or_default(),
            recovered_after: match (restarted, recovered) {
                (Some(restarted), Some(recovered)) => recovered - restarted,
                _ => return Err("the load ended before the recovery".into()),
            },
        })
    }

    /// The stack under test: retries, breaker, attempt timeout and a stand-in value.
    fn stack(&self, client: &Client, seed: u64) -> Result<impl Stack, BoxError> {
        let policy = Policy::builder("live")
            .deadline(Duration::from_secs(1))
            .attempt_timeout(Duration::from_millis(250))
            .max_attempts(3)
            .backoff(
                Backoff::full_jitter(Duration::from_millis(10), Duration::from_millis(100))
                    .seed(seed),
            )
            .breaker(steady_breaker(self.threshold, self.open_time))
            .build()?;
        let client = client.clone();
        Ok(ServiceBuilder::new()
            .fallback(fallback::value(Self::STAND_IN))
            .resilience(policy)
            .service(service_fn(move |number: u64| client.clone().ask(number))))
    }
}

/// What the load needs of a stack; for the signatures.
trait Stack:
    Service<u64, Response = u64, Error = Error, Future: Send> + Clone + Send + 'static
{
}

impl<S> Stack for S where
    S: Service<u64, Response = u64, Error = Error, Future: Send> + Clone + Send + 'static
{
}

async fn request(stack: impl Stack, number: u64) -> Ended {
    let started = Instant::now();
    let (answer, report) = CallReport::capture(stack.oneshot(number)).await;
    let refused = report.is_some_and(|report| report.attempts() == 0);
    let stood_in = report.is_some_and(|report| report.served_by() == ServedBy::Fallback(0));
    let at = Instant::now();
    let by = match answer {
        Err(_) => By::Nobody,
        Ok(_) if !stood_in => By::Dependency,
        Ok(_) if refused => By::FallbackAfterRefusal,
        Ok(_) => By::FallbackAfterAttempts,
    };
    Ended {
        at,
        took: at - started,
        by,
    }
}

impl Scenario for Live {
    fn name(&self) -> &'static str {
        "live"
    }

    fn summary(&self) -> &'static str {
        "a TCP server on loopback, killed under load and started again, in real time"
    }

    fn inputs(&mut self) -> Vec<Input<'_>> {
        vec![
            Input::new("rate", "requests per second", &mut self.rate),
            Input::new(
                "warm_up",
                "seconds of load before the outage",
                &mut self.warm_up,
            ),
            Input::new(
                "outage",
                "seconds for which nobody listens",
                &mut self.outage,
            ),
            Input::new(
                "threshold",
                "failures in a row that open the breaker",
                &mut self.threshold,
            ),
            Input::new(
                "open_time",
                "seconds for which it stays open",
                &mut self.open_time,
            ),
        ]
    }

    fn check(&self) -> Result<(), String> {
        if !(10.0..=1_000.0).contains(&self.rate) {
            return Err(format!("rate={}: must be 10 to 1000", self.rate));
        }
        at_most("warm_up", self.warm_up.as_secs_f64(), 60.0)?;
        some_time("outage", self.outage)?;
        at_most("outage", self.outage.as_secs_f64(), 60.0)?;
        some_time("open_time", self.open_time)?;
        at_most("open_time", self.open_time.as_secs_f64(), 30.0)
    }

    fn run(&self, seed: u64) -> Result<Report, BoxError> {
        let figures = self.measure(seed)?;
        let twice = 2.0 * self.open_time.as_secs_f64() * 1e3;
        let recovered_after_ms = rounded(figures.recovered_after.as_secs_f64() * 1e3);
        let slowest_refusal_micros = rounded(figures.slowest_refusal.as_secs_f64() * 1e6);
        let mut table = Table::new(["", "reference", "ours"]);
        let mut row = |what: &str, reference: String, ours: String| {
            table.row([what.to_owned(), reference, ours]);
        };
        row("requests", "-".to_owned(), grouped(figures.requests));
        row(
            "sends during the outage",
            "-".to_owned(),
            grouped(figures.sends_during_outage),
        );
        row(
            "refused without a send",
            "above 0".to_owned(),
            grouped(figures.refused),
        );
        row(
            "served by the fallback",
            "above 0".to_owned(),
            grouped(figures.served_by_fallback),
        );
        row(
            "answered with an error",
            "-".to_owned(),
            grouped(figures.failed),
        );
        row(
            "slowest refusal",
            "-".to_owned(),
            format!("{slowest_refusal_micros} us"),
        );
        row(
            "from the restart to the first answer",
            format!("at most {twice} ms"),
            format!("{recovered_after_ms} ms"),
        );
        Ok(Report {
            table: table.render(),
            meaning: String::from(
                "While nobody listens, callers get the fallback at once, and the dependency sees \
                 little more than one probe per open time; it has its traffic back within two.",
            ),
            charts: Vec::new(),
            bands: vec![
                Band::new("live.refused", figures.refused as f64, 1.0..=f64::MAX),
                Band::new(
                    "live.served_by_fallback",
                    figures.served_by_fallback as f64,
                    1.0..=f64::MAX,
                ),
                Band::new("live.recovered_after_ms", recovered_after_ms, 0.0..=twice),
            ],
            json: json!({
                "sends_during_outage": figures.sends_during_outage,
                "refused": figures.refused,
                "served_by_fallback": figures.served_by_fallback,
                "slowest_refusal_micros": slowest_refusal_micros,
                "recovered_after_ms": recovered_after_ms,
            }),
        })
    }
}

/// To a tenth.
fn rounded(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}
