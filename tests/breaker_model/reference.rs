//! The reference breaker: everything that happened is kept in lists, and each
//! question goes through them anew.

use super::outcomes::{Outcome, Outcomes, SLOTS};
use super::recovery::Recovery;
use super::settings::{Settings, Window};

/// Leave to make one call.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    generation: u32,
    /// In which half-open period, if it is a probe.
    period: Option<usize>,
    placed: bool,
    pub started: u64,
}

/// What comes of a call. A drop and a panic tell nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Told {
    Success,
    /// With the wait that the dependency asked for.
    Failure(Option<u64>),
    /// An answer that says nothing about health.
    Neutral,
    Nothing,
}

/// Why a call was turned away, under the names of events, and the wait.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Refused {
    pub reason: &'static str,
    pub note: Option<&'static str>,
    pub retry_after: Option<u64>,
}

#[derive(Clone, Debug)]
enum Standing {
    Closed { since: u64 },
    Open { until: u64 },
    HalfOpen { period: usize, round: Vec<News> },
    Recovering(Recovery),
    Forced(&'static str),
    Disabled,
}

/// What happened in a half-open period since it began, or since the last lease
/// ran out.
#[derive(Clone, Copy, Debug, PartialEq)]
enum News {
    Sent { lease_over: u64 },
    Succeeded,
    Neutral,
    GivenBack,
}

pub struct Reference {
    built_with: Settings,
    settings: Settings,
    standing: Standing,
    generation: u32,
    half_open_periods: usize,
    failed_recoveries: u32,
    outcomes: Outcomes,
    in_flight: u32,
}

const NEUTRAL_ANSWERS: usize = 10;

impl Reference {
    pub fn new(settings: Settings) -> Self {
        Self {
            built_with: settings,
            settings,
            standing: Standing::Closed { since: 0 },
            generation: 0,
            half_open_periods: 0,
            failed_recoveries: 0,
            outcomes: Outcomes::default(),
            in_flight: 0,
        }
    }

    // ---- what can be seen of it ---------------------------------------------

    pub fn state(&self, now: u64) -> &'static str {
        match &self.standing {
            Standing::Open { until } if now >= *until => "HalfOpen",
            Standing::Recovering(recovery) if recovery.is_over(now) => "Closed",
            Standing::Closed { .. } => "Closed",
            Standing::Open { .. } => "Open",
            Standing::HalfOpen { .. } => "HalfOpen",
            Standing::Recovering(_) => "Recovering",
            Standing::Forced(_) => "ForcedOpen",
            Standing::Disabled => "Disabled",
        }
    }

    pub const fn generation(&self) -> u32 {
        self.generation
    }

    pub fn share(&self, now: u64) -> f64 {
        match &self.standing {
            Standing::Recovering(recovery) => recovery.share(now),
            _ => 1.0,
        }
    }

    /// One is forgotten for each longest open time spent closed.
    pub fn failed_recoveries(&self, now: u64) -> u32 {
        let Standing::Closed { since } = self.standing else {
            return self.failed_recoveries;
        };
        let forgotten = (now - since) / self.settings.max_open_time;
        let left = u64::from(self.failed_recoveries).saturating_sub(forgotten);
        u32::try_from(left).unwrap_or(u32::MAX)
    }

    pub fn next_check(&self, now: u64) -> Option<u64> {
        match self.standing {
            Standing::Open { until } => Some(until.saturating_sub(now)),
            _ => None,
        }
    }

    pub fn forced_reason(&self) -> Option<&'static str> {
        match self.standing {
            Standing::Forced(reason) => Some(reason),
            _ => None,
        }
    }

    /// Calls and failures in the failure window.
    pub fn counts(&self, now: u64) -> (usize, usize) {
        if self.built_with.rate.is_none() && self.built_with.last_failed.is_none() {
            return (0, 0);
        }
        let window = self.outcomes.window(&self.settings, now);
        (window.len(), window.iter().filter(|o| o.failed).count())
    }

    pub const fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Times at which something is over, for steps that go just there.
    pub fn times_of_interest(&self, now: u64) -> Vec<u64> {
        let mut times = Vec::new();
        match &self.standing {
            Standing::Closed { since } => times.push(since + self.settings.max_open_time),
            Standing::Open { until } => times.push(*until),
            Standing::HalfOpen { round, .. } => times.push(lease_over(round)),
            Standing::Recovering(recovery) => times.push(recovery.since + recovery.length),
            Standing::Forced(_) | Standing::Disabled => {}
        }
        if let Window::Time(length) = self.settings.window {
            let slot = length / SLOTS;
            times.push((now / slot + 1) * slot);
            let first = self.outcomes.list.first();
            times.extend(first.map(|first| (first.at / slot + SLOTS) * slot));
        }
        times.retain(|time| *time > now);
        times
    }

    // ---- admission ----------------------------------------------------------

    /// The refusal that a call would get now.
    pub fn refusal(&self, now: u64) -> Option<Refused> {
        let refused = |reason, retry_after| Refused {
            reason,
            note: None,
            retry_after,
        };
        match &self.standing {
            Standing::Forced(note) => {
                let note = Some(*note);
                return Some(Refused {
                    note,
                    ..refused("forced_open", None)
                });
            }
            Standing::Open { until } if now < *until => {
                return Some(refused("open", Some(until - now)));
            }
            Standing::HalfOpen { round, .. }
                if !self.is_proven(round) && self.all_out(round) && now < lease_over(round) =>
            {
                let guess = self.settings.open_time.min(lease_over(round) - now);
                return Some(refused("half_open", Some(guess)));
            }
            _ => {}
        }
        if let Some(limit) = self.settings.concurrency_limit {
            let shared = (f64::from(limit) * self.share(now)).floor();
            if f64::from(self.in_flight) >= shared.max(1.0) {
                return Some(refused("concurrency_limit", None));
            }
        }
        match &self.standing {
            Standing::Recovering(recovery) if !recovery.is_over(now) && !recovery.passes(now) => {
                Some(refused("recovering", Some(self.settings.ramp / 10)))
            }
            _ => None,
        }
    }

    pub fn admit(&mut self, now: u64) -> Result<Call, Refused> {
        let refusal = self.refusal(now);
        let reached = refusal.is_none_or(|refused| refused.reason == "recovering");
        if let Standing::Recovering(recovery) = &mut self.standing
            && reached
            && !recovery.is_over(now)
        {
            let share = recovery.share(now);
            recovery.asked.push(share);
        }
        if let Some(refused) = refusal {
            return Err(refused);
        }
        match &self.standing {
            Standing::Open { .. } => {
                self.half_open_periods += 1;
                self.change(Standing::HalfOpen {
                    period: self.half_open_periods,
                    round: Vec::new(),
                });
            }
            // Fewer successes are asked for than when they came.
            Standing::HalfOpen { round, .. } if self.is_proven(round) => {
                self.recover(now);
                if let Standing::Recovering(recovery) = &mut self.standing {
                    let share = recovery.share(now);
                    recovery.asked.push(share);
                }
            }
            Standing::HalfOpen { period, round } if self.all_out(round) => {
                let period = *period;
                self.change(Standing::HalfOpen {
                    period,
                    round: Vec::new(),
                });
            }
            Standing::Recovering(recovery) if recovery.is_over(now) => self.close(now),
            _ => {}
        }
        let mut probe_of = None;
        if let Standing::HalfOpen { period, round } = &mut self.standing {
            let lease_over = now + self.settings.lease;
            round.push(News::Sent { lease_over });
            probe_of = Some(*period);
        }
        let placed = self.settings.concurrency_limit.is_some();
        self.in_flight += u32::from(placed);
        Ok(Call {
            generation: self.generation,
            period: probe_of,
            placed,
            started: now,
        })
    }

    fn is_proven(&self, round: &[News]) -> bool {
        let successes = round.iter().filter(|n| **n == News::Succeeded);
        successes.count() >= self.settings.successes as usize
    }

    fn all_out(&self, round: &[News]) -> bool {
        let sent = round.iter().filter(|n| matches!(n, News::Sent { .. }));
        let back = round
            .iter()
            .filter(|n| matches!(n, News::Neutral | News::GivenBack));
        sent.count() >= back.count() + self.settings.probes as usize
    }

    // ---- outcomes -----------------------------------------------------------

    /// Hears what came of a call. `changed` tells whether the real breaker has
    /// changed at it, which is asked only where both are right, see
    /// [`Outcomes::open`].
    pub fn finish(&mut self, call: Call, told: Told, now: u64, changed: bool) {
        self.in_flight -= u32::from(call.placed);
        let slow = self.is_slow(now - call.started);
        let current = call.generation == self.generation;
        match &mut self.standing {
            Standing::Closed { .. } | Standing::Disabled if current => {
                let (failed, hint) = match told {
                    Told::Success => (false, None),
                    Told::Failure(hint) => (true, hint),
                    Told::Neutral | Told::Nothing => return,
                };
                let at = now;
                self.outcomes.list.push(Outcome { at, failed, slow });
                if matches!(self.standing, Standing::Closed { .. })
                    && self.outcomes.open(&self.settings, now, changed)
                {
                    self.failed_recoveries = self.failed_recoveries(now);
                    self.open(now, hint);
                }
            }
            Standing::HalfOpen { period, .. } if call.period == Some(*period) => {
                let told = match told {
                    Told::Success if slow => Told::Failure(None),
                    told => told,
                };
                // Past its lease only a success is still proof.
                if current || told == Told::Success {
                    self.probe_told(told, now);
                }
            }
            Standing::Recovering(recovery) if current => {
                let (failed, hint) = match told {
                    Told::Success => (slow, None),
                    Told::Failure(hint) => (true, hint),
                    Told::Neutral | Told::Nothing => return,
                };
                recovery.heard.push((failed, self.settings.sample().0));
                if recovery.sample_fails(&self.settings) {
                    self.failed_recoveries += 1;
                    self.open(now, hint);
                }
            }
            _ => {}
        }
    }

    fn is_slow(&self, ran: u64) -> bool {
        self.settings.slow.is_some_and(|(from, _)| ran >= from)
    }

    fn probe_told(&mut self, told: Told, now: u64) {
        let Standing::HalfOpen { round, .. } = &mut self.standing else {
            return;
        };
        round.push(match told {
            Told::Success => News::Succeeded,
            Told::Neutral => News::Neutral,
            Told::Nothing => News::GivenBack,
            Told::Failure(hint) => {
                self.failed_recoveries += 1;
                return self.open(now, hint);
            }
        });
        let answers = round
            .iter()
            .rev()
            .filter(|n| matches!(n, News::Succeeded | News::Neutral));
        let neutral = answers.take_while(|n| **n == News::Neutral).count();
        let round = round.clone();
        let enough = match told {
            Told::Success => self.is_proven(&round),
            Told::Neutral => neutral >= NEUTRAL_ANSWERS,
            _ => false,
        };
        if enough {
            self.recover(now);
        }
    }

    fn recover(&mut self, now: u64) {
        if self.settings.ramp == 0 {
            return self.close(now);
        }
        self.change(Standing::Recovering(Recovery {
            since: now,
            length: self.settings.ramp,
            from: self.settings.ramp_from,
            asked: Vec::new(),
            heard: Vec::new(),
        }));
    }

    // ---- changes ------------------------------------------------------------

    pub fn force_open(&mut self, reason: &'static str, now: u64) {
        self.failed_recoveries = self.failed_recoveries(now);
        self.change(Standing::Forced(reason));
    }

    pub fn disable(&mut self, now: u64) {
        self.failed_recoveries = self.failed_recoveries(now);
        self.forget_outcomes();
        self.change(Standing::Disabled);
    }

    pub fn reset(&mut self, now: u64) {
        self.failed_recoveries = 0;
        self.close(now);
    }

    /// Whether the settings could be changed.
    pub fn reconfigure(&mut self, settings: Settings) -> bool {
        let possible = self.built_with.can_become(&settings);
        if possible {
            self.settings = settings;
            self.outcomes.other_rules = true;
        }
        possible
    }

    fn open(&mut self, now: u64, hint: Option<u64>) {
        let asked = hint.unwrap_or(0).min(self.settings.max_hint_open);
        let until = now + self.settings.grown(self.failed_recoveries).max(asked);
        self.change(Standing::Open { until });
    }

    fn close(&mut self, now: u64) {
        self.forget_outcomes();
        self.change(Standing::Closed { since: now });
    }

    fn forget_outcomes(&mut self) {
        self.outcomes = Outcomes::default();
    }

    fn change(&mut self, standing: Standing) {
        self.generation += 1;
        self.standing = standing;
    }
}

fn lease_over(round: &[News]) -> u64 {
    let sent = round.iter().rev().find_map(|news| match news {
        News::Sent { lease_over } => Some(*lease_over),
        _ => None,
    });
    sent.unwrap_or(0)
}
