//! Whether another attempt follows.

use std::time::Duration;

use super::budget::{Budget, Charge};
use super::shared::RetrySettings;
use crate::classify::verdict::{Again, Verdict, Work};
use crate::error::Stopped;
use crate::moment::Moment;
use crate::refusal::Refusal;
use crate::span::nanos;
use crate::stage::timer::TICK;

/// What is known after an attempt. The closures are asked only if all that
/// comes before them spoke for another attempt.
pub(super) struct Situation<'a, I, R, A, C> {
    pub(super) verdict: &'a Verdict,
    pub(super) idempotent: I,
    /// Attempts made so far.
    pub(super) attempts: u32,
    pub(super) retries_disabled: bool,
    /// Whether there is a copy of the request that can still be sent.
    pub(super) replayable: R,
    pub(super) would_admit: A,
    /// Whether the cap on sends leaves room for another.
    pub(super) has_room: C,
    pub(super) deadline: Moment,
    pub(super) now: Moment,
}

/// The decision for another attempt.
#[derive(Debug)]
pub(super) struct Next {
    pub(super) delay: Duration,
    pub(super) charge: Option<Charge>,
}

/// Goes through the conditions in order; the first that fails is the reason.
/// Only the last, the budget, has an effect.
pub(super) fn next<I, R, A, C>(
    settings: &RetrySettings,
    budget: Option<&Budget>,
    situation: Situation<'_, I, R, A, C>,
) -> Result<Next, Stopped>
where
    I: FnOnce() -> bool,
    R: FnOnce() -> bool,
    A: FnOnce() -> Result<(), Refusal>,
    C: FnOnce() -> bool,
{
    let Situation { verdict, now, .. } = situation;
    if verdict.again() == Again::Never {
        return Err(Stopped::NotRetryable);
    }
    if verdict.work() != Work::NotDone && !(situation.idempotent)() {
        return Err(Stopped::NotIdempotent);
    }
    if situation.attempts >= settings.max_attempts {
        return Err(Stopped::AttemptsExhausted);
    }
    if situation.retries_disabled {
        return Err(Stopped::RetriesDisabled);
    }
    if !(situation.replayable)() {
        return Err(Stopped::NotReplayable);
    }
    (situation.would_admit)().map_err(Stopped::Breaker)?;
    if !(situation.has_room)() {
        return Err(Stopped::CallCap);
    }
    let room = room(settings, situation.deadline, now).ok_or(Stopped::Deadline)?;
    let retry = situation.attempts.saturating_sub(1);
    let delay = match verdict.hint() {
        Some(hint) if hint > settings.largest_hint => return Err(Stopped::HintTooLong),
        Some(hint) => settings.backoff.after_hint(hint, retry, room),
        None => settings.backoff.delay(retry, room),
    };
    let delay = delay.ok_or(Stopped::Deadline)?;
    let charge = match budget {
        None => None,
        Some(budget) => {
            let charge = budget.withdraw(!verdict.answered(), now);
            Some(charge.ok_or(Stopped::BudgetExhausted)?)
        }
    };
    Ok(Next { delay, charge })
}

/// How long a wait may be if an attempt is to follow it before the deadline;
/// `None` if none can follow even at once.
fn room(settings: &RetrySettings, deadline: Moment, now: Moment) -> Option<Duration> {
    if deadline == Moment::NEVER {
        return Some(Duration::MAX);
    }
    let left = deadline.span_since(now).nanos();
    if left == 0 {
        return None;
    }
    let room = left.checked_sub(nanos(settings.min_useful_time))?;
    // However little time is said to be useful: a wait that ends with the
    // deadline leads to no attempt.
    let room = room.min(left.saturating_sub(nanos(TICK)));
    Some(Duration::from_nanos(room))
}
