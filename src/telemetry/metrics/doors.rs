//! What is measured of the breakers of one name.

use metrics::{Counter, Gauge, counter, gauge};

use super::calls::Labelled;
use super::table::{BREAKERS, REFUSALS, TRANSITIONS};
use crate::breaker::state::BreakerState;
use crate::refusal::RefusalReason;

const REASONS: [RefusalReason; 5] = [
    RefusalReason::Open,
    RefusalReason::HalfOpen,
    RefusalReason::Recovering,
    RefusalReason::ForcedOpen,
    RefusalReason::ConcurrencyLimit,
];

pub(super) struct DoorMetrics {
    refusals: Labelled,
    transitions: Labelled,
    breakers: [(BreakerState, Gauge); 6],
}

impl DoorMetrics {
    pub(super) fn register(dependency: &'static str) -> Self {
        let reasons = REASONS.map(RefusalReason::as_str);
        let states = BreakerState::ALL.map(BreakerState::as_str);
        Self {
            refusals: Labelled::register(REFUSALS, dependency, "reason", &reasons),
            transitions: Labelled::register(TRANSITIONS, dependency, "state", &states),
            breakers: BreakerState::ALL.map(|state| {
                let (dependency, name) = (dependency, state.as_str());
                (
                    state,
                    gauge!(BREAKERS, "dependency" => dependency, "state" => name),
                )
            }),
        }
    }

    pub(super) fn refused(&self, reason: RefusalReason) {
        self.refusals.count(reason.as_str());
    }

    pub(super) fn moved(&self, from: BreakerState, to: BreakerState) {
        self.transitions.count(to.as_str());
        self.counted(from, -1.0);
        self.counted(to, 1.0);
    }

    pub(super) fn counted(&self, state: BreakerState, change: f64) {
        let known = self.breakers.iter().find(|(known, _)| *known == state);
        if let Some((_, gauge)) = known {
            gauge.increment(change);
        }
    }
}

/// As [`DoorMetrics::moved`], for a breaker with a key of its own. Changes of
/// state are rare, so that nothing is kept for it here.
pub(super) fn moved_by_key(
    dependency: &'static str,
    key: &str,
    from: BreakerState,
    to: BreakerState,
) {
    let transitions: Counter = counter!(
        TRANSITIONS,
        "dependency" => dependency,
        "state" => to.as_str(),
        "key" => key.to_owned(),
    );
    transitions.increment(1);
    counted_by_key(dependency, key, from, -1.0);
    counted_by_key(dependency, key, to, 1.0);
}

pub(super) fn counted_by_key(
    dependency: &'static str,
    key: &str,
    state: BreakerState,
    change: f64,
) {
    let breakers: Gauge = gauge!(
        BREAKERS,
        "dependency" => dependency,
        "state" => state.as_str(),
        "key" => key.to_owned(),
    );
    breakers.increment(change);
}
