//! What it costs to be listened to.

use std::sync::Arc;

use steadfast::PolicyBuilder;
use steadfast::telemetry::{Event, Metrics, Observer};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};

use crate::Workload;
use crate::inner::Inner;
use crate::policy::{fail, settings, stack};
use crate::repeat::Expect;
use crate::stack::{make, retry_once};

pub const WORKLOADS: &[Workload] = &[
    ("ready-observer", |calls| {
        ready(calls, |builder| builder.observer(Arc::new(Deaf)));
    }),
    // Into a recorder that keeps nothing: what the crate itself adds.
    ("ready-metrics", |calls| {
        ready(calls, |builder| builder.observer(Arc::new(Metrics::new())));
    }),
    ("ready-at-debug", |calls| {
        listen(LevelFilter::DEBUG);
        ready(calls, |builder| builder);
    }),
    ("refused-at-warn", |calls| refused(calls, LevelFilter::WARN)),
    ("refused-at-debug", |calls| {
        refused(calls, LevelFilter::DEBUG);
    }),
    ("retry-once-at-debug", |calls| {
        listen(LevelFilter::DEBUG);
        retry_once(calls, PolicyBuilder::no_retry_budget);
    }),
];

fn ready(calls: u64, observed: impl FnOnce(PolicyBuilder) -> PolicyBuilder) {
    let policy = observed(settings()).build().expect("a valid policy");
    make(calls, stack(&policy, Inner::ready()), Expect::All);
}

fn refused(calls: u64, level: LevelFilter) {
    listen(level);
    let policy = settings().build().expect("a valid policy");
    fail(&policy, 20);
    make(calls, stack(&policy, Inner::out_of_reach()), Expect::None);
}

fn listen(level: LevelFilter) {
    tracing::subscriber::set_global_default(Discarding(level)).expect("the first subscriber");
}

/// Hears of everything and does nothing.
struct Deaf;

impl Observer for Deaf {
    fn on_event(&self, _: &Event<'_>) {}
}

/// Takes every event up to a level, and keeps none.
struct Discarding(LevelFilter);

impl Subscriber for Discarding {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.0
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.0)
    }

    fn event(&self, _: &tracing::Event<'_>) {}

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
