//! A call's place among those that are put off.

use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use tokio::time::Instant;

use super::queue::{Look, Turn};
use super::shared::{Shared, look};
use crate::breaker::alarm::Alarm;
use crate::breaker::handle::Breaker;
use crate::error::ParkLimit;
use crate::limit::lesser;
use crate::refusal::Refusal;
use crate::stage::timer::Timer;
use crate::telemetry::{Event, Observers, emit};

/// Held from the first refusal to the end of the call, so that one that has
/// come back and is refused once more finds its place free.
///
/// To be [freed](Self::free) in the end.
#[derive(Debug)]
pub(super) struct Place {
    breaker: Breaker,
    number: u64,
    since: Instant,
    /// When it is over, and for which reason.
    end: Option<(Instant, ParkLimit)>,
    /// When it means to come back.
    due: Instant,
    is_parked: bool,
    dependency: &'static str,
    observers: Observers,
    /// Of the first in line.
    alarm: Option<Alarm>,
}

/// Whose call it is.
pub(super) struct Whose<'a> {
    pub(super) breaker: Breaker,
    pub(super) dependency: &'static str,
    pub(super) observers: &'a Observers,
}

/// How a parked call goes on.
#[derive(Debug)]
pub(super) enum Waited {
    /// It is its turn.
    Turn,
    /// It ran into a bound; the refusal is the present one.
    Over {
        limit: ParkLimit,
        refusal: Option<Refusal>,
    },
}

impl Place {
    /// Parks a call for the first time, if it has the time and there is room.
    pub(super) fn take(
        shared: &Shared,
        whose: Whose<'_>,
        refusal: &Refusal,
        deadline: Option<Instant>,
        now: Instant,
    ) -> Result<Self, ParkLimit> {
        let Whose {
            breaker,
            dependency,
            observers,
        } = whose;
        let longest = now.checked_add(shared.longest());
        let end = lesser(longest, deadline).map(|end| {
            let limit = if deadline == Some(end) {
                ParkLimit::Deadline
            } else {
                ParkLimit::Time
            };
            (end, limit)
        });
        let due = due_before(shared, refusal, now, end)?;
        let parked = shared.take().ok_or(ParkLimit::Calls)?;
        let number = {
            let mut queue = shared.queue();
            let number = queue.number();
            queue.park(breaker.number(), number, Waker::noop().clone(), now);
            number
        };
        let place = Self {
            breaker,
            number,
            since: now,
            end,
            due,
            is_parked: true,
            dependency,
            observers: observers.clone(),
            alarm: None,
        };
        let told = Event::Parked { dependency, parked };
        emit(observers, &told);
        Ok(place)
    }

    /// Counts this call among those that came.
    pub(super) fn count(&self, shared: &Shared, now: Instant) {
        shared.queue().arrived(self.breaker.number(), now);
    }

    /// Parks a call that has come back and was refused once more. It keeps its
    /// number, and so stands before all that came later.
    pub(super) fn park_again(
        &mut self,
        shared: &Shared,
        refusal: &Refusal,
        now: Instant,
    ) -> Result<(), ParkLimit> {
        self.due = due_before(shared, refusal, now, self.end)?;
        self.is_parked = true;
        let line = self.breaker.number();
        let waker = Waker::noop().clone();
        shared.queue().park(line, self.number, waker, now);
        Ok(())
    }

    pub(super) fn poll(
        &mut self,
        shared: &Shared,
        mut timer: Pin<&mut Timer>,
        cx: &mut Context<'_>,
    ) -> Poll<Waited> {
        if let Some(alarm) = &self.alarm {
            alarm.renew(cx.waker());
        }
        loop {
            let now = Instant::now();
            if let Some((_, limit)) = self.end.filter(|(end, _)| *end <= now) {
                let refusal = look(&self.breaker).1;
                return Poll::Ready(Waited::Over { limit, refusal });
            }
            // Looked at after the alarm was set, so that no change is missed.
            let seen = self.alarm.as_ref().map(|_| look(&self.breaker));
            let seen = match seen {
                Some((Look::Shut, Some(refusal))) => {
                    match due_before(shared, &refusal, now, self.end) {
                        // Asked anew only when the time has come, or each
                        // poll would draw another jitter.
                        Ok(due) if self.due <= now || due < self.due => self.due = due,
                        Ok(_) => {}
                        Err(limit) => {
                            let refusal = Some(refusal);
                            return Poll::Ready(Waited::Over { limit, refusal });
                        }
                    }
                    Look::Shut
                }
                Some((look, _)) => look,
                None => Look::Shut,
            };
            let (turn, wakes) = shared.queue().turn(
                self.breaker.number(),
                self.number,
                cx.waker(),
                (seen, self.due),
                now,
            );
            wakes.wake();
            let end = self.end.map(|(end, _)| end);
            let until = match turn {
                Turn::Come => {
                    self.is_parked = false;
                    self.alarm = None;
                    return Poll::Ready(Waited::Turn);
                }
                Turn::Behind => {
                    self.alarm = None;
                    end
                }
                Turn::First(at) if self.alarm.is_some() => lesser(end, Some(at)),
                Turn::First(_) => {
                    self.alarm = Some(self.breaker.alarm(cx.waker()));
                    continue;
                }
            };
            match until {
                None => return Poll::Pending,
                Some(at) => ready!(timer.as_mut().poll_until(at, cx)),
            }
        }
    }

    /// Gives the place back, and its turn to the next if it had one and did not
    /// take it.
    pub(super) fn free(self, shared: &Shared, limit: Option<ParkLimit>) {
        drop(self.alarm);
        let now = Instant::now();
        if self.is_parked {
            let line = self.breaker.number();
            let wakes = shared.queue().leave(line, self.number, now);
            wakes.wake();
        }
        let parked = shared.give_back();
        let told = Event::Unparked {
            dependency: self.dependency,
            parked,
            waited: now.saturating_duration_since(self.since),
            limit,
        };
        emit(&self.observers, &told);
    }
}

/// When a refused call should come back, or the bound that comes before.
fn due_before(
    shared: &Shared,
    refusal: &Refusal,
    now: Instant,
    end: Option<(Instant, ParkLimit)>,
) -> Result<Instant, ParkLimit> {
    let limit = end.map_or(ParkLimit::Time, |(_, limit)| limit);
    let end = end.map(|(end, _)| end);
    shared.due(refusal, now, end).ok_or(limit)
}
