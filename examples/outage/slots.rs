//! A gateway with so many slots: calls that wait for a failing dependency hold their slot, and in the
//! end those are refused at the door that never touch it.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::json;
use steadfast::fallback::{self, FallbackLayer};
use steadfast::{Backoff, BreakerConfig, Policy, ServiceBuilderExt};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tower::util::BoxCloneSyncService;
use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};

use super::clock::{self, wait_until};
use super::inputs::{Input, grouped};
use super::provider::{Manners, Number, Provider, doubled, plain_loop};
use super::random;
use super::report::{Band, Report, Table};
use super::scenario::{Scenario, above_zero, at_most, reference, some_time};

/// The inputs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Slots {
    pub(crate) slots: NonZeroU32,
    /// How many calls are handed to the gateway at once, to see what it gets done.
    pub(crate) calls: NonZeroU32,
    pub(crate) rejection: Duration,
    pub(crate) answer: Duration,
    pub(crate) secondary: Duration,
    pub(crate) attempts: NonZeroU32,
    pub(crate) backoff: Duration,
    /// Calls per second that need the dependency, while the door is watched.
    pub(crate) rate: f64,
    /// Calls per second that do not.
    pub(crate) unrelated_rate: f64,
    /// How long such a call holds its slot.
    pub(crate) unrelated: Duration,
    /// For how long the door is watched.
    pub(crate) watched: Duration,
}

impl Default for Slots {
    fn default() -> Self {
        Self {
            slots: const { NonZeroU32::new(400).unwrap() },
            calls: const { NonZeroU32::new(10_000).unwrap() },
            rejection: Duration::from_millis(150),
            answer: Duration::from_millis(2_400),
            secondary: Duration::from_millis(2_600),
            attempts: const { NonZeroU32::new(4).unwrap() },
            backoff: Duration::from_secs(1),
            rate: 100.0,
            unrelated_rate: 50.0,
            unrelated: Duration::from_millis(200),
            watched: Duration::from_secs(120),
        }
    }
}

/// What a gateway does with a call that needs the dependency.
type Handler = BoxCloneSyncService<Number, (), BoxError>;

/// What came of the unrelated calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unrelated {
    pub(crate) calls: u64,
    /// Turned away because no slot was free.
    pub(crate) refused: u64,
}

/// The figures of all runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures {
    /// Calls per second through a full gateway whose dependency answers.
    pub(crate) healthy_per_s: f64,
    /// The same while the dependency rejects everything, with the plain loop.
    pub(crate) outage_per_s: f64,
    /// The same with the stack.
    pub(crate) steadfast_per_s: f64,
    /// At the door while the dependency answers.
    pub(crate) healthy: Unrelated,
    /// At the door while the dependency rejects everything, with the plain loop.
    pub(crate) outage: Unrelated,
    /// The same with the stack.
    pub(crate) steadfast: Unrelated,
}

impl Slots {
    /// Measures all runs.
    ///
    /// # Errors
    ///
    /// When a policy cannot be built, or a call failed.
    pub(crate) fn measure(&self, seed: u64) -> Result<Figures, BoxError> {
        let healthy = || self.retry_only(seed, 0.0);
        let outage = || self.retry_only(seed, 1.0);
        Ok(Figures {
            healthy_per_s: clock::paused(self.when_full(healthy()))?,
            outage_per_s: clock::paused(self.when_full(outage()))?,
            steadfast_per_s: clock::paused(self.when_full(self.steadfast(seed)?))?,
            healthy: clock::paused(self.at_the_door(healthy(), seed))?,
            outage: clock::paused(self.at_the_door(outage(), seed))?,
            steadfast: clock::paused(self.at_the_door(self.steadfast(seed)?, seed))?,
        })
    }

    /// The comparator: the plain loop.
    fn retry_only(&self, seed: u64, rejects: f64) -> Handler {
        let (primary, secondary) = self.providers(seed, rejects);
        let waits: Arc<[Duration]> = doubled(self.backoff, self.attempts.get()).into();
        BoxCloneSyncService::new(service_fn(move |request| {
            let (primary, secondary) = (primary.clone(), secondary.clone());
            let waits = Arc::clone(&waits);
            async move {
                plain_loop(&primary, &secondary, &waits, request).await?;
                Ok(())
            }
        }))
    }

    /// The stack during the outage: the default breaker, the loop's attempts and windows of backoff.
    fn steadfast(&self, seed: u64) -> Result<Handler, BoxError> {
        let (primary, secondary) = self.providers(seed, 1.0);
        let policy = Policy::builder("primary")
            .max_attempts(self.attempts.get())
            .backoff(Backoff::full_jitter(self.backoff, Duration::from_secs(86_400)).seed(seed))
            .breaker(BreakerConfig::default().open_jitter(0.0))
            .build()?;
        let stack = ServiceBuilder::new()
            .layer(FallbackLayer::new(fallback::service(secondary.service())))
            .resilience(policy)
            .service(primary.service());
        Ok(BoxCloneSyncService::new(stack.map_err(BoxError::from)))
    }

    fn providers(&self, seed: u64, rejects: f64) -> (Provider, Provider) {
        let manners = Manners {
            rejects,
            correlation: 0.0,
            rejection: self.rejection,
            answer: self.answer,
        };
        let random = |purpose| random::stream(seed, purpose);
        (
            Provider::new(manners, random("slots primary")),
            Provider::new(Manners::healthy(self.secondary), random("slots secondary")),
        )
    }

    /// Calls per second that a full gateway gets done: all calls are there at once and take a slot
    /// in turn.
    async fn when_full(&self, handler: Handler) -> Result<f64, BoxError> {
        let slots = self.slots();
        let began = Instant::now();
        let mut calls = JoinSet::new();
        for call in 0..self.calls.get() {
            let (slots, handler) = (Arc::clone(&slots), handler.clone());
            calls.spawn(async move {
                let _slot = slots.acquire().await?;
                handler.oneshot(call).await
            });
        }
        while let Some(call) = calls.join_next().await {
            call??;
        }
        Ok(f64::from(self.calls.get()) / began.elapsed().as_secs_f64())
    }

    /// Both kinds of calls come at random, and who finds no free slot is refused.
    async fn at_the_door(&self, handler: Handler, seed: u64) -> Result<Unrelated, BoxError> {
        let at_random =
            |rate, purpose| at_random(rate, self.watched, random::stream(seed, purpose));
        let dependent = at_random(self.rate, "slots dependent");
        let unrelated = at_random(self.unrelated_rate, "slots unrelated");
        let calls = unrelated.len() as u64;
        let mut arrivals: Vec<(Duration, Call)> = dependent
            .into_iter()
            .zip(0..)
            .map(|(at, number)| (at, Call::Dependent(number)))
            .chain(unrelated.into_iter().map(|at| (at, Call::Unrelated)))
            .collect();
        arrivals.sort_unstable_by_key(|&(at, _)| at);

        let slots = self.slots();
        let began = Instant::now();
        let mut refused = 0;
        // Those still under way at the end are dropped with it.
        let mut under_way = JoinSet::new();
        for (at, call) in arrivals {
            wait_until(began + at).await;
            let Ok(slot) = Arc::clone(&slots).try_acquire_owned() else {
                refused += u64::from(call == Call::Unrelated);
                continue;
            };
            let (handler, lasts) = (handler.clone(), self.unrelated);
            under_way.spawn(async move {
                match call {
                    Call::Unrelated => sleep(lasts).await,
                    // Whether it was answered does not matter here, only how long it took.
                    Call::Dependent(number) => drop(handler.oneshot(number).await),
                }
                drop(slot);
            });
        }
        Ok(Unrelated { calls, refused })
    }

    fn slots(&self) -> Arc<Semaphore> {
        Arc::new(Semaphore::new(self.slots.get() as usize))
    }
}

/// A call at the gateway's door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    /// Needs the dependency.
    Dependent(Number),
    /// Does not.
    Unrelated,
}

/// When calls come that come independently of one another, so many per second on average.
fn at_random(per_second: f64, length: Duration, mut random: StdRng) -> Vec<Duration> {
    let mut arrivals = Vec::new();
    let mut at = 0.0;
    loop {
        // 1 less a draw from [0, 1), so that the logarithm is finite.
        at -= (1.0 - random.random::<f64>()).ln() / per_second;
        if at >= length.as_secs_f64() {
            return arrivals;
        }
        arrivals.push(Duration::from_millis((at * 1_000.0) as u64));
    }
}

impl Scenario for Slots {
    fn name(&self) -> &'static str {
        "slots"
    }

    fn summary(&self) -> &'static str {
        "what a gateway gets done, and whom it refuses, while a dependency fails"
    }

    fn inputs(&mut self) -> Vec<Input<'_>> {
        vec![
            Input::new("slots", "calls the gateway holds at once", &mut self.slots),
            Input::new(
                "calls",
                "calls given to it at once, to see what it gets done",
                &mut self.calls,
            ),
            Input::new(
                "rejection",
                "seconds a failing primary takes to reject",
                &mut self.rejection,
            ),
            Input::new("answer", "seconds a healthy one takes", &mut self.answer),
            Input::new(
                "secondary",
                "seconds the secondary takes",
                &mut self.secondary,
            ),
            Input::new(
                "attempts",
                "attempts at the primary, the first included",
                &mut self.attempts,
            ),
            Input::new(
                "backoff",
                "seconds before the first retry, then doubled",
                &mut self.backoff,
            ),
            Input::new(
                "rate",
                "calls per second that need it, at the door",
                &mut self.rate,
            ),
            Input::new(
                "unrelated_rate",
                "calls per second that do not",
                &mut self.unrelated_rate,
            ),
            Input::new(
                "unrelated",
                "seconds such a call takes",
                &mut self.unrelated,
            ),
            Input::new(
                "watched",
                "seconds for which the door is watched",
                &mut self.watched,
            ),
        ]
    }

    fn check(&self) -> Result<(), String> {
        at_most("slots", self.slots.get().into(), 100_000.0)?;
        at_most("calls", self.calls.get().into(), 100_000.0)?;
        some_time("answer", self.answer)?;
        some_time("secondary", self.secondary)?;
        at_most("attempts", self.attempts.get().into(), 10.0)?;
        above_zero("rate", self.rate)?;
        above_zero("unrelated_rate", self.unrelated_rate)?;
        let calls = (self.rate + self.unrelated_rate) * self.watched.as_secs_f64();
        at_most("watched", calls, 500_000.0).map_err(|_| {
            format!(
                "watched={}: with the rates as they are must come to at most 500000 calls",
                self.watched.as_secs_f64()
            )
        })
    }

    fn run(&self, seed: u64) -> Result<Report, BoxError> {
        let published = *self == Self::default();
        let figures = self.measure(seed)?;
        let Figures {
            healthy_per_s,
            outage_per_s,
            steadfast_per_s,
            healthy,
            outage,
            steadfast,
        } = figures;
        let mut table = Table::new([
            "",
            "reference",
            "healthy, loop",
            "reference",
            "outage, loop",
            "outage, steadfast",
        ]);
        let per_second = |calls: f64| format!("{calls:.1}");
        table.row([
            "calls per second when full".to_owned(),
            reference(published, "166.7"),
            per_second(healthy_per_s),
            reference(published, "39.2"),
            per_second(outage_per_s),
            per_second(steadfast_per_s),
        ]);
        table.row([
            format!("unrelated, refused of {}", grouped(outage.calls)),
            reference(published, "0"),
            grouped(healthy.refused),
            reference(published, "above 0"),
            grouped(outage.refused),
            grouped(steadfast.refused),
        ]);
        Ok(Report {
            table: table.render(),
            meaning: format!(
                "A full gateway gets done its slots over the time for which a call holds one. The \
                 loop (plain lines) holds a slot through all its waits: with {} calls per second \
                 there is soon no slot left for anybody. Behind the breaker a call holds its slot for \
                 as long as the secondary takes.",
                self.rate
            ),
            charts: Vec::new(),
            bands: vec![
                Band::new("slots.healthy_per_s", healthy_per_s, 166.0..=167.5),
                Band::new("slots.outage_per_s", outage_per_s, 39.0..=39.5),
                Band::new(
                    "slots.unrelated_refused",
                    outage.refused as f64,
                    1.0..=f64::INFINITY,
                ),
                Band::new(
                    "slots.steadfast_per_s",
                    steadfast_per_s,
                    3.0 * outage_per_s..=healthy_per_s,
                ),
                Band::exactly(
                    "slots.steadfast_unrelated_refused",
                    steadfast.refused as f64,
                    0.0,
                ),
            ],
            json: json!({
                "healthy_per_s": healthy_per_s,
                "outage_per_s": outage_per_s,
                "unrelated_refused": outage.refused,
                "steadfast_per_s": steadfast_per_s,
                "steadfast_unrelated_refused": steadfast.refused,
            }),
        })
    }
}
