//! States that a test asks for.

use crate::moment::Moment;

use super::super::ticket::{Admission, Heard};
use super::Core;
use crate::breaker::state::{BreakerState, Machine};

impl Core {
    /// Fails and comes back as far as `goal`, by the machine's own steps; as if
    /// the open time had passed, where the goal lies beyond it.
    pub(crate) fn fail_and_come_back(&self, goal: BreakerState) {
        let now = self.since_base(Moment::now());
        self.change(|machine| Some(machine.reset(now)));
        self.change(|machine| {
            machine.trip(machine.generation(), now, None, self.kept().draws.share())
        });
        if goal == BreakerState::Open {
            return;
        }
        self.probe(now, Heard::Dropped);
        if goal == BreakerState::HalfOpen {
            return;
        }
        let successes = self.rules().recovery.successes;
        for _ in 0..successes {
            self.probe(now, Heard::Success);
        }
    }

    /// Sends a probe and hears of it.
    fn probe(&self, now: u64, heard: Heard) {
        let mut admission = None;
        self.change(|machine| {
            let (admitted, transition) = machine.admit(due(machine, now));
            admission = Some(admitted);
            transition
        });
        if let Some(Admission::Admitted(ticket)) = admission {
            self.change(|machine| machine.heard(ticket, heard, now, 0.0));
        }
    }
}

/// The time at which an open machine lets a probe through.
fn due(machine: &Machine, now: u64) -> u64 {
    machine.open_until().map_or(now, |until| until.max(now))
}
