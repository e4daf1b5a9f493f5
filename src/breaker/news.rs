//! Telling of changes of state, once each and outside of any lock.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio::sync::watch;

use super::alarm::Alarms;
use super::state::BreakerState;
use super::ticket::Transition;
use crate::telemetry::{Event, Observer, Observers, emit};

/// Those who wait for changes, and those who hear of events.
///
/// The lock on the latter is not one of the models': it is held for nothing but
/// a copy of a pointer.
#[derive(Debug)]
pub(super) struct News {
    /// Told of each new generation; made by the first who watches.
    watched: OnceLock<watch::Sender<u32>>,
    pub(super) alarms: Alarms,
    listeners: Mutex<Option<Arc<Listeners>>>,
}

/// Who hears of one breaker's events, and by which name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listeners {
    pub(crate) observers: Observers,
    pub(crate) key: Option<Box<str>>,
}

/// A change of state, with those who were there to hear of it.
#[derive(Debug)]
pub(super) struct Told {
    transition: Transition,
    from: BreakerState,
    generation: u32,
    listeners: Option<Arc<Listeners>>,
}

/// A breaker that comes into sight, or goes out of it.
#[derive(Debug)]
#[must_use = "observers wait to be told"]
pub(super) struct Seen {
    dependency: &'static str,
    state: BreakerState,
    comes: bool,
    to: Observers,
    listeners: Arc<Listeners>,
}

impl News {
    pub(super) fn new() -> Self {
        Self {
            watched: OnceLock::new(),
            alarms: Alarms::default(),
            listeners: Mutex::new(None),
        }
    }

    pub(super) fn watch(&self, generation: impl FnOnce() -> u32) -> watch::Receiver<u32> {
        let made = || watch::Sender::new(generation());
        self.watched.get_or_init(made).subscribe()
    }

    /// Adds an observer, unless it is there already. To be called while the
    /// machine is locked, as `note` is: so each observer hears of exactly the
    /// changes after the state that it is told of first.
    pub(super) fn add(
        &self,
        observer: &Arc<dyn Observer>,
        key: Option<Box<str>>,
        dependency: &'static str,
        state: BreakerState,
    ) -> Option<Seen> {
        let mut listeners = self.lock();
        let known = listeners.take();
        let is_new = known.is_none();
        let mut known = known.unwrap_or_default();
        let Some(observers) = known.observers.and(observer) else {
            *listeners = Some(known);
            return None;
        };
        let more = Arc::make_mut(&mut known);
        more.observers = observers;
        if is_new {
            more.key = key;
        }
        *listeners = Some(Arc::clone(&known));
        Some(Seen {
            dependency,
            state,
            comes: true,
            to: Observers::NONE.and(observer).unwrap_or_default(),
            listeners: known,
        })
    }

    /// Hears all of a registry's news from the start. For a breaker that nobody
    /// else has a handle of yet.
    #[cfg(feature = "keyed")]
    pub(super) fn begin(&self, dependency: &'static str, listeners: Listeners) -> Seen {
        let listeners = Arc::new(listeners);
        *self.lock() = Some(Arc::clone(&listeners));
        Seen {
            dependency,
            state: BreakerState::Closed,
            comes: true,
            to: listeners.observers.clone(),
            listeners,
        }
    }

    /// Lets all observers go: to be told that it is no more.
    pub(super) fn end(
        &self,
        dependency: &'static str,
        state: impl FnOnce() -> BreakerState,
    ) -> Option<Seen> {
        let listeners = self.lock().take()?;
        Some(Seen {
            dependency,
            state: state(),
            comes: false,
            to: listeners.observers.clone(),
            listeners,
        })
    }

    /// Takes note of a change, for those who listen at this moment.
    pub(super) fn note(&self, transition: Transition, from: BreakerState, generation: u32) -> Told {
        Told {
            transition,
            from,
            generation,
            listeners: self.lock().clone(),
        }
    }

    pub(super) fn tell(&self, dependency: &'static str, told: &Told) {
        if let Some(watched) = self.watched.get() {
            // Two changes may be told in the wrong order; the later
            // generation stands, and whoever is woken asks for the state.
            watched.send_if_modified(|last| {
                let ahead = told.generation.wrapping_sub(*last);
                let is_newer = ahead > 0 && ahead < u32::MAX / 2;
                if is_newer {
                    *last = told.generation;
                }
                is_newer
            });
        }
        self.alarms.wake();
        match &told.listeners {
            None => emit(&Observers::NONE, &told.event(dependency, None)),
            Some(heard) => emit(
                &heard.observers,
                &told.event(dependency, heard.key.as_deref()),
            ),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Arc<Listeners>>> {
        self.listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    pub(super) fn tell(&self) {
        let (dependency, state) = (self.dependency, self.state);
        let key = self.listeners.key.as_deref();
        self.to.tell(|| {
            if self.comes {
                Event::BreakerAdded {
                    dependency,
                    key,
                    state,
                }
            } else {
                Event::BreakerRemoved {
                    dependency,
                    key,
                    state,
                }
            }
        });
    }
}

impl Told {
    const fn event<'a>(&self, dependency: &'static str, key: Option<&'a str>) -> Event<'a> {
        let (from, generation) = (self.from, self.generation);
        match self.transition {
            Transition::Opened { open_for } => Event::BreakerOpened {
                dependency,
                key,
                from,
                generation,
                open_for,
            },
            Transition::HalfOpened => Event::BreakerHalfOpen {
                dependency,
                key,
                from,
                generation,
            },
            Transition::Recovering { ramp } => Event::BreakerRecovering {
                dependency,
                key,
                from,
                generation,
                ramp,
            },
            Transition::Closed => Event::BreakerClosed {
                dependency,
                key,
                from,
                generation,
            },
            Transition::ForcedOpen { reason } => Event::BreakerForcedOpen {
                dependency,
                key,
                from,
                generation,
                reason: reason.as_str(),
            },
            Transition::Disabled => Event::BreakerDisabled {
                dependency,
                key,
                from,
                generation,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_watches_is_woken_by_later_generations_only() {
        let news = News::new();
        let mut watch = news.watch(|| u32::MAX - 1);
        let mut wakes = |generation| {
            let told = news.note(Transition::Closed, BreakerState::Recovering, generation);
            news.tell("inventory", &told);
            let woken = watch.has_changed().unwrap();
            (woken, *watch.borrow_and_update())
        };
        let last = u32::MAX - 1;
        assert_eq!(wakes(last), (false, last), "from before the watch");
        assert_eq!(wakes(last - 1), (false, last), "told late");
        assert_eq!(wakes(1), (true, 1), "numbers begin anew");
        assert_eq!(wakes(u32::MAX), (false, 1), "told late");
    }
}
