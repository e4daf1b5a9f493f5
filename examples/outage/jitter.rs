//! A thousand clients that fail at one instant come back: together, nearly together, or spread out.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::RngExt;
use serde_json::json;
use steadfast::{Backoff, Policy};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tower::BoxError;

use super::clock;
use super::inputs::{Input, grouped};
use super::provider::{Rejected, locked};
use super::random;
use super::report::{Band, Report, Table};
use super::scenario::{Scenario, at_most, some_time};

/// The inputs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Jitter {
    pub(crate) clients: NonZeroU32,
    pub(crate) backoff: Duration,
    pub(crate) cap: Duration,
    /// By which share of itself the comparator's wait varies.
    pub(crate) wobble: f64,
    /// How many attempts the dependency answers per 10 ms; it sheds the others.
    pub(crate) capacity: NonZeroU32,
}

impl Default for Jitter {
    fn default() -> Self {
        Self {
            clients: const { NonZeroU32::new(1_000).unwrap() },
            backoff: Duration::from_millis(100),
            cap: Duration::from_secs(20),
            wobble: 0.1,
            capacity: const { NonZeroU32::new(100).unwrap() },
        }
    }
}

/// How one kind of jitter fared.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) kind: String,
    /// The most attempts within 10 ms after the failure.
    pub(crate) peak_per_10ms: u64,
    /// From the failure to a client's answer, on average.
    pub(crate) mean_completion_ms: f64,
    /// Until the last client has its answer.
    pub(crate) last_completion_ms: f64,
    /// Attempts per client after the failure.
    pub(crate) retries_per_client: f64,
}

impl Jitter {
    /// Measures none, a wobble, and full jitter.
    ///
    /// # Errors
    ///
    /// When a policy cannot be built, or a client had no answer in the end.
    pub(crate) fn measure(&self, seed: u64) -> Result<[Row; 3], BoxError> {
        let none = Backoff::exponential(self.backoff, self.cap);
        let full = Backoff::full_jitter(self.backoff, self.cap).seed(seed);
        let wobble = format!("±{} %", (self.wobble * 1_000.0).round() / 10.0);
        Ok([
            clock::paused(self.through_the_stack("none", none))?,
            clock::paused(self.wobbling(wobble, seed))?,
            clock::paused(self.through_the_stack("full", full))?,
        ])
    }

    /// The library's own backoff, in a stack that limits nothing else.
    async fn through_the_stack(&self, kind: &str, backoff: Backoff) -> Result<Row, BoxError> {
        let policy = Policy::builder("dependency")
            .max_attempts(u32::MAX)
            .backoff(backoff)
            .no_deadline()
            .no_attempt_timeout()
            .no_retry_budget()
            .no_breaker()
            .build()?;
        self.crowd(kind.to_owned(), |dependency| {
            let policy = policy.clone();
            async move {
                let attempt = || std::future::ready(dependency.attempt());
                policy.call(attempt).await.is_ok()
            }
        })
        .await
    }

    /// The comparator, a plain loop: the same waits, each a little longer or shorter. The library
    /// has no such backoff.
    async fn wobbling(&self, kind: String, seed: u64) -> Result<Row, BoxError> {
        let random = Arc::new(Mutex::new(random::stream(seed, "jitter wobble")));
        self.crowd(kind, |dependency| {
            let random = Arc::clone(&random);
            let (mut wait, cap, wobble) = (self.backoff, self.cap, self.wobble);
            async move {
                while dependency.attempt().is_err() {
                    let draw = locked(&random).random::<f64>();
                    sleep(wait.mul_f64(1.0 + wobble * (2.0 * draw - 1.0))).await;
                    wait = wait.saturating_mul(2).min(cap);
                }
                true
            }
        })
        .await
    }

    /// All clients at one instant, each until it has its answer.
    async fn crowd<F>(
        &self,
        kind: String,
        client: impl Fn(Dependency) -> F,
    ) -> Result<Row, BoxError>
    where
        F: Future<Output = bool> + Send + 'static,
    {
        let dependency = Dependency {
            failed_at: Instant::now(),
            capacity: self.capacity.get().into(),
            attempts: Arc::default(),
        };
        let mut clients = JoinSet::new();
        for _ in 0..self.clients.get() {
            let answered = client(dependency.clone());
            let failed_at = dependency.failed_at;
            clients.spawn(async move { answered.await.then(|| failed_at.elapsed()) });
        }
        let mut completions = Vec::with_capacity(clients.len());
        for completion in clients.join_all().await {
            let completion = completion.ok_or("a client was left without an answer")?;
            completions.push(completion.as_secs_f64() * 1_000.0);
        }
        let count = completions.len() as f64;
        let attempts = dependency.attempts();
        Ok(Row {
            kind,
            peak_per_10ms: attempts.values().copied().max().unwrap_or_default(),
            mean_completion_ms: completions.iter().sum::<f64>() / count,
            last_completion_ms: completions.iter().copied().fold(0.0, f64::max),
            retries_per_client: attempts.values().sum::<u64>() as f64 / count,
        })
    }
}

/// Fails everything at the instant at which it is made; afterwards it answers as many attempts per
/// 10 ms as it can and sheds the others.
#[derive(Clone)]
struct Dependency {
    failed_at: Instant,
    capacity: u64,
    /// How many attempts came in which 10 ms after the failure.
    attempts: Arc<Mutex<BTreeMap<u128, u64>>>,
}

impl Dependency {
    fn attempt(&self) -> Result<(), Rejected> {
        let since = self.failed_at.elapsed();
        if since.is_zero() {
            return Err(Rejected);
        }
        let mut attempts = locked(&self.attempts);
        let count = attempts.entry(since.as_millis() / 10).or_default();
        *count += 1;
        if *count > self.capacity {
            return Err(Rejected);
        }
        Ok(())
    }

    fn attempts(&self) -> BTreeMap<u128, u64> {
        locked(&self.attempts).clone()
    }
}

impl Scenario for Jitter {
    fn name(&self) -> &'static str {
        "jitter"
    }

    fn summary(&self) -> &'static str {
        "how clients that failed at one instant come back"
    }

    fn inputs(&mut self) -> Vec<Input<'_>> {
        vec![
            Input::new("clients", "how many there are", &mut self.clients),
            Input::new(
                "backoff",
                "seconds before the first retry, then doubled",
                &mut self.backoff,
            ),
            Input::new("cap", "seconds at which doubling ends", &mut self.cap),
            Input::new(
                "wobble",
                "by which share the comparator's waits vary",
                &mut self.wobble,
            ),
            Input::new(
                "capacity",
                "attempts answered per 10 ms",
                &mut self.capacity,
            ),
        ]
    }

    fn check(&self) -> Result<(), String> {
        some_time("backoff", self.backoff)?;
        if self.cap < self.backoff {
            let cap = self.cap.as_secs_f64();
            return Err(format!("cap={cap}: must not be below backoff"));
        }
        at_most("wobble", self.wobble, 1.0)?;
        at_most("clients", self.clients.get().into(), 100_000.0)?;
        // Without jitter each round answers what the capacity allows, and all others come again.
        let clients = f64::from(self.clients.get());
        let attempts = clients * clients / f64::from(self.capacity.get());
        at_most("capacity", attempts, 1e7).map_err(|_| {
            format!(
                "capacity={}: with so many clients must come to at most 10000000 attempts",
                self.capacity
            )
        })
    }

    fn run(&self, seed: u64) -> Result<Report, BoxError> {
        let rows = self.measure(seed)?;
        let mut table = Table::new([
            "jitter",
            "peak per 10 ms",
            "mean completion",
            "last completion",
            "retries per client",
        ]);
        for row in &rows {
            table.row([
                row.kind.clone(),
                grouped(row.peak_per_10ms),
                format!("{} ms", grouped(row.mean_completion_ms.round() as u64)),
                format!("{} ms", grouped(row.last_completion_ms.round() as u64)),
                format!("{:.2}", row.retries_per_client),
            ]);
        }
        let [none, _, full] = &rows;
        Ok(Report {
            table: table.render(),
            meaning: format!(
                "{} clients fail at one instant; then the dependency answers {} attempts per 10 ms \
                 and sheds the rest. In lockstep all who are left come at one instant again, round by \
                 round, each later than the one before. A wobble around the same instant (a plain \
                 loop, the library has none) blurs that; a draw from the whole window makes a stream \
                 of the crowd.",
                grouped(self.clients.get().into()),
                self.capacity
            ),
            charts: Vec::new(),
            bands: vec![
                Band::new(
                    "jitter[full].peak_per_10ms",
                    full.peak_per_10ms as f64,
                    0.0..=0.15 * none.peak_per_10ms as f64,
                ),
                Band::new(
                    "jitter[full].mean_completion_ms",
                    full.mean_completion_ms,
                    0.0..=none.mean_completion_ms,
                ),
            ],
            json: rows
                .iter()
                .map(|row| {
                    json!({
                        "kind": row.kind,
                        "peak_per_10ms": row.peak_per_10ms,
                        "mean_completion_ms": row.mean_completion_ms,
                    })
                })
                .collect(),
        })
    }
}
