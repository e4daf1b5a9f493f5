//! How many sends one request becomes when several layers retry, and how few it stays when the
//! layers are steadfast stacks.

use std::num::NonZeroU32;

use serde_json::json;
use steadfast::{Backoff, Policy, ServiceBuilderExt};
use tower::util::BoxCloneService;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt};

use super::clock;
use super::inputs::{Input, joined};
use super::mean::Mean;
use super::random;
use super::report::{Band, Report, Table};
use super::scenario::{Scenario, at_most};
use super::scripted::Scripted;

/// The inputs: every failure probability meets every stack of layers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Amplification {
    pub(crate) f: Vec<f64>,
    pub(crate) retries: Vec<Vec<u32>>,
    pub(crate) precision: f64,
    pub(crate) requests: NonZeroU32,
}

/// The published rows: failure probability, retries from the innermost layer outward, and sends per
/// request. Three layers of three retries, the same with two innermost, three attempts in each
/// layer, and one layer against a dependency that fails now and then.
pub(crate) const PUBLISHED: [(f64, &[u32], &str); 12] = [
    (0.1, &[3, 3, 3], "1.11"),
    (0.5, &[3, 3, 3], "2.0"),
    (0.9, &[3, 3, 3], "9.99"),
    (0.99, &[3, 3, 3], "47.44"),
    (1.0, &[3, 3, 3], "64"),
    (0.1, &[2, 3, 3], "1.11"),
    (0.5, &[2, 3, 3], "2.0"),
    (0.9, &[2, 3, 3], "9.94"),
    (0.99, &[2, 3, 3], "38.27"),
    (1.0, &[2, 3, 3], "48"),
    (1.0, &[2, 2, 2], "27"),
    (0.2, &[2], "1.24"),
];

impl Default for Amplification {
    fn default() -> Self {
        Self {
            f: vec![0.1, 0.5, 0.9, 0.99, 1.0],
            retries: vec![vec![3, 3, 3], vec![2, 3, 3]],
            precision: 0.01,
            requests: const { NonZeroU32::new(10_000).unwrap() },
        }
    }
}

/// The figures of one failure probability and one stack of layers.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) f: f64,
    /// The retries that each layer may make, the innermost first.
    pub(crate) retries: Vec<u32>,
    /// Mean sends per request by the formula.
    pub(crate) expected: f64,
    /// Mean sends per request through plain loops.
    pub(crate) measured: f64,
    /// Mean sends per request through nested stacks.
    pub(crate) nested_steadfast: f64,
    /// The most that any one request sent through nested stacks.
    pub(crate) nested_max: u64,
}

impl Amplification {
    /// What to measure: the published rows, or every probability with every stack as soon as one of
    /// the two is changed.
    fn cases(&self) -> Vec<(f64, Vec<u32>)> {
        let published = Self::default();
        if self.f == published.f && self.retries == published.retries {
            return PUBLISHED
                .iter()
                .map(|&(f, retries, _)| (f, retries.to_vec()))
                .collect();
        }
        let stacks = self.retries.iter();
        stacks
            .flat_map(|retries| self.f.iter().map(|&f| (f, retries.clone())))
            .collect()
    }

    /// Whether a mean is as near as it is to be: five standard errors fit into the precision, so
    /// that a mean outside of it is a one-in-a-million event and not a reason to run with another
    /// seed.
    fn is_enough(&self, mean: &Mean) -> bool {
        mean.count >= self.requests.get() && 5.0 * mean.error() <= self.precision * mean.mean
    }

    /// Measures every row.
    ///
    /// # Errors
    ///
    /// When a policy cannot be built.
    pub(crate) fn measure(&self, seed: u64) -> Result<Vec<Row>, BoxError> {
        let measure = |(f, retries): (f64, Vec<u32>)| {
            let purpose = format!("{f} {retries:?}");
            let scripted = || Scripted::new(f, random::stream(seed, &purpose));
            let mut mean = Mean::default();
            let plain = scripted();
            while !self.is_enough(&mean) {
                let before = plain.sends();
                plain_loops(&plain, &retries);
                mean.add(plain.sends() - before);
            }
            let nested = clock::paused(self.through_stacks(scripted(), &retries))?;
            Ok(Row {
                f,
                expected: expected(f, &retries),
                measured: mean.mean,
                nested_steadfast: nested.mean,
                nested_max: nested.most,
                retries,
            })
        };
        self.cases().into_iter().map(measure).collect()
    }

    /// The same layers, each a steadfast stack with the same number of attempts and nothing else that
    /// could limit the sends.
    async fn through_stacks(&self, scripted: Scripted, retries: &[u32]) -> Result<Mean, BoxError> {
        let mut service: BoxCloneService<(), (), BoxError> =
            BoxCloneService::new(scripted.clone().map_err(BoxError::from));
        for &retries in retries {
            let policy = Policy::builder("layer")
                .max_attempts(retries + 1)
                .backoff(Backoff::none())
                .no_deadline()
                .no_attempt_timeout()
                .no_retry_budget()
                .no_breaker()
                .build()?;
            let stack = ServiceBuilder::new().resilience(policy).service(service);
            service = BoxCloneService::new(stack.map_err(BoxError::from));
        }
        let mut mean = Mean::default();
        while !self.is_enough(&mean) {
            let before = scripted.sends();
            // Whether it was answered does not matter here, only what it cost.
            let _ = service.ready().await?.call(()).await;
            mean.add(scripted.sends() - before);
        }
        Ok(mean)
    }
}

/// The formula, for the reference column: a layer calls the one below once, and again after each
/// failure while it has retries left, so its calls are a geometric series in the failure
/// probability of the layer below; what it hands up failed only if every one of them did.
pub(crate) fn expected(f: f64, retries: &[u32]) -> f64 {
    let layer = |(sends, fails): (f64, f64), &retries: &u32| {
        let mut calls = 0.0;
        let mut all_failed = 1.0;
        for _ in 0..=retries {
            calls += all_failed;
            all_failed *= fails;
        }
        (sends * calls, all_failed)
    };
    retries.iter().fold((1.0, f), layer).0
}

/// The most that a layer with so many retries calls the one below.
fn attempts(retries: &u32) -> f64 {
    f64::from(*retries) + 1.0
}

/// The published figure for a row, if it is one of the published.
fn published(f: f64, retries: &[u32]) -> Option<&'static str> {
    let row = PUBLISHED
        .iter()
        .find(|row| row.0 == f && row.1 == retries)?;
    Some(row.2)
}

/// The comparator: one loop per layer, each of which knows nothing of the others. Whether the
/// request was answered in the end.
fn plain_loops(service: &Scripted, retries: &[u32]) -> bool {
    match retries.split_last() {
        None => service.attempt(),
        Some((&retries, below)) => (0..=retries).any(|_| plain_loops(service, below)),
    }
}

impl Scenario for Amplification {
    fn name(&self) -> &'static str {
        "amplification"
    }

    fn summary(&self) -> &'static str {
        "sends per request when several layers retry"
    }

    fn inputs(&mut self) -> Vec<Input<'_>> {
        vec![
            Input::new("f", "probability that an attempt fails", &mut self.f),
            Input::new(
                "retries",
                "retries of each layer, innermost first; more stacks after slashes",
                &mut self.retries,
            ),
            Input::new(
                "precision",
                "how near the means are to be measured",
                &mut self.precision,
            ),
            Input::new(
                "requests",
                "how many are measured at least",
                &mut self.requests,
            ),
        ]
    }

    fn check(&self) -> Result<(), String> {
        for &f in &self.f {
            at_most("f", f, 1.0)?;
        }
        for retries in &self.retries {
            let most: f64 = retries.iter().map(attempts).product();
            if most > 10_000.0 || retries.len() > 8 {
                let retries = joined(retries, ",");
                return Err(format!(
                    "retries={retries}: must come to at most 10000 sends in at most 8 layers"
                ));
            }
        }
        at_most("requests", self.requests.get().into(), 1e6)?;
        if !(0.001..=0.5).contains(&self.precision) {
            return Err(format!(
                "precision={}: must be 0.001 to 0.5",
                self.precision
            ));
        }
        Ok(())
    }

    fn run(&self, seed: u64) -> Result<Report, BoxError> {
        let rows = self.measure(seed)?;
        let mut table = Table::new([
            "f",
            "retries",
            "reference",
            "formula",
            "plain loops",
            "nested steadfast",
            "its most",
        ]);
        let mut bands = Vec::new();
        let mut json = Vec::new();
        for row in &rows {
            let Row {
                f,
                retries,
                expected,
                measured,
                nested_steadfast,
                nested_max,
            } = row;
            let layers = joined(retries, ",");
            table.row([
                f.to_string(),
                layers.clone(),
                published(*f, retries).unwrap_or("-").to_owned(),
                format!("{expected:.2}"),
                format!("{measured:.2}"),
                format!("{nested_steadfast:.2}"),
                nested_max.to_string(),
            ]);
            let figure = |name: &str| format!("amplification[f={f}, retries={layers}].{name}");
            let innermost = retries.first().map_or(1.0, attempts);
            let most = *nested_max as f64;
            if *f < 1.0 {
                let band = 0.99 * expected..=1.01 * expected;
                bands.push(Band::new(figure("measured"), *measured, band));
                bands.push(Band::new(figure("nested_max"), most, 1.0..=innermost));
            } else {
                let all = retries.iter().map(attempts).product();
                bands.push(Band::exactly(figure("measured"), *measured, all));
                bands.push(Band::exactly(figure("nested_max"), most, innermost));
            }
            json.push(json!({
                "f": f,
                "retries": retries,
                "expected": expected,
                "measured": measured,
                "nested_steadfast": nested_steadfast,
                "nested_max": nested_max,
            }));
        }
        Ok(Report {
            table: table.render(),
            meaning: String::from(
                "Retries in several layers multiply (the plain loops are the comparator, the \
                 formula is where the reference comes from), and most of all when every attempt fails; nested steadfast \
                 stacks never send more than the innermost may, because a loop does not repeat \
                 what the loop below has given up.",
            ),
            json: json.into(),
            charts: Vec::new(),
            bands,
        })
    }
}
