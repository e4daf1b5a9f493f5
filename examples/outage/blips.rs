//! A week in which nothing is wrong but the odd attempt: what retries are for, and what a breaker must
//! not take for an outage.

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};

use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::json;
use steadfast::{Backoff, Breaker, BreakerState, Policy};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tower::BoxError;

use super::clock::{self, arrival, wait_until};
use super::inputs::{Input, grouped};
use super::provider::{Rejected, locked};
use super::random;
use super::report::{Band, Report, Table};
use super::scenario::{Scenario, above_zero, at_most, reference};

/// The inputs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Blips {
    pub(crate) days: f64,
    pub(crate) rate: f64,
    /// The share of first attempts that fail.
    pub(crate) blips: f64,
    /// The share of these that succeed on the second attempt. The others fail for good.
    pub(crate) second: f64,
    pub(crate) attempts: NonZeroU32,
}

impl Default for Blips {
    fn default() -> Self {
        Self {
            days: 7.0,
            rate: 1.0,
            blips: 0.004_1,
            second: 0.97,
            attempts: const { NonZeroU32::new(3).unwrap() },
        }
    }
}

/// What was counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures {
    pub(crate) requests: u32,
    /// Requests whose first attempt failed.
    pub(crate) raw_errors: u64,
    /// Requests that failed for their caller.
    pub(crate) user_errors: u64,
    /// How often the breaker opened.
    pub(crate) breaker_opened: u64,
}

impl Figures {
    pub(crate) fn raw_error_rate(&self) -> f64 {
        self.raw_errors as f64 / f64::from(self.requests)
    }

    pub(crate) fn user_error_rate(&self) -> f64 {
        self.user_errors as f64 / f64::from(self.requests)
    }
}

impl Blips {
    /// Lets the traffic through the stack.
    ///
    /// # Errors
    ///
    /// When the policy cannot be built.
    pub(crate) fn measure(&self, seed: u64) -> Result<Figures, BoxError> {
        clock::paused(self.traffic(seed))
    }

    /// The default policy, with its draws seeded.
    async fn traffic(&self, seed: u64) -> Result<Figures, BoxError> {
        let policy = Policy::builder("dependency")
            .max_attempts(self.attempts.get())
            .backoff(Backoff::default().seed(seed))
            .build()?;
        let breaker = policy.breaker().ok_or("the policy has lost its breaker")?;
        let openings = Arc::new(Mutex::new(Openings::default()));
        let dependency = Dependency {
            blips: self.blips,
            second: self.second,
            state: Arc::new(Mutex::new(Record {
                random: random::stream(seed, "blips"),
                raw_errors: 0,
            })),
        };
        let requests = self.requests();
        let mut user_errors = 0;
        let began = Instant::now();
        let mut under_way = JoinSet::new();
        for request in 0..requests {
            wait_until(began + arrival(request, self.rate)).await;
            let (policy, breaker) = (policy.clone(), breaker.clone());
            let (dependency, openings) = (dependency.clone(), Arc::clone(&openings));
            under_way.spawn(async move {
                let mut attempt = 0;
                let answer = policy
                    .call(|| {
                        attempt += 1;
                        std::future::ready(dependency.attempt(attempt))
                    })
                    .await;
                locked(&openings).look(&breaker);
                answer.is_err()
            });
            while let Some(ended) = under_way.try_join_next() {
                user_errors += u64::from(ended?);
            }
        }
        let rest = under_way.join_all().await;
        user_errors += rest.into_iter().map(u64::from).sum::<u64>();
        let breaker_opened = locked(&openings).count;
        Ok(Figures {
            requests,
            raw_errors: locked(&dependency.state).raw_errors,
            user_errors,
            breaker_opened,
        })
    }

    fn requests(&self) -> u32 {
        (self.days * SECONDS_PER_DAY * self.rate).ceil() as u32
    }
}

const SECONDS_PER_DAY: f64 = 86_400.0;

/// Answers at once; whose second attempt fails, fails for good.
#[derive(Clone)]
struct Dependency {
    blips: f64,
    second: f64,
    state: Arc<Mutex<Record>>,
}

struct Record {
    random: StdRng,
    raw_errors: u64,
}

impl Dependency {
    fn attempt(&self, number: u32) -> Result<(), Rejected> {
        let mut record = locked(&self.state);
        let failed = match number {
            1 => record.random.random::<f64>() < self.blips,
            2 => record.random.random::<f64>() >= self.second,
            _ => true,
        };
        record.raw_errors += u64::from(failed && number == 1);
        if failed { Err(Rejected) } else { Ok(()) }
    }
}

/// Counts how often a breaker opened, by looking at it after every call.
///
/// Only the outcome of a call opens it, and it stays open for a while, so that no opening is missed;
/// and two openings end at different times, so that none is counted twice.
#[derive(Default)]
struct Openings {
    count: u64,
    last: Option<Instant>,
}

impl Openings {
    fn look(&mut self, breaker: &Breaker) {
        if breaker.state() != BreakerState::Open {
            return;
        }
        let refusal = breaker.would_admit().err();
        let left = refusal.and_then(|refusal| refusal.retry_after());
        let ends = left.map(|left| Instant::now() + left);
        self.count += u64::from(ends != self.last);
        self.last = ends;
    }
}

impl Scenario for Blips {
    fn name(&self) -> &'static str {
        "blips"
    }

    fn summary(&self) -> &'static str {
        "a healthy week: what retries hide from users, and whether the breaker stays calm"
    }

    fn inputs(&mut self) -> Vec<Input<'_>> {
        vec![
            Input::new("days", "days of traffic", &mut self.days),
            Input::new("rate", "requests per second", &mut self.rate),
            Input::new(
                "blips",
                "share of first attempts that fail",
                &mut self.blips,
            ),
            Input::new(
                "second",
                "share of these that succeed on the second",
                &mut self.second,
            ),
            Input::new(
                "attempts",
                "attempts per request, the first included",
                &mut self.attempts,
            ),
        ]
    }

    fn check(&self) -> Result<(), String> {
        above_zero("days", self.days)?;
        above_zero("rate", self.rate)?;
        at_most("blips", self.blips, 1.0)?;
        at_most("second", self.second, 1.0)?;
        let requests = self.days * SECONDS_PER_DAY * self.rate;
        at_most("rate", requests, 5e6).map_err(|_| {
            format!(
                "rate={}: with days={} must come to at most 5000000 requests",
                self.rate, self.days
            )
        })
    }

    fn run(&self, seed: u64) -> Result<Report, BoxError> {
        let published = *self == Self::default();
        let figures = self.measure(seed)?;
        let (raw, user) = (figures.raw_error_rate(), figures.user_error_rate());
        let percent = |share: f64| format!("{:.3} %", share * 100.0);
        let mut table = Table::new(["", "reference", "ours"]);
        let mut row = |what: &str, published_figure: &str, ours: String| {
            table.row([
                what.to_owned(),
                reference(published, published_figure),
                ours,
            ]);
        };
        row("requests", "-", grouped(figures.requests.into()));
        row("first attempts that fail", "0.41 %", percent(raw));
        row(
            "requests that fail for their user",
            "0.012 %",
            percent(user),
        );
        row(
            "times the breaker opened",
            "0",
            grouped(figures.breaker_opened),
        );
        Ok(Report {
            table: table.render(),
            meaning: format!(
                "The default policy with {} attempts. A request that fails twice is taken to fail \
                 for good; to hide all others is what the retry earns. {}",
                self.attempts,
                match figures.breaker_opened {
                    0 => "The breaker sees no outage in it.".to_owned(),
                    times => format!(
                        "The breaker takes it for an outage {} times.",
                        grouped(times)
                    ),
                }
            ),
            charts: Vec::new(),
            bands: vec![
                Band::new("blips.raw_error_rate", raw, 0.003_6..=0.004_6),
                Band::new("blips.user_error_rate", user, 0.0..=raw / 20.0),
                Band::exactly("blips.breaker_opened", figures.breaker_opened as f64, 0.0),
            ],
            json: json!({
                "raw_error_rate": raw,
                "user_error_rate": user,
                "breaker_opened": figures.breaker_opened,
            }),
        })
    }
}
