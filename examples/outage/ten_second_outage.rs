//! What reaches a dependency that is dead for ten seconds: without a breaker, with one around the
//! retry loop, and with one that is asked before every attempt.

use std::num::NonZeroU32;
use std::time::Duration;

use serde_json::json;
use steadfast::{Backoff, Breaker, ErrorKind, Permit, Policy, PolicyBuilder, ServiceBuilderExt};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt, service_fn};

use super::chart::{Chart, Ink, Line, Scale, so_far};
use super::clock::{self, arrival, arrivals_within, wait_until};
use super::dependency::{Dependency, Down};
use super::inputs::{Input, grouped};
use super::parts::steady_breaker;
use super::report::{Band, Report, Table};
use super::scenario::{Scenario, above_zero, at_most, reference, some_time};

/// The inputs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TenSecondOutage {
    pub(crate) rate: f64,
    pub(crate) outage: Duration,
    pub(crate) attempts: NonZeroU32,
    pub(crate) backoff: Duration,
    pub(crate) threshold: NonZeroU32,
    pub(crate) open_time: Duration,
}

impl Default for TenSecondOutage {
    fn default() -> Self {
        Self {
            rate: 100.0,
            outage: Duration::from_secs(10),
            attempts: const { NonZeroU32::new(4).unwrap() },
            backoff: Duration::from_millis(100),
            threshold: const { NonZeroU32::new(5).unwrap() },
            open_time: Duration::from_secs(5),
        }
    }
}

/// The attempts that reached the dependency while it was down, arrangement by arrangement.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    pub(crate) no_breaker: u64,
    pub(crate) around_loop_sequential: u64,
    pub(crate) around_loop_concurrent: u64,
    pub(crate) per_attempt: u64,
    /// How long the slowest failing request without a breaker took.
    pub(crate) slowest_failure: Duration,
}

impl TenSecondOutage {
    /// Measures all arrangements.
    ///
    /// # Errors
    ///
    /// When a policy cannot be built.
    pub(crate) fn measure(&self) -> Result<Figures, BoxError> {
        let (no_breaker, slowest_failure) = clock::paused(self.without_breaker())?;
        let around_loop_concurrent = clock::paused(self.around_overlapping())?;
        let per_attempt = clock::paused(self.per_attempt())?;
        Ok(Figures {
            no_breaker: no_breaker.failed_sends(),
            around_loop_sequential: clock::paused(self.around_one_after_another())?,
            around_loop_concurrent: around_loop_concurrent.failed_sends(),
            per_attempt: per_attempt.failed_sends(),
            slowest_failure,
        })
    }

    /// Retries alone: the library's own retry stage with nothing else in the stack.
    async fn without_breaker(&self) -> Result<(Dependency, Duration), BoxError> {
        let dependency = Dependency::down_for(self.outage);
        let policy = self.retries_alone().build()?;
        let stack = ServiceBuilder::new()
            .resilience(policy)
            .service(dependency.clone());
        let mut requests = JoinSet::new();
        for number in 0..self.requests() {
            wait_until(dependency.since() + arrival(number, self.rate)).await;
            let stack = stack.clone();
            requests.spawn(async move {
                let started = Instant::now();
                let failed = stack.oneshot(()).await.is_err();
                (failed, started.elapsed())
            });
        }
        let ended = requests.join_all().await.into_iter();
        let failed = ended.filter_map(|(failed, took)| failed.then_some(took));
        Ok((dependency, failed.max().unwrap_or_default()))
    }

    /// The comparator with the breaker in the wrong place, each request after the one before.
    async fn around_one_after_another(&self) -> Result<u64, BoxError> {
        let dependency = Dependency::down_for(self.outage);
        let policy = self.retries_alone().build()?;
        let stack = ServiceBuilder::new()
            .resilience(policy)
            .service(dependency.clone());
        let breaker = self.breaker()?;
        for number in 0..self.requests() {
            wait_until(dependency.since() + arrival(number, self.rate)).await;
            if let Ok(permit) = breaker.admit() {
                judged_once(permit, stack.clone()).await;
            }
        }
        Ok(dependency.failed_sends())
    }

    /// The same comparator with requests that overlap.
    async fn around_overlapping(&self) -> Result<Dependency, BoxError> {
        let dependency = Dependency::down_for(self.outage);
        let policy = self.retries_alone().build()?;
        let stack = ServiceBuilder::new()
            .resilience(policy)
            .service(dependency.clone());
        let breaker = self.breaker()?;
        let mut requests = JoinSet::new();
        for number in 0..self.requests() {
            wait_until(dependency.since() + arrival(number, self.rate)).await;
            // Asked here, so that who arrives at the instant of a failure is admitted before it.
            if let Ok(permit) = breaker.admit() {
                requests.spawn(judged_once(permit, stack.clone()));
            }
        }
        requests.join_all().await;
        Ok(dependency)
    }

    /// The stack as it is meant: the breaker below the retries.
    async fn per_attempt(&self) -> Result<Dependency, BoxError> {
        let dependency = Dependency::down_for(self.outage);
        let policy = self
            .retries_alone()
            .breaker(steady_breaker(self.threshold, self.open_time))
            .build()?;
        let stack = ServiceBuilder::new()
            .resilience(policy)
            .service(dependency.clone());
        let mut requests = JoinSet::new();
        for number in 0..self.requests() {
            wait_until(dependency.since() + arrival(number, self.rate)).await;
            requests.spawn(stack.clone().oneshot(()));
        }
        requests.join_all().await;
        Ok(dependency)
    }

    /// What the dependency sees over time. A picture needs the moments, which the figures leave out.
    fn chart(&self) -> Result<Chart, BoxError> {
        let (no_breaker, _) = clock::paused(self.without_breaker())?;
        let arrangements = [
            ("retries alone", Ink::RetriesAlone, no_breaker),
            (
                "breaker around the loop",
                Ink::Breaker,
                clock::paused(self.around_overlapping())?,
            ),
            (
                "steadfast",
                Ink::Steadfast,
                clock::paused(self.per_attempt())?,
            ),
        ];
        let end = self.outage.as_secs_f64();
        let lines = arrangements.map(|(name, ink, dependency)| {
            let failed = dependency.sends().into_iter().filter(|send| send.failed);
            let points = so_far(failed.map(|send| send.at.as_secs_f64()), end);
            Line { name, ink, points }
        });
        let most = lines.iter().map(|line| line.points.len() / 2).max();
        let powers = (most.unwrap_or_default().max(10) as f64).log10().ceil();
        Ok(Chart {
            title: format!("{end} s outage: what the dead dependency has to take"),
            x: "seconds since the outage began",
            y: "attempts so far",
            x_range: 0.0..end,
            y_range: 1.0..10_f64.powf(powers),
            scale: Scale::Log,
            shade: None,
            lines: lines.into(),
        })
    }

    fn requests(&self) -> u32 {
        arrivals_within(self.outage, self.rate)
    }

    fn breaker(&self) -> Result<Breaker, BoxError> {
        Ok(Breaker::new(
            "dependency",
            steady_breaker(self.threshold, self.open_time),
        )?)
    }

    fn retries_alone(&self) -> PolicyBuilder {
        Policy::builder("dependency")
            .max_attempts(self.attempts.get())
            .backoff(Backoff::exponential(
                self.backoff,
                Duration::from_secs(86_400),
            ))
            .no_deadline()
            .no_attempt_timeout()
            .no_retry_budget()
            .no_breaker()
    }
}

/// One request whose breaker hears only how the whole retry loop ended. A stack inside a stack would
/// not do: what an inner one has given up says nothing new to an outer breaker.
async fn judged_once(permit: Permit, stack: impl Service<(), Response = ()>) {
    match stack.oneshot(()).await {
        Ok(()) => permit.success(),
        Err(_) => permit.failure(),
    }
}

/// The median time of a refused call through the whole stack, in batches, because one call is
/// shorter than what a clock can tell.
async fn refusal_micros() -> Result<f64, BoxError> {
    const BATCHES: usize = 501;
    const CALLS: u32 = 64;
    let policy = Policy::builder("dependency")
        .max_attempts(1)
        .breaker(steady_breaker(NonZeroU32::MIN, Duration::from_secs(3_600)))
        .build()?;
    let mut stack = ServiceBuilder::new()
        .resilience(policy)
        .service(service_fn(async |()| Err::<(), _>(Down)));
    // The one failure that opens the breaker.
    let _ = stack.ready().await?.call(()).await;
    let mut batches = Vec::with_capacity(BATCHES);
    for _ in 0..BATCHES {
        let started = Instant::now();
        for _ in 0..CALLS {
            match stack.ready().await?.call(()).await {
                Err(error) if error.kind() == ErrorKind::Refused => {}
                _ => return Err("the open breaker let a call through".into()),
            }
        }
        batches.push(started.elapsed() / CALLS);
    }
    batches.sort_unstable();
    Ok(batches[BATCHES / 2].as_secs_f64() * 1e6)
}

impl Scenario for TenSecondOutage {
    fn name(&self) -> &'static str {
        "ten_second_outage"
    }

    fn summary(&self) -> &'static str {
        "attempts that reach a dead dependency, by where the breaker sits"
    }

    fn inputs(&mut self) -> Vec<Input<'_>> {
        vec![
            Input::new("rate", "requests per second", &mut self.rate),
            Input::new(
                "outage",
                "seconds for which the dependency is down",
                &mut self.outage,
            ),
            Input::new(
                "attempts",
                "attempts per request, the first included",
                &mut self.attempts,
            ),
            Input::new(
                "backoff",
                "seconds before the first retry, then doubled",
                &mut self.backoff,
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
        above_zero("rate", self.rate)?;
        some_time("open_time", self.open_time)?;
        at_most("attempts", self.attempts.get().into(), 100.0)?;
        let sends = self.outage.as_secs_f64() * self.rate * f64::from(self.attempts.get());
        if sends > 1e6 {
            return Err(format!(
                "rate={}: with outage and attempts as they are must come to at most 1000000 sends",
                self.rate
            ));
        }
        Ok(())
    }

    fn run(&self, _seed: u64) -> Result<Report, BoxError> {
        let published = *self == Self::default();
        let figures = self.measure()?;
        let refusal_micros = clock::real(refusal_micros())?;
        let mut table = Table::new([
            "attempts that reach the dead dependency",
            "reference",
            "ours",
        ]);
        let mut row = |what: &str, published_figure: &str, ours: String| {
            table.row([
                what.to_owned(),
                reference(published, published_figure),
                ours,
            ]);
        };
        row(
            "retries alone (the library's, no breaker)",
            "3,890",
            grouped(figures.no_breaker),
        );
        row(
            "breaker around the loop, one request after another",
            "24",
            grouped(figures.around_loop_sequential),
        );
        row(
            "breaker around the loop, requests overlap",
            "about 304",
            grouped(figures.around_loop_concurrent),
        );
        row(
            "steadfast: breaker asked before every attempt",
            "6",
            grouped(figures.per_attempt),
        );
        row(
            "a failing request takes, retries alone",
            "700 ms",
            format!("{} ms", figures.slowest_failure.as_millis()),
        );
        row(
            "a refused request takes, in real time",
            "microseconds",
            format!("{refusal_micros:.2} us"),
        );
        Ok(Report {
            table: table.render(),
            meaning: String::from(
                "A breaker has to hear of every attempt: around the loop (here the library's own \
                 Breaker::admit around a stack that only retries) it learns late and lets whole \
                 loops through, before each attempt it lets through the failures that open it and \
                 one probe per open time.",
            ),
            charts: vec![self.chart()?],
            bands: vec![
                Band::new(
                    "ten_second_outage.no_breaker",
                    figures.no_breaker as f64,
                    3_889.0..=3_891.0,
                ),
                Band::exactly(
                    "ten_second_outage.around_loop_sequential",
                    figures.around_loop_sequential as f64,
                    24.0,
                ),
                Band::new(
                    "ten_second_outage.around_loop_concurrent",
                    figures.around_loop_concurrent as f64,
                    300.0..=308.0,
                ),
                Band::exactly(
                    "ten_second_outage.per_attempt",
                    figures.per_attempt as f64,
                    6.0,
                ),
                Band::new(
                    "ten_second_outage.refusal_micros_real_time",
                    refusal_micros,
                    0.0..=100.0,
                ),
            ],
            json: json!({
                "no_breaker": figures.no_breaker,
                "around_loop_sequential": figures.around_loop_sequential,
                "around_loop_concurrent": figures.around_loop_concurrent,
                "per_attempt": figures.per_attempt,
                "refusal_micros_real_time": refusal_micros,
            }),
        })
    }
}
