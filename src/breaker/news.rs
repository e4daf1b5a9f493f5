//! Telling of changes of state, once each and outside of any lock.

use std::sync::OnceLock;

use tokio::sync::watch;

use super::listener::Listeners;
use super::ticket::Transition;
use crate::telemetry::{Event, emit};

/// Those who wait for changes, and the events.
#[derive(Debug)]
pub(super) struct News {
    /// Told of each new generation; made by the first who watches.
    watched: OnceLock<watch::Sender<u32>>,
    pub(super) listeners: Listeners,
}

impl News {
    pub(super) fn new() -> Self {
        Self {
            watched: OnceLock::new(),
            listeners: Listeners::default(),
        }
    }

    pub(super) fn watch(&self, generation: impl FnOnce() -> u32) -> watch::Receiver<u32> {
        let made = || watch::Sender::new(generation());
        self.watched.get_or_init(made).subscribe()
    }

    pub(super) fn tell(&self, dependency: &'static str, generation: u32, transition: Transition) {
        if let Some(watched) = self.watched.get() {
            // Two changes may be told in the wrong order; the later
            // generation stands, and whoever is woken asks for the state.
            watched.send_if_modified(|last| {
                let ahead = generation.wrapping_sub(*last);
                let is_newer = ahead > 0 && ahead < u32::MAX / 2;
                if is_newer {
                    *last = generation;
                }
                is_newer
            });
        }
        self.listeners.wake();
        emit(&event(dependency, generation, transition));
    }
}

fn event(dependency: &'static str, generation: u32, transition: Transition) -> Event {
    match transition {
        Transition::Opened { open_for } => Event::BreakerOpened {
            dependency,
            generation,
            open_for,
        },
        Transition::HalfOpened => Event::BreakerHalfOpen {
            dependency,
            generation,
        },
        Transition::Recovering { ramp } => Event::BreakerRecovering {
            dependency,
            generation,
            ramp,
        },
        Transition::Closed => Event::BreakerClosed {
            dependency,
            generation,
        },
        Transition::ForcedOpen { reason } => Event::BreakerForcedOpen {
            dependency,
            generation,
            reason: reason.as_str(),
        },
        Transition::Disabled => Event::BreakerDisabled {
            dependency,
            generation,
        },
    }
}
