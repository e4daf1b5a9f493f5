//! Callers who wait for so long and no longer, and how they fared.

use std::num::NonZeroU32;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::clock::{arrival, wait_until};
use super::provider::{AnsweredBy, Number, Provider};

/// How the callers of one run fared.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// How long each request took, the fastest first.
    took: Vec<Duration>,
    /// The share of requests that the secondary answered.
    pub(crate) by_secondary: f64,
    /// The share of requests that were answered before their caller left.
    pub(crate) in_time: f64,
    /// Attempts at the primary per request.
    pub(crate) attempts_per_request: f64,
    /// Sends to either provider that began when their caller had already left.
    pub(crate) begun_after_caller_left: u64,
    /// Sends to either provider that were still under way when their caller had already left: those
    /// that began then, and those that began before and went on.
    pub(crate) sends_after_caller_left: u64,
}

impl Run {
    /// The time within which this share of the requests was over, by the nearest rank.
    pub(crate) fn percentile(&self, share: f64) -> Duration {
        let rank = (self.took.len() as f64 * share).ceil() as usize;
        let index = rank.clamp(1, self.took.len().max(1)) - 1;
        self.took.get(index).copied().unwrap_or_default()
    }
}

/// A primary and a secondary with their records.
#[derive(Clone)]
pub(crate) struct Providers {
    pub(crate) primary: Provider,
    pub(crate) secondary: Provider,
}

/// Callers at even distances, each with one request.
pub(crate) struct Callers {
    pub(crate) count: NonZeroU32,
    /// How many come per second.
    pub(crate) rate: f64,
    /// How long each of them waits.
    pub(crate) leave_after: Duration,
}

impl Callers {
    /// All requests, each on its own task, and what became of them.
    pub(crate) async fn served<F>(&self, providers: &Providers, serve: impl Fn(Number) -> F) -> Run
    where
        F: Future<Output = Option<AnsweredBy>> + Send + 'static,
    {
        let began = Instant::now();
        let mut requests = JoinSet::new();
        for request in 0..self.count.get() {
            wait_until(began + arrival(request, self.rate)).await;
            let served = serve(request);
            let started = Instant::now();
            requests.spawn(async move { (served.await, started.elapsed()) });
        }
        let served = requests.join_all().await;
        let share = |of: usize| of as f64 / served.len() as f64;
        let by_secondary = served
            .iter()
            .filter(|(by, _)| *by == Some(AnsweredBy::Secondary));
        let in_time = served
            .iter()
            .filter(|(by, took)| by.is_some() && *took <= self.leave_after);
        let (by_secondary, in_time) = (share(by_secondary.count()), share(in_time.count()));

        let to_primary = providers.primary.sent();
        let left = |request| began + arrival(request, self.rate) + self.leave_after;
        let (mut begun_after, mut under_way_after) = (0, 0);
        for sent in to_primary.iter().chain(&providers.secondary.sent()) {
            begun_after += u64::from(sent.begun > left(sent.request));
            under_way_after += u64::from(sent.ended > left(sent.request));
        }
        let attempts_per_request = share(to_primary.len());
        let mut took: Vec<_> = served.into_iter().map(|(_, took)| took).collect();
        took.sort_unstable();
        Run {
            took,
            by_secondary,
            in_time,
            attempts_per_request,
            begun_after_caller_left: begun_after,
            sends_after_caller_left: under_way_after,
        }
    }
}
