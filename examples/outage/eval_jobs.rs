//! A night of evaluation jobs against a dependency that is down when they start: with each job left
//! to its own retries, with a breaker whose refusals park a job instead of failing it, and with the
//! parking left to the library.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::num::NonZeroU32;
use std::time::Duration;

use rand::RngExt;
use serde_json::json;
use steadfast::defer::DeferLayer;
use steadfast::{Backoff, ErrorKind, Policy, ServiceBuilderExt};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt};

use super::clock::{self, arrival, wait_until};
use super::dependency::Dependency;
use super::inputs::{Input, grouped};
use super::parts::steady_breaker;
use super::random;
use super::report::{Band, Report, Table};
use super::scenario::{Scenario, above_zero, at_most, reference, some_time};

/// The inputs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EvalJobs {
    pub(crate) jobs: NonZeroU32,
    pub(crate) rate: f64,
    pub(crate) outage: Duration,
    /// What a job waits before each of its retries.
    pub(crate) backoff: Vec<Duration>,
    pub(crate) threshold: NonZeroU32,
    pub(crate) cooldown: Duration,
    pub(crate) park: Duration,
    /// How much longer a jittered park may be, as a share of it.
    pub(crate) park_jitter: f64,
}

impl Default for EvalJobs {
    fn default() -> Self {
        Self {
            jobs: const { NonZeroU32::new(3_000).unwrap() },
            rate: 5.0,
            outage: Duration::from_secs(300),
            backoff: vec![Duration::from_secs(1), Duration::from_secs(2)],
            threshold: const { NonZeroU32::new(3).unwrap() },
            cooldown: Duration::from_secs(30),
            park: Duration::from_secs(30),
            park_jitter: 1.0,
        }
    }
}

/// What became of the jobs.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Counts {
    pub(crate) failed_sends: u64,
    pub(crate) successes: u64,
    pub(crate) given_up: u64,
    pub(crate) refusals: u64,
}

/// What became of jobs that the library puts off.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Deferred {
    pub(crate) failed_sends: u64,
    pub(crate) successes: u64,
    pub(crate) given_up: u64,
    /// The most sends within a second after the recovery.
    pub(crate) peak_per_second: u64,
    /// When the last job was done, from the first.
    pub(crate) last_done: Duration,
}

/// The figures of all runs.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    pub(crate) without: Counts,
    pub(crate) with: Counts,
    /// The most sends within a second after the recovery when every park is equally long.
    pub(crate) peak_lockstep: u64,
    /// The same when parks differ.
    pub(crate) peak_jittered: u64,
    /// With the parking left to the library.
    pub(crate) deferred: Deferred,
}

impl EvalJobs {
    /// Measures all runs.
    ///
    /// # Errors
    ///
    /// When a policy cannot be built.
    pub(crate) fn measure(&self, seed: u64) -> Result<Figures, BoxError> {
        let mut random = random::stream(seed, "eval_jobs park");
        let longest = self.park.as_millis() as f64 * self.park_jitter;
        let (without, _) = clock::paused(self.jobs(false, || self.park))?;
        let (with, peak_lockstep) = clock::paused(self.jobs(true, || self.park))?;
        let (_, peak_jittered) = clock::paused(self.jobs(true, || {
            self.park + Duration::from_millis((longest * random.random::<f64>()) as u64)
        }))?;
        Ok(Figures {
            without,
            with,
            peak_lockstep,
            peak_jittered,
            deferred: clock::paused(self.deferred())?,
        })
    }

    /// The same jobs without a loop of their own: each makes one call, and the stack owns retries
    /// and parking. Every job is a task.
    async fn deferred(&self) -> Result<Deferred, BoxError> {
        let dependency = Dependency::down_for(self.outage);
        let policy = Policy::builder("dependency")
            .no_deadline()
            .max_attempts(self.backoff.len() as u32 + 1)
            .backoff(self.doubling())
            .no_retry_budget()
            .breaker(steady_breaker(self.threshold, self.cooldown));
        let defer = DeferLayer::new().calls(self.jobs.get() as usize);
        // As long as it takes: what is measured is how long that is.
        let stack = ServiceBuilder::new()
            .deferring_resilience(policy.build()?, defer.longest(Duration::MAX))
            .service(dependency.clone());

        let mut jobs = JoinSet::new();
        for job in 0..self.jobs.get() {
            let stack = stack.clone();
            let at = dependency.since() + arrival(job, self.rate);
            jobs.spawn(async move {
                wait_until(at).await;
                (stack.oneshot(()).await.is_ok(), Instant::now())
            });
        }
        let (mut successes, mut given_up, mut last_done) = (0, 0, dependency.since());
        while let Some(job) = jobs.join_next().await {
            let (succeeded, done) = job?;
            successes += u64::from(succeeded);
            given_up += u64::from(!succeeded);
            last_done = last_done.max(done);
        }
        Ok(Deferred {
            failed_sends: dependency.failed_sends(),
            successes,
            given_up,
            peak_per_second: peak_per_second(&dependency, self.outage),
            last_done: last_done - dependency.since(),
        })
    }

    /// The job loop's own waits as a backoff: they double, or differ from it but little.
    fn doubling(&self) -> Backoff {
        match (self.backoff.first(), self.backoff.last()) {
            (Some(&first), Some(&last)) if !first.is_zero() => {
                Backoff::exponential(first, last.max(first))
            }
            _ => Backoff::none(),
        }
    }

    /// The job loop, which is not the library's: it owns the retries and the parking; the library
    /// makes single attempts and, with a breaker, refuses. Jobs at one instant go in their order.
    async fn jobs(
        &self,
        with_breaker: bool,
        mut park: impl FnMut() -> Duration,
    ) -> Result<(Counts, u64), BoxError> {
        let dependency = Dependency::down_for(self.outage);
        let policy = Policy::builder("dependency")
            .max_attempts(1)
            .no_retry_budget();
        let policy = match with_breaker {
            true => policy.breaker(steady_breaker(self.threshold, self.cooldown)),
            false => policy.no_breaker(),
        };
        let mut stack = ServiceBuilder::new()
            .resilience(policy.build()?)
            .service(dependency.clone());

        let mut counts = Counts::default();
        let mut due: BinaryHeap<_> = (0..self.jobs.get())
            .map(|job| Reverse((arrival(job, self.rate), job, 0)))
            .collect();
        while let Some(Reverse((at, job, retries))) = due.pop() {
            wait_until(dependency.since() + at).await;
            match stack.ready().await?.call(()).await {
                Ok(()) => counts.successes += 1,
                Err(error) if error.kind() == ErrorKind::Refused => {
                    counts.refusals += 1;
                    due.push(Reverse((at + park(), job, retries)));
                }
                Err(_) => {
                    counts.failed_sends += 1;
                    match self.backoff.get(retries) {
                        Some(&wait) => due.push(Reverse((at + wait, job, retries + 1))),
                        None => counts.given_up += 1,
                    }
                }
            }
        }
        // The count is the dependency's own, and the jobs' view must agree with it.
        if counts.failed_sends != dependency.failed_sends() {
            return Err("the jobs and the dependency disagree about what was sent".into());
        }
        Ok((counts, peak_per_second(&dependency, self.outage)))
    }
}

/// The most sends within any one second after `recovery`.
fn peak_per_second(dependency: &Dependency, recovery: Duration) -> u64 {
    let sends = dependency.sends();
    let times: Vec<Duration> = sends
        .iter()
        .map(|send| send.at)
        .filter(|&at| at >= recovery)
        .collect();
    let mut first = 0;
    let mut peak = 0;
    for (last, &at) in times.iter().enumerate() {
        while at - times[first] >= Duration::from_secs(1) {
            first += 1;
        }
        peak = peak.max(last - first + 1);
    }
    peak as u64
}

impl Scenario for EvalJobs {
    fn name(&self) -> &'static str {
        "eval_jobs"
    }

    fn summary(&self) -> &'static str {
        "jobs through an outage: on their own retries, parked by a shared breaker, or deferred"
    }

    fn inputs(&mut self) -> Vec<Input<'_>> {
        vec![
            Input::new("jobs", "how many jobs there are", &mut self.jobs),
            Input::new("rate", "jobs that start per second", &mut self.rate),
            Input::new(
                "outage",
                "seconds for which the dependency is down",
                &mut self.outage,
            ),
            Input::new(
                "backoff",
                "seconds before each retry of a job",
                &mut self.backoff,
            ),
            Input::new(
                "threshold",
                "failures in a row that open the breaker",
                &mut self.threshold,
            ),
            Input::new(
                "cooldown",
                "seconds for which it stays open",
                &mut self.cooldown,
            ),
            Input::new(
                "park",
                "seconds for which a refused job is parked",
                &mut self.park,
            ),
            Input::new(
                "park_jitter",
                "how much longer, as a share of it",
                &mut self.park_jitter,
            ),
        ]
    }

    fn check(&self) -> Result<(), String> {
        at_most("jobs", self.jobs.get().into(), 100_000.0)?;
        above_zero("rate", self.rate)?;
        some_time("cooldown", self.cooldown)?;
        some_time("park", self.park)?;
        at_most("park_jitter", self.park_jitter, 100.0)?;
        let parkings = self.outage.max(self.cooldown).as_secs_f64() / self.park.as_secs_f64();
        if parkings * f64::from(self.jobs.get()) > 5e6 {
            return Err(format!(
                "park={}: with jobs, outage and cooldown as they are must come to at most 5000000 \
                 refusals",
                self.park.as_secs_f64()
            ));
        }
        Ok(())
    }

    fn run(&self, seed: u64) -> Result<Report, BoxError> {
        let published = *self == Self::default();
        let figures = self.measure(seed)?;
        let Figures {
            without,
            with,
            peak_lockstep,
            peak_jittered,
            deferred,
        } = &figures;
        let last_done = deferred.last_done.as_secs_f64();
        let mut table = Table::new([
            "",
            "reference",
            "no breaker",
            "reference",
            "with breaker",
            "reference",
            "deferred",
        ]);
        let mut row = |what: &str, references: [&str; 3], ours: [Option<u64>; 3]| {
            let [first, second, third] = ours.map(|ours| ours.map(grouped).unwrap_or_default());
            table.row([
                what.to_owned(),
                reference(published, references[0]),
                first,
                reference(published, references[1]),
                second,
                reference(published, references[2]),
                third,
            ]);
        };
        row(
            "sends that failed",
            ["4,480", "12", "10..14"],
            [
                Some(without.failed_sends),
                Some(with.failed_sends),
                Some(deferred.failed_sends),
            ],
        );
        row(
            "jobs that succeeded",
            ["1,515", "3,000", "3,000"],
            [
                Some(without.successes),
                Some(with.successes),
                Some(deferred.successes),
            ],
        );
        row(
            "jobs given up",
            ["1,485", "0", "0"],
            [
                Some(without.given_up),
                Some(with.given_up),
                Some(deferred.given_up),
            ],
        );
        row(
            "refusals, at no cost",
            ["0", "8,270", ""],
            [Some(without.refusals), Some(with.refusals), None],
        );
        row(
            "most sends a second, after",
            ["", "", "..10"],
            [None, Some(*peak_lockstep), Some(deferred.peak_per_second)],
        );
        row(
            "seconds to the last",
            ["", "", "..700"],
            [None, None, Some(last_done.round() as u64)],
        );
        let counts = |counts: &Counts| {
            json!({
                "failed_sends": counts.failed_sends,
                "successes": counts.successes,
                "given_up": counts.given_up,
                "refusals": counts.refusals,
            })
        };
        let band = |name: &str, ours: u64, expected: u32| {
            Band::exactly(format!("eval_jobs.{name}"), ours as f64, expected.into())
        };
        let at_most = |name: &str, ours: f64, most: f64| {
            Band::new(format!("eval_jobs.deferred.{name}"), ours, 0.0..=most)
        };
        Ok(Report {
            table: table.render(),
            meaning: format!(
                "In the first two the job loop is the example's own; a breaker shared by all jobs \
                 turns a lost night into a late one. But its parked jobs come back together: after \
                 the recovery up to {peak_lockstep} sends in one second when every park is equally \
                 long, {peak_jittered} when it is jittered upward. Deferred by the stack they come \
                 back one for each new job that is admitted: at most {} in one second.",
                deferred.peak_per_second
            ),
            charts: Vec::new(),
            bands: vec![
                band("without.failed_sends", without.failed_sends, 4_480),
                band("without.successes", without.successes, 1_515),
                band("without.given_up", without.given_up, 1_485),
                band("without.refusals", without.refusals, 0),
                band("with.failed_sends", with.failed_sends, 12),
                band("with.successes", with.successes, 3_000),
                band("with.given_up", with.given_up, 0),
                band("with.refusals", with.refusals, 8_270),
                Band::new(
                    "eval_jobs.deferred.failed_sends",
                    deferred.failed_sends as f64,
                    10.0..=14.0,
                ),
                band("deferred.successes", deferred.successes, 3_000),
                band("deferred.given_up", deferred.given_up, 0),
                at_most("peak_per_second", deferred.peak_per_second as f64, 10.0),
                at_most("last_done_s", last_done, 700.0),
                Band::new(
                    "eval_jobs.recovery_peak_per_second.jittered",
                    *peak_jittered as f64,
                    1.0..=*peak_lockstep as f64 - 1.0,
                ),
            ],
            json: json!({
                "without": counts(without),
                "with": counts(with),
                "deferred": {
                    "failed_sends": deferred.failed_sends,
                    "successes": deferred.successes,
                    "given_up": deferred.given_up,
                    "peak_per_second": deferred.peak_per_second,
                    "last_done_s": last_done,
                },
                "recovery_peak_per_second": {
                    "lockstep": peak_lockstep,
                    "jittered": peak_jittered,
                },
            }),
        })
    }
}
