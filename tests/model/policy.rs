//! What a run is made of: the settings and what the dependency does.

use std::fmt;

use super::{GRAIN, Ms};

#[derive(Clone, Debug)]
pub struct Policy {
    /// The first attempt included.
    pub max_attempts: u32,
    pub backoff: Backoff,
    pub deadline: Option<Ms>,
    pub attempt_timeout: Option<Ms>,
    pub largest_hint: Ms,
    pub min_useful: Ms,
    pub budget: Option<Budget>,
    pub breaker: Option<Breaker>,
}

impl Policy {
    /// One attempt, and all that can refuse it is the breaker.
    pub fn of_a_breaker(breaker: Breaker) -> Self {
        Self {
            max_attempts: 1,
            backoff: Backoff::None,
            deadline: None,
            attempt_timeout: None,
            largest_hint: GRAIN,
            min_useful: 1,
            budget: None,
            breaker: Some(breaker),
        }
    }

    /// What an attempt may take, if the policy bounds it.
    pub fn longest_attempt(&self) -> Option<Ms> {
        let limits = [self.attempt_timeout, self.deadline];
        limits.into_iter().flatten().min()
    }
}

#[derive(Clone, Copy, Debug)]
pub enum Backoff {
    None,
    Fixed(Ms),
    Exponential { base: Ms, cap: Ms, factor: u64 },
}

impl Backoff {
    /// Before retry number `retry`, counted from 0.
    pub fn delay(self, retry: u32) -> Ms {
        match self {
            Self::None => 0,
            Self::Fixed(delay) => delay,
            Self::Exponential { base, cap, factor } => {
                let mut delay = base;
                for _ in 0..retry {
                    delay = cap.min(delay * factor);
                }
                cap.min(delay)
            }
        }
    }
}

/// A token is a million micro-tokens.
pub const TOKEN: i64 = 1_000_000;

#[derive(Clone, Copy, Debug)]
pub enum Budget {
    /// In micro-tokens.
    Ratio {
        /// For each success.
        ratio: i64,
        cap: i64,
        opening: i64,
        refill: Refill,
    },
    /// A share of the calls under way may be retrying, or so many at least.
    Concurrent { percent: u32, min: u32 },
}

/// Micro-tokens a second.
#[derive(Clone, Copy, Debug)]
pub enum Refill {
    /// Up to the price of the dearest retry.
    Trickle(i64),
    /// Up to the cap.
    Floor(i64),
}

#[derive(Clone, Debug)]
pub struct Breaker {
    pub consecutive: Option<u32>,
    pub rate: Option<Rate>,
    pub open_time: Ms,
    /// 1 or 2.
    pub growth: u64,
    pub max_open_time: Ms,
    pub max_hint_open: Ms,
    pub probes: u32,
    pub successes: u32,
    pub lease: Ms,
    /// From when on a drop is a failure; half of the longest attempt if unset.
    pub abandoned_after: Option<Ms>,
}

impl Breaker {
    /// A probe must be able to end before its lease does.
    pub fn with_lease_for(self, attempt_timeout: Option<Ms>, deadline: Option<Ms>) -> Self {
        let longest = [attempt_timeout, deadline].into_iter().flatten().min();
        Self {
            lease: self.lease.max(longest.unwrap_or(0)),
            ..self
        }
    }
}

#[derive(Clone, Debug)]
pub struct Rate {
    /// Failures in a hundred.
    pub percent: u32,
    pub window: Window,
    pub min_calls: u32,
    /// The last so many outcomes in the window all failed.
    pub last_failed: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
pub enum Window {
    Count(u32),
    Time(Ms),
}

/// What one answer of the dependency means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    Success,
    Transient,
    Overloaded(Option<Ms>),
    Unreachable,
    Throttled(Option<Ms>),
    Ambiguous,
    Terminal,
    Blocked,
    /// Not an answer: it was not ready to take the request in time.
    NotReady,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    Ok,
    Failing,
    Neutral,
}

impl Class {
    pub fn may_repeat(self) -> bool {
        !matches!(self, Self::Success | Self::Terminal | Self::Blocked)
    }

    pub fn health(self) -> Health {
        match self {
            Self::Success | Self::Terminal => Health::Ok,
            Self::Transient
            | Self::Overloaded(_)
            | Self::Unreachable
            | Self::Ambiguous
            | Self::NotReady => Health::Failing,
            Self::Throttled(_) | Self::Blocked => Health::Neutral,
        }
    }

    /// Whether the work was certainly not done.
    pub fn not_done(self) -> bool {
        matches!(
            self,
            Self::Overloaded(_) | Self::Unreachable | Self::Throttled(_) | Self::NotReady
        )
    }

    pub fn hint(self) -> Option<Ms> {
        match self {
            Self::Overloaded(hint) | Self::Throttled(hint) => hint,
            _ => None,
        }
    }

    /// Micro-tokens that a retry after such an answer costs.
    pub fn price(self) -> i64 {
        if matches!(self, Self::Ambiguous | Self::NotReady) {
            2 * TOKEN
        } else {
            TOKEN
        }
    }
}

/// What the dependency does in one attempt.
#[derive(Clone, Copy)]
pub struct Try {
    pub ready: Readiness,
    pub then: Behaviour,
}

/// When it is ready to take the request.
#[derive(Clone, Copy, Debug)]
pub enum Readiness {
    After(Ms),
    Never,
    /// With an error, after a time.
    Fails(Ms),
}

/// What it does with the request.
#[derive(Clone, Copy, Debug)]
pub enum Behaviour {
    Answers {
        after: Ms,
        class: Class,
        /// As `Err`, else as `Ok`.
        as_error: bool,
    },
    Hangs,
}

#[derive(Clone)]
pub struct Call {
    pub starts: Ms,
    pub idempotent: bool,
    pub copyable: bool,
    pub wish: Option<Wish>,
    /// How long the caller has left when the call starts, the caller's deadline.
    pub caller_has: Option<Ms>,
    /// When the caller loses interest, counted from the start.
    pub dropped_after: Option<Ms>,
    /// One for each attempt that may come.
    pub script: Vec<Try>,
}

/// What the caller asks for, for this call only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    NoRetries,
    /// Whatever the request itself says.
    NotIdempotent,
}

/// On one line, also where all else is spread out: a minimal failing case has
/// dozens of these.
impl fmt::Debug for Try {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ready {
            Readiness::After(0) => {}
            ready => write!(f, "ready {} ", flat(&ready))?,
        }
        f.write_str(&flat(&self.then))
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {}", self.starts)?;
        if !self.idempotent {
            f.write_str(", not idempotent")?;
        }
        if !self.copyable {
            f.write_str(", not copyable")?;
        }
        if let Some(wish) = self.wish {
            write!(f, ", wishes {wish:?}")?;
        }
        if let Some(left) = self.caller_has {
            write!(f, ", caller has {left}")?;
        }
        if let Some(after) = self.dropped_after {
            write!(f, ", dropped after {after}")?;
        }
        write!(f, ": {}", flat(&self.script))
    }
}

fn flat(value: &dyn fmt::Debug) -> String {
    format!("{value:?}")
}
