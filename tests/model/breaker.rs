//! The breaker: every outcome it ever counted in a list, looked through each time.

use super::Ms;
use super::policy::{self, Health, Window};

/// Neutral answers in a row after which half-open is left.
const NEUTRAL_IN_A_ROW: u32 = 10;

pub struct Breaker {
    settings: policy::Breaker,
    state: State,
    /// Counts every change of state and every new half-open round.
    generation: u32,
    /// Recoveries that failed and are not forgotten.
    failed_recoveries: u32,
}

enum State {
    Closed {
        since: Ms,
        outcomes: Vec<(Ms, bool)>,
    },
    Open {
        until: Ms,
    },
    HalfOpen {
        /// The generation of its first round.
        first: u32,
        taken: u32,
        /// When the last slot was taken.
        last_taken: Ms,
        successes: u32,
        neutral: u32,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    Closed,
    Open,
    HalfOpen,
}

/// An admission: the generation that it was made in.
#[derive(Clone, Copy)]
pub struct Permit(u32);

/// What becomes of an admission.
#[derive(Clone, Copy)]
pub enum Heard {
    Answer(Health, Option<Ms>),
    /// Dropped, or cut too early to say anything.
    Nothing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    Open { comes_back_in: Ms },
    HalfOpen,
}

impl Breaker {
    pub fn new(settings: policy::Breaker) -> Self {
        Self {
            settings,
            state: State::Closed {
                since: 0,
                outcomes: Vec::new(),
            },
            generation: 0,
            failed_recoveries: 0,
        }
    }

    pub fn shown(&self, now: Ms) -> Shown {
        match self.state {
            State::Closed { .. } => Shown::Closed,
            State::Open { until } if now < until => Shown::Open,
            State::Open { .. } | State::HalfOpen { .. } => Shown::HalfOpen,
        }
    }

    /// Whether `admit` would, without doing it.
    pub fn would_admit(&self, now: Ms) -> Result<(), Refused> {
        match self.state {
            State::Closed { .. } => Ok(()),
            State::Open { until } if now < until => Err(Refused::Open {
                comes_back_in: until - now,
            }),
            State::Open { .. } => Ok(()),
            State::HalfOpen {
                taken, last_taken, ..
            } => {
                let free = taken < self.settings.probes;
                let lapsed = now >= last_taken + self.settings.lease;
                if free || lapsed {
                    Ok(())
                } else {
                    Err(Refused::HalfOpen)
                }
            }
        }
    }

    pub fn admit(&mut self, now: Ms) -> Result<Permit, Refused> {
        self.would_admit(now)?;
        // Open -> HalfOpen: when the open time is over and somebody asks.
        // HalfOpen -> HalfOpen: when no slot is free and the lease is over.
        let new_round = match self.state {
            State::Closed { .. } => false,
            State::Open { .. } => true,
            State::HalfOpen { taken, .. } => taken >= self.settings.probes,
        };
        if new_round {
            let first = match self.state {
                State::HalfOpen { first, .. } => first,
                _ => self.generation + 1,
            };
            self.enter(State::HalfOpen {
                first,
                taken: 0,
                last_taken: now,
                successes: 0,
                neutral: 0,
            });
        }
        if let State::HalfOpen {
            taken, last_taken, ..
        } = &mut self.state
        {
            *taken += 1;
            *last_taken = now;
        }
        Ok(Permit(self.generation))
    }

    pub fn hear(&mut self, now: Ms, permit: Permit, heard: Heard) {
        // What was admitted in another generation changes nothing, save the late
        // success of an earlier round of the same half-open.
        if permit.0 != self.generation {
            let late_success = matches!(heard, Heard::Answer(Health::Ok, _));
            match self.state {
                State::HalfOpen { first, .. } if late_success && permit.0 >= first => {}
                _ => return,
            }
        }
        match &mut self.state {
            State::Closed { since, outcomes } => {
                let (ok, hint) = match heard {
                    Heard::Answer(Health::Ok, _) => (true, None),
                    Heard::Answer(Health::Failing, hint) => (false, hint),
                    Heard::Answer(Health::Neutral, _) | Heard::Nothing => return,
                };
                outcomes.push((now, ok));
                // Closed -> Open: when any rule is met.
                if trips(&self.settings, outcomes, now) {
                    // One failed recovery is forgotten for each longest open
                    // time that it stayed closed.
                    let forgotten = (now - *since) / self.settings.max_open_time;
                    self.failed_recoveries = self
                        .failed_recoveries
                        .saturating_sub(u32::try_from(forgotten).expect("a short run"));
                    self.open(now, hint);
                }
            }
            State::Open { .. } => unreachable!("nothing is admitted while open"),
            State::HalfOpen {
                taken,
                successes,
                neutral,
                ..
            } => match heard {
                // HalfOpen -> Open: when one probe fails.
                Heard::Answer(Health::Failing, hint) => {
                    self.failed_recoveries += 1;
                    self.open(now, hint);
                }
                Heard::Answer(Health::Ok, _) => {
                    *successes += 1;
                    *neutral = 0;
                    // HalfOpen -> Closed: when enough probes succeeded.
                    if *successes >= self.settings.successes {
                        self.close(now);
                    }
                }
                Heard::Answer(Health::Neutral, _) => {
                    *taken -= 1;
                    *neutral += 1;
                    // HalfOpen -> Closed: when it answers but never says how it is.
                    if *neutral >= NEUTRAL_IN_A_ROW {
                        self.close(now);
                    }
                }
                Heard::Nothing => *taken -= 1,
            },
        }
    }

    fn open(&mut self, now: Ms, hint: Option<Ms>) {
        let mut time = self.settings.open_time;
        for _ in 0..self.failed_recoveries {
            time = self.settings.max_open_time.min(time * self.settings.growth);
        }
        let asked_for = hint.unwrap_or(0).min(self.settings.max_hint_open);
        self.enter(State::Open {
            until: now + time.max(asked_for),
        });
    }

    fn close(&mut self, now: Ms) {
        self.enter(State::Closed {
            since: now,
            outcomes: Vec::new(),
        });
    }

    fn enter(&mut self, state: State) {
        self.state = state;
        self.generation += 1;
    }
}

fn trips(settings: &policy::Breaker, outcomes: &[(Ms, bool)], now: Ms) -> bool {
    let run_of_failures = |of: &[bool]| of.iter().rev().take_while(|ok| !**ok).count();

    let all: Vec<bool> = outcomes.iter().map(|(_, ok)| *ok).collect();
    let consecutive = settings
        .consecutive
        .is_some_and(|k| run_of_failures(&all) >= k as usize);

    let by_rate = settings.rate.as_ref().is_some_and(|rate| {
        let in_window: Vec<bool> = match rate.window {
            Window::Count(n) => all[all.len().saturating_sub(n as usize)..].to_vec(),
            // Ten slots, counted from when the breaker was made: the current one and
            // the nine before.
            Window::Time(length) => {
                let slot = |at: Ms| at / (length / 10);
                outcomes
                    .iter()
                    .filter(|(at, _)| slot(*at) + 9 >= slot(now))
                    .map(|(_, ok)| *ok)
                    .collect()
            }
        };
        let failed = in_window.iter().filter(|ok| !**ok).count();
        let enough = in_window.len() >= rate.min_calls as usize;
        let rate_reached = failed * 100 >= in_window.len() * rate.percent as usize;
        let last_failed = rate
            .last_failed
            .is_some_and(|k| run_of_failures(&in_window) >= k as usize);
        (enough && rate_reached) || last_failed
    });

    consecutive || by_rate
}
