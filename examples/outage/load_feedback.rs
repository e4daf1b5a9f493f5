//! A dependency that fails the more the busier it is: after an outage the clients' own load decides
//! whether it comes back.

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::json;
use steadfast::ServiceBuilderExt;
use tokio::time::{Instant, sleep};
use tower::{BoxError, Service, ServiceBuilder, service_fn};

use super::arrangement::Arrangement;
use super::clock;
use super::dependency::Down;
use super::fleet::{Course, Fleet, RECOVERED, Watch, or_never, seconds_or_never};
use super::inputs::Input;
use super::random;
use super::report::{Band, Report, Table};
use super::scenario::{Scenario, above_zero, at_most, some_time, whole_seconds};

/// The inputs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LoadFeedback {
    pub(crate) clients: NonZeroU32,
    pub(crate) rate: f64,
    /// How long an attempt takes, failed or not.
    pub(crate) latency: Duration,
    /// With so many requests in flight everything fails.
    pub(crate) full: f64,
    pub(crate) steepness: f64,
    pub(crate) outage_begins: Duration,
    pub(crate) outage_length: Duration,
    pub(crate) attempts: NonZeroU32,
    pub(crate) give_up: Duration,
}

impl Default for LoadFeedback {
    fn default() -> Self {
        Self {
            clients: const { NonZeroU32::new(200).unwrap() },
            rate: 5.0,
            latency: Duration::from_millis(100),
            full: 250.0,
            steepness: 4.0,
            outage_begins: Duration::from_secs(5),
            outage_length: Duration::from_secs(10),
            attempts: const { NonZeroU32::new(3).unwrap() },
            give_up: Duration::from_secs(300),
        }
    }
}

/// The dependency; its clones share the count of what is in flight.
#[derive(Clone)]
struct Crowded {
    since: Instant,
    inputs: Arc<LoadFeedback>,
    state: Arc<Mutex<(f64, StdRng)>>,
}

impl Crowded {
    fn new(inputs: &LoadFeedback, random: StdRng) -> Self {
        Self {
            since: Instant::now(),
            inputs: Arc::new(inputs.clone()),
            state: Arc::new(Mutex::new((0.0, random))),
        }
    }

    /// Takes a request in: whether it will fail, and its place among those in flight.
    fn enter(&self) -> (bool, Place) {
        let LoadFeedback {
            full,
            steepness,
            outage_begins,
            ..
        } = *self.inputs;
        let outage = outage_begins..self.inputs.outage_ends();
        let down = outage.contains(&self.since.elapsed());
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 += 1.0;
        let crowd = state.0;
        let fails = state.1.random::<f64>() < (crowd / full).powf(steepness);
        (down || fails, Place(self.clone()))
    }

    fn service(
        &self,
    ) -> impl Service<(), Response = (), Error = Down, Future: Send> + Clone + Send + 'static {
        let crowded = self.clone();
        service_fn(move |()| {
            let (fails, place) = crowded.enter();
            async move {
                sleep(place.0.inputs.latency).await;
                drop(place);
                if fails { Err(Down) } else { Ok(()) }
            }
        })
    }
}

/// One request in flight.
struct Place(Crowded);

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 -= 1.0;
    }
}

impl LoadFeedback {
    fn outage_ends(&self) -> Duration {
        self.outage_begins + self.outage_length
    }

    /// Seconds from the end of the outage to the first second of arrival that recovered.
    ///
    /// # Errors
    ///
    /// When a policy cannot be built.
    pub(crate) fn measure(
        &self,
        arrangement: Arrangement,
        seed: u64,
    ) -> Result<Option<f64>, BoxError> {
        let course = clock::paused(self.story(arrangement, seed))?;
        let recovered = course.recovered.map(|second| second as f64);
        Ok(recovered.map(|second| second - self.outage_ends().as_secs_f64()))
    }

    async fn story(&self, arrangement: Arrangement, seed: u64) -> Result<Course, BoxError> {
        let dependency = Crowded::new(self, random::stream(seed, "load_feedback failures"));
        let mut random = random::stream(seed, "load_feedback");
        let mut stacks = Vec::new();
        for _ in 0..self.clients.get() {
            let settings = arrangement.settings(self.attempts, random.random());
            let stack = ServiceBuilder::new().resilience(settings.build()?);
            stacks.push(stack.service(dependency.service()));
        }
        let watch = Watch {
            trouble_ends: self.outage_ends(),
            give_up: self.give_up,
            at_least: Duration::ZERO,
        };
        let since = dependency.since;
        Ok(self.fleet().watch(&stacks, since, watch, random).await)
    }

    fn fleet(&self) -> Fleet {
        Fleet {
            clients: self.clients,
            rate: self.rate,
        }
    }
}

impl Scenario for LoadFeedback {
    fn name(&self) -> &'static str {
        "load_feedback"
    }

    fn summary(&self) -> &'static str {
        "recovery of a dependency that fails the more, the more is in flight"
    }

    fn inputs(&mut self) -> Vec<Input<'_>> {
        vec![
            Input::new("clients", "clients, a policy each", &mut self.clients),
            Input::new("rate", "requests per second and client", &mut self.rate),
            Input::new(
                "latency",
                "seconds that an attempt takes",
                &mut self.latency,
            ),
            Input::new(
                "full",
                "requests in flight at which everything fails",
                &mut self.full,
            ),
            Input::new(
                "steepness",
                "failing share = (in flight / full) ^ this",
                &mut self.steepness,
            ),
            Input::new(
                "outage_begins",
                "seconds before the outage, whole",
                &mut self.outage_begins,
            ),
            Input::new(
                "outage_length",
                "seconds in which everything fails, whole",
                &mut self.outage_length,
            ),
            Input::new(
                "attempts",
                "attempts per request, the first included",
                &mut self.attempts,
            ),
            Input::new(
                "give_up",
                "seconds after the outage in which a recovery counts",
                &mut self.give_up,
            ),
        ]
    }

    fn check(&self) -> Result<(), String> {
        some_time("latency", self.latency)?;
        at_most("latency", self.latency.as_secs_f64(), 5.0)?;
        above_zero("full", self.full)?;
        above_zero("steepness", self.steepness)?;
        some_time("give_up", self.give_up)?;
        whole_seconds("outage_begins", self.outage_begins)?;
        whole_seconds("outage_length", self.outage_length)?;
        let length = self.outage_ends() + self.give_up;
        self.fleet().bearable(length, self.attempts)
    }

    fn run(&self, seed: u64) -> Result<Report, BoxError> {
        let recovery = |arrangement| self.measure(arrangement, seed);
        let no_retries = recovery(Arrangement::NoRetries)?;
        let retries_alone = recovery(Arrangement::RetriesAlone)?;
        let budget = recovery(Arrangement::BudgetOnly)?;
        let breaker = recovery(Arrangement::BreakerOnly)?;
        let steadfast = recovery(Arrangement::Steadfast)?;
        let mut table = Table::new(["", "recovered after"]);
        for (arrangement, seconds) in Arrangement::ALL.into_iter().zip([
            no_retries,
            retries_alone,
            budget,
            breaker,
            steadfast,
        ]) {
            let label = arrangement.label().to_owned();
            table.row([label, seconds_or_never(seconds)]);
        }
        Ok(Report {
            table: table.render(),
            meaning: format!(
                "Seconds from the end of the outage to the first second of arrival whose requests \
                 were answered to {:.0} % or more; never: not within {} s. All rows are the \
                 library's own parts on their defaults. With retries alone the failures feed the \
                 load that causes them. A budget takes that away at once. A breaker waits out its \
                 open time and then lets the traffic back by shares: the price of sparing a \
                 dependency whose queue needs the rest (see retry_storm).",
                RECOVERED * 100.0,
                self.give_up.as_secs_f64(),
            ),
            bands: vec![
                Band::new(
                    "load_feedback.retries_alone_s",
                    or_never(retries_alone),
                    f64::INFINITY..=f64::INFINITY,
                ),
                Band::new("load_feedback.budget_s", or_never(budget), 0.0..=5.0),
                Band::new("load_feedback.breaker_s", or_never(breaker), 0.0..=45.0),
                Band::new("load_feedback.steadfast_s", or_never(steadfast), 0.0..=45.0),
            ],
            charts: Vec::new(),
            json: json!({
                "retries_alone_s": retries_alone,
                "budget_s": budget,
                "breaker_s": breaker,
                "steadfast_s": steadfast,
            }),
        })
    }
}
