//! What the breaker told, as a listener hears it.

use std::sync::{Arc, Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};

/// The generations that were told of, in the order of telling.
#[derive(Clone, Debug, Default)]
pub(super) struct Told(Arc<Mutex<Vec<u64>>>);

impl Told {
    pub(super) fn forget(&self) {
        self.heard(Vec::clear);
    }

    pub(super) fn generations(&self) -> Vec<u64> {
        self.heard(|told| told.clone())
    }

    fn heard<T>(&self, hear: impl FnOnce(&mut Vec<u64>) -> T) -> T {
        hear(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Subscriber for Told {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.enabled(metadata) {
            Interest::always()
        } else {
            Interest::never()
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && metadata.target() == "steadfast"
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::INFO)
    }

    fn event(&self, event: &Event<'_>) {
        event.record(&mut Generation(self));
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Generation<'a>(&'a Told);

impl Visit for Generation<'_> {
    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "generation" {
            self.0.heard(|told| told.push(value));
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}
