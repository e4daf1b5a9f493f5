//! The smallest proof of the state machine: failures one second apart open the breaker, it stays
//! open for exactly its time, and then one probe passes however many callers wait.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::json;
use steadfast::{Policy, ServiceBuilderExt};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tower::{BoxError, Service, ServiceBuilder, ServiceExt, service_fn};

use super::clock::{self, wait_until};
use super::dependency::Down;
use super::inputs::Input;
use super::parts::steady_breaker;
use super::report::{Band, Report, Table};
use super::scenario::{Scenario, at_most, reference, some_time};

/// The inputs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Fixture {
    pub(crate) threshold: NonZeroU32,
    pub(crate) cooldown: Duration,
    /// The time between two failures.
    pub(crate) spacing: Duration,
    pub(crate) callers: NonZeroU32,
}

impl Default for Fixture {
    fn default() -> Self {
        Self {
            threshold: const { NonZeroU32::new(3).unwrap() },
            cooldown: Duration::from_secs(30),
            spacing: Duration::from_secs(1),
            callers: const { NonZeroU32::new(50).unwrap() },
        }
    }
}

/// What was found.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    /// Seconds from the first failure to the moment at which the breaker would admit a call again.
    pub(crate) open_until_seconds: f64,
    /// How many of the callers that came then reached the dependency before it had answered.
    pub(crate) probes: u64,
}

impl Fixture {
    /// How long the dependency takes over a probe: long enough for all callers to come meanwhile.
    const PROBE: Duration = Duration::from_secs(1);

    /// Runs the fixture.
    ///
    /// # Errors
    ///
    /// When the policy cannot be built, or the breaker was not open where it must be.
    pub(crate) fn measure(&self) -> Result<Figures, BoxError> {
        clock::paused(self.story())
    }

    async fn story(&self) -> Result<Figures, BoxError> {
        let failures = u64::from(self.threshold.get());
        let sends = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&sends);
        let dependency = service_fn(move |()| {
            let number = counter.fetch_add(1, Ordering::Relaxed);
            async move {
                if number < failures {
                    return Err(Down);
                }
                sleep(Self::PROBE).await;
                Ok(())
            }
        });
        let policy = Policy::builder("dependency")
            .max_attempts(1)
            .breaker(steady_breaker(self.threshold, self.cooldown))
            .build()?;
        let breaker = policy
            .breaker()
            .ok_or("the policy has lost its breaker")?
            .clone();
        let mut stack = ServiceBuilder::new().resilience(policy).service(dependency);

        let started = Instant::now();
        for failure in 0..self.threshold.get() {
            wait_until(started + self.spacing * failure).await;
            if breaker.would_admit().is_err() {
                return Err(format!("open after {failure} failures").into());
            }
            // It fails by design.
            let _ = stack.ready().await?.call(()).await;
        }

        // Asked at every tick of the clock: by a look that changes nothing, and, as long as that
        // says no, by a call, which must not get through either.
        let tick = Duration::from_millis(1);
        let give_up = Instant::now() + 2 * self.cooldown + tick;
        while breaker.would_admit().is_err() {
            if Instant::now() > give_up {
                return Err("the breaker stays open".into());
            }
            let refused = stack.ready().await?.call(()).await.is_err();
            if !refused || sends.load(Ordering::Relaxed) != failures {
                return Err("a call passed while the breaker said that none would".into());
            }
            sleep(tick).await;
        }
        let open_until_seconds = started.elapsed().as_secs_f64();

        let mut callers = JoinSet::new();
        for _ in 0..self.callers.get() {
            callers.spawn(stack.clone().oneshot(()));
        }
        sleep(Self::PROBE / 2).await;
        let probes = sends.load(Ordering::Relaxed) - failures;
        callers.join_all().await;
        Ok(Figures {
            open_until_seconds,
            probes,
        })
    }
}

impl Scenario for Fixture {
    fn name(&self) -> &'static str {
        "fixture"
    }

    fn summary(&self) -> &'static str {
        "how long the breaker stays open, and how many probes pass then"
    }

    fn inputs(&mut self) -> Vec<Input<'_>> {
        vec![
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
            Input::new("spacing", "seconds between two failures", &mut self.spacing),
            Input::new(
                "callers",
                "callers that come at once then",
                &mut self.callers,
            ),
        ]
    }

    fn check(&self) -> Result<(), String> {
        at_most("threshold", self.threshold.get().into(), 10_000.0)?;
        some_time("cooldown", self.cooldown)?;
        at_most("cooldown", self.cooldown.as_secs_f64(), 3_600.0)?;
        at_most("callers", self.callers.get().into(), 10_000.0)
    }

    fn run(&self, _seed: u64) -> Result<Report, BoxError> {
        let published = *self == Self::default();
        let Figures {
            open_until_seconds,
            probes,
        } = self.measure()?;
        let mut table = Table::new(["", "reference", "ours"]);
        table.row([
            "seconds from the first failure until a call is admitted again".to_owned(),
            reference(published, "32"),
            open_until_seconds.to_string(),
        ]);
        table.row([
            format!(
                "probes that pass when {} callers come at once",
                self.callers
            ),
            reference(published, "1"),
            probes.to_string(),
        ]);
        Ok(Report {
            table: table.render(),
            meaning: String::from(
                "Found by asking the breaker at every tick, not computed: the last failure opens \
                 it, its time passes, and one probe goes first however many wait.",
            ),
            charts: Vec::new(),
            bands: vec![
                Band::exactly("fixture.open_until_seconds", open_until_seconds, 32.0),
                Band::exactly("fixture.probes", probes as f64, 1.0),
            ],
            json: json!({ "open_until_seconds": open_until_seconds, "probes": probes }),
        })
    }
}
