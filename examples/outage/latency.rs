//! What a dependency that rejects quickly does to callers who wait: with retries and a second provider
//! all are answered, and many too late, unless a breaker remembers and a deadline is known.

use std::num::NonZeroU32;
use std::time::Duration;

use serde_json::json;
use steadfast::fallback::{self, FallbackLayer};
use steadfast::{
    Backoff, BreakerConfig, CallReport, Deadline, Policy, ServedBy, ServiceBuilderExt, Window,
};
use tower::{BoxError, ServiceBuilder, ServiceExt};

use super::callers::{Callers, Providers, Run};
use super::chart::{Chart, Ink, Line, Scale};
use super::clock;
use super::inputs::Input;
use super::provider::{AnsweredBy, Manners, Provider, doubled, plain_loop};
use super::random;
use super::report::{Band, Rendered, Report, Table};
use super::scenario::{Scenario, above_zero, at_most, reference, some_time};

/// The inputs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Latency {
    pub(crate) requests: NonZeroU32,
    pub(crate) rate: f64,
    /// The share of attempts that the primary rejects.
    pub(crate) rejects: f64,
    /// The probability that an attempt ends as the one before, for the run with correlated failures.
    pub(crate) correlation: f64,
    pub(crate) rejection: Duration,
    pub(crate) answer: Duration,
    pub(crate) secondary: Duration,
    pub(crate) attempts: NonZeroU32,
    pub(crate) backoff: Duration,
    pub(crate) caller_leaves: Duration,
    /// The failure rate at which the breaker opens.
    pub(crate) threshold: f64,
    /// What is kept of the caller's time for the secondary.
    pub(crate) reserve: Duration,
}

impl Default for Latency {
    fn default() -> Self {
        Self {
            requests: const { NonZeroU32::new(20_000).unwrap() },
            rate: 50.0,
            rejects: 0.4,
            correlation: 0.5,
            rejection: Duration::from_millis(150),
            answer: Duration::from_millis(2_400),
            secondary: Duration::from_millis(2_600),
            attempts: const { NonZeroU32::new(4).unwrap() },
            backoff: Duration::from_secs(1),
            caller_leaves: Duration::from_secs(8),
            threshold: 0.25,
            reserve: Duration::from_secs(3),
        }
    }
}

/// The figures of all runs.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    /// The plain loop over a primary that never rejects.
    pub(crate) healthy: Run,
    /// The plain loop, each attempt rejected on its own.
    pub(crate) retry_only: Run,
    /// The plain loop, where a request that was rejected is likely to be rejected again.
    pub(crate) retry_only_correlated: Run,
    /// The stack, each attempt rejected on its own.
    pub(crate) steadfast: Run,
    /// The stack, with the same correlation as the loop.
    pub(crate) steadfast_correlated: Run,
}

impl Latency {
    /// Measures all runs.
    ///
    /// # Errors
    ///
    /// When a policy cannot be built.
    pub(crate) fn measure(&self, seed: u64) -> Result<Figures, BoxError> {
        let healthy = Manners::healthy(self.answer);
        let on_its_own = Manners {
            rejects: self.rejects,
            correlation: 0.0,
            rejection: self.rejection,
            answer: self.answer,
        };
        let correlated = Manners {
            correlation: self.correlation,
            ..on_its_own
        };
        Ok(Figures {
            healthy: clock::paused(self.retry_only(seed, healthy))?,
            retry_only: clock::paused(self.retry_only(seed, on_its_own))?,
            retry_only_correlated: clock::paused(self.retry_only(seed, correlated))?,
            steadfast: clock::paused(self.steadfast(seed, on_its_own))?,
            steadfast_correlated: clock::paused(self.steadfast(seed, correlated))?,
        })
    }

    /// The comparator: the plain loop.
    async fn retry_only(&self, seed: u64, manners: Manners) -> Result<Run, BoxError> {
        let providers = self.providers(seed, manners);
        let waits = doubled(self.backoff, self.attempts.get());
        let run = self
            .callers()
            .served(&providers, |request| {
                let Providers { primary, secondary } = providers.clone();
                let waits = waits.clone();
                async move { plain_loop(&primary, &secondary, &waits, request).await.ok() }
            })
            .await;
        Ok(run)
    }

    /// The stack: the same attempts and the same windows of backoff, but jittered, below a breaker
    /// and within the time that the caller has, which is in scope around each call.
    async fn steadfast(&self, seed: u64, manners: Manners) -> Result<Run, BoxError> {
        let providers = self.providers(seed, manners);
        let policy = Policy::builder("primary")
            .max_attempts(self.attempts.get())
            .backoff(Backoff::full_jitter(self.backoff, Duration::from_secs(86_400)).seed(seed))
            // No retry that could not be answered any more: nothing was ever answered faster.
            .min_useful_time(self.answer)
            .breaker(
                BreakerConfig::failure_rate(self.threshold)
                    .window(Window::time(Duration::from_secs(10)))
                    .min_calls(20)
                    .growth(1.0)
                    .no_ramp()
                    .open_jitter(0.0),
            )
            .build()?;
        let stack = ServiceBuilder::new()
            .layer(
                FallbackLayer::new(fallback::service(providers.secondary.service()))
                    .reserve(self.reserve),
            )
            .resilience(policy)
            .service(providers.primary.service());
        let run = self
            .callers()
            .served(&providers, |request| {
                let call = CallReport::capture(stack.clone().oneshot(request));
                let call = Deadline::after(self.caller_leaves).scope(call);
                async move {
                    let (answer, report) = call.await;
                    answer.ok()?;
                    Some(match report.map(|report| report.served_by()) {
                        Some(ServedBy::Fallback(_)) => AnsweredBy::Secondary,
                        _ => AnsweredBy::Primary,
                    })
                }
            })
            .await;
        Ok(run)
    }

    fn callers(&self) -> Callers {
        Callers {
            count: self.requests,
            rate: self.rate,
            leave_after: self.caller_leaves,
        }
    }

    fn providers(&self, seed: u64, manners: Manners) -> Providers {
        let random = |purpose| random::stream(seed, purpose);
        Providers {
            primary: Provider::new(manners, random("latency primary")),
            secondary: Provider::new(
                Manners::healthy(self.secondary),
                random("latency secondary"),
            ),
        }
    }
}

impl Scenario for Latency {
    fn name(&self) -> &'static str {
        "latency"
    }

    fn summary(&self) -> &'static str {
        "how long callers wait while a primary rejects some of the attempts"
    }

    fn inputs(&mut self) -> Vec<Input<'_>> {
        vec![
            Input::new("requests", "how many there are", &mut self.requests),
            Input::new("rate", "requests per second", &mut self.rate),
            Input::new(
                "rejects",
                "share of attempts that the primary rejects",
                &mut self.rejects,
            ),
            Input::new(
                "correlation",
                "how surely an attempt ends as the one before",
                &mut self.correlation,
            ),
            Input::new("rejection", "seconds it takes over it", &mut self.rejection),
            Input::new(
                "answer",
                "seconds it takes over an answer",
                &mut self.answer,
            ),
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
                "caller_leaves",
                "seconds after which the caller leaves",
                &mut self.caller_leaves,
            ),
            Input::new(
                "threshold",
                "failure rate at which the breaker opens",
                &mut self.threshold,
            ),
            Input::new(
                "reserve",
                "seconds of them kept for the secondary",
                &mut self.reserve,
            ),
        ]
    }

    fn check(&self) -> Result<(), String> {
        at_most("requests", self.requests.get().into(), 200_000.0)?;
        above_zero("rate", self.rate)?;
        at_most("rate", self.rate, 10_000.0)?;
        at_most("rejects", self.rejects, 1.0)?;
        at_most("correlation", self.correlation, 1.0)?;
        at_most("attempts", self.attempts.get().into(), 10.0)?;
        above_zero("threshold", self.threshold)?;
        at_most("threshold", self.threshold, 1.0)?;
        some_time("caller_leaves", self.caller_leaves)
    }

    fn run(&self, seed: u64) -> Result<Report, BoxError> {
        let published = *self == Self::default();
        let figures = self.measure(seed)?;
        let Figures {
            healthy,
            retry_only,
            retry_only_correlated,
            steadfast,
            steadfast_correlated,
        } = &figures;
        let p99 = |run: &Run| run.percentile(0.99).as_secs_f64();
        let p50 = |run: &Run| run.percentile(0.5).as_secs_f64();
        Ok(Report {
            table: self.table(published, &figures),
            meaning: format!(
                "The loop is plain lines: it tells nobody what it has found out, so every caller is \
                 answered in the end, {:.1} % of them after they have left. When a rejection makes \
                 the next one likelier ({:.0} % of the attempts end as the one before), {:.1} % take \
                 the full path instead of {:.1} %. The stack has the same attempts and windows of \
                 backoff: its breaker sends most requests to the secondary at once (which must be \
                 sized for them), and the caller's deadline ends what nobody waits for.",
                (1.0 - retry_only.in_time) * 100.0,
                self.correlation * 100.0,
                retry_only_correlated.by_secondary * 100.0,
                retry_only.by_secondary * 100.0,
            ),
            charts: vec![self.chart(&figures)],
            bands: vec![
                Band::new("latency.healthy_p99_s", p99(healthy), 2.35..=2.45),
                Band::new("latency.retry_only_p50_s", p50(retry_only), 2.35..=2.45),
                Band::new("latency.retry_only_p99_s", p99(retry_only), 9.5..=10.5),
                Band::new(
                    "latency.full_path_share",
                    retry_only.by_secondary,
                    0.02..=0.032,
                ),
                Band::new(
                    "latency.full_path_share_correlated",
                    retry_only_correlated.by_secondary,
                    2.0 * retry_only.by_secondary..=1.0,
                ),
                Band::new(
                    "latency.sends_after_caller_left",
                    retry_only.sends_after_caller_left as f64,
                    1.0..=f64::INFINITY,
                ),
                Band::new(
                    "latency.steadfast_p99_s",
                    p99(steadfast),
                    0.0..=p99(retry_only) / 2.0,
                ),
                Band::exactly(
                    "latency.steadfast_sends_after_caller_left",
                    steadfast.sends_after_caller_left as f64,
                    0.0,
                ),
                Band::new("latency.availability", steadfast.in_time, 0.999..=1.0),
                Band::exactly(
                    "latency with correlation: sends after the caller left",
                    steadfast_correlated.sends_after_caller_left as f64,
                    0.0,
                ),
            ],
            json: json!({
                "healthy_p99_s": p99(healthy),
                "retry_only_p50_s": p50(retry_only),
                "retry_only_p99_s": p99(retry_only),
                "full_path_share": retry_only.by_secondary,
                "full_path_share_correlated": retry_only_correlated.by_secondary,
                "sends_after_caller_left": retry_only.sends_after_caller_left,
                "steadfast_p50_s": p50(steadfast),
                "steadfast_p99_s": p99(steadfast),
                "steadfast_sends_after_caller_left": steadfast.sends_after_caller_left,
                "availability": steadfast.in_time,
                "served_by_secondary": steadfast.by_secondary,
            }),
        })
    }
}

impl Latency {
    /// Every percentile of the waits.
    fn chart(&self, figures: &Figures) -> Chart {
        let runs = [
            ("a healthy primary", Ink::NoRetries, &figures.healthy),
            ("retries alone", Ink::RetriesAlone, &figures.retry_only),
            ("steadfast", Ink::Steadfast, &figures.steadfast),
        ];
        let lines = runs.map(|(name, ink, run)| {
            let permille = 1..=1_000;
            let points = permille.map(|permille| {
                let share = f64::from(permille) / 1_000.0;
                (share * 100.0, run.percentile(share).as_secs_f64())
            });
            let points = points.collect();
            Line { name, ink, points }
        });
        let longest = lines.iter().flat_map(|line| &line.points);
        let longest = longest.map(|(_, seconds)| *seconds).fold(1.0, f64::max);
        Chart {
            title: format!(
                "Latency while {:.0} % of attempts are rejected; callers leave after {} s",
                self.rejects * 100.0,
                self.caller_leaves.as_secs_f64()
            ),
            x: "percentile of requests",
            y: "seconds until answered",
            x_range: 0.0..100.0,
            y_range: 0.0..longest.ceil() + 1.0,
            scale: Scale::Linear,
            shade: None,
            lines: lines.into(),
        }
    }

    fn table(&self, published: bool, figures: &Figures) -> Rendered {
        let runs = [
            &figures.retry_only,
            &figures.retry_only_correlated,
            &figures.steadfast,
            &figures.steadfast_correlated,
        ];
        let mut table = Table::new([
            "",
            "reference",
            "plain loop",
            "correlated",
            "steadfast",
            "correlated",
        ]);
        let mut row = |what: String, published_figure: &str, show: &dyn Fn(&Run) -> String| {
            let [a, b, c, d] = runs.map(show);
            table.row([what, reference(published, published_figure), a, b, c, d]);
        };
        let seconds = |time: Duration| format!("{:.2} s", time.as_secs_f64());
        let percent = |share: f64| format!("{:.2} %", share * 100.0);
        row("median".to_owned(), "unmoved", &|run| {
            seconds(run.percentile(0.5))
        });
        let healthy = seconds(figures.healthy.percentile(0.99));
        row(
            format!("99th percentile ({healthy} when healthy)"),
            "10.2 s",
            &|run| seconds(run.percentile(0.99)),
        );
        row("served by the secondary".to_owned(), "2.6 %", &|run| {
            percent(run.by_secondary)
        });
        row(
            format!(
                "answered before the caller left at {} s",
                self.caller_leaves.as_secs_f64()
            ),
            "-",
            &|run| percent(run.in_time),
        );
        row(
            "attempts at the primary per request".to_owned(),
            "-",
            &|run| format!("{:.2}", run.attempts_per_request),
        );
        row(
            "sends under way after the caller left".to_owned(),
            "above 0",
            &|run| run.sends_after_caller_left.to_string(),
        );
        row("of these, begun after it".to_owned(), "-", &|run| {
            run.begun_after_caller_left.to_string()
        });
        table.render()
    }
}
