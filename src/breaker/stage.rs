//! The breaker's stage: asks before every attempt, hears of every attempt.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;

use super::core::Core;
use super::handle::Breaker;
use super::late::{Claimed, Polling};
use super::ticket::Ticket;
use crate::classify::verdict::Verdict;
use crate::error::Stopped;
use crate::moment::Moment;
use crate::refusal::Refusal;
use crate::scope::marks::Marks;
use crate::stage::timer::Timer;
use crate::stage::turn::Turn;
use crate::stage::{Attempted, Drive, Limits};

/// Which breaker judges a request. Sealed.
pub trait PickBreaker<Req>: pick::Pick<Req> {}

impl<Req, B: pick::Pick<Req>> PickBreaker<Req> for B {}

pub(crate) mod pick {
    use super::Breaker;

    pub trait Pick<Req> {
        /// What a call keeps of its breaker, so that further attempts and the
        /// outcome go to the same one.
        type Picked;

        fn pick(&self, request: &Req) -> Self::Picked;

        fn breaker<'a>(&'a self, picked: &'a Self::Picked) -> Option<&'a Breaker>;
    }
}

/// One breaker for all requests, or none.
#[derive(Clone, Debug)]
pub struct OneBreaker {
    pub(crate) breaker: Option<Breaker>,
}

impl<Req> pick::Pick<Req> for OneBreaker {
    type Picked = ();

    fn pick(&self, _: &Req) {}

    fn breaker<'a>(&'a self, (): &'a ()) -> Option<&'a Breaker> {
        self.breaker.as_ref()
    }
}

/// The settings behind a [`PickBreaker`]. Sealed.
pub trait BreakerSettings: settings::Settings {}

impl<B: settings::Settings> BreakerSettings for B {}

pub(crate) mod settings {
    use super::super::rules::Rules;
    use std::sync::Arc;

    #[cfg(feature = "serde")]
    use crate::moment::Moment;
    use crate::telemetry::Observer;

    pub trait Settings {
        fn rules(&self) -> Option<Rules>;

        /// Lets it hear of all breakers.
        fn observe(&self, observer: &Arc<dyn Observer>);

        /// All of them.
        #[cfg(feature = "serde")]
        fn snapshots(&self, now: Moment) -> Vec<crate::NamedBreaker>;
    }

    impl Settings for super::OneBreaker {
        fn rules(&self) -> Option<Rules> {
            self.breaker.as_ref().map(|breaker| breaker.core().rules())
        }

        fn observe(&self, observer: &Arc<dyn Observer>) {
            if let Some(breaker) = &self.breaker {
                breaker.observe_as(observer);
            }
        }

        #[cfg(feature = "serde")]
        fn snapshots(&self, now: Moment) -> Vec<crate::NamedBreaker> {
            let breaker = self.breaker.iter();
            let named = breaker.map(|one| crate::NamedBreaker::new(None, one.core().snapshot(now)));
            named.collect()
        }
    }
}

/// A breaker around single attempts; the stage of a
/// [`BreakerLayer`](super::BreakerLayer).
#[derive(Debug)]
pub struct BreakerStage<T, B = OneBreaker> {
    pub(crate) attempt: T,
    pub(crate) breakers: B,
    /// From when on a dropped call counts as a failure, unless the breaker
    /// says otherwise.
    pub(crate) abandoned_after: Option<Duration>,
}

impl<T, B> BreakerStage<T, B> {
    /// Whoever drops a call early has changed their mind; whoever drops it
    /// late has given up on the dependency.
    fn abandon_ticket(&self, core: &Core, ticket: Ticket, started: Option<Moment>) {
        let limit = core.abandoned_after().or(self.abandoned_after);
        if let (Some(limit), Some(started)) = (limit, started) {
            let now = Moment::now();
            if now.since(started) >= limit {
                let verdict = Verdict::ambiguous().because("abandoned");
                return core.record(ticket, &verdict, started, || now);
            }
        }
        core.give_up(ticket);
    }
}

pin_project! {
    /// State of the attempts of one call behind a breaker. Opaque.
    pub struct BreakerRunning<R, P> {
        picked: P,
        #[pin]
        held: Held<R>,
    }
}

pin_project! {
    /// An attempt, and what it holds of its breaker.
    ///
    /// In this order, as behind the attempt there may be a gap: that would be
    /// moved together with what follows, and read before it has been written,
    /// which takes a tenth of a call.
    #[repr(C)]
    struct Held<R> {
        ticket: Option<Ticket>,
        // Who wants to tell of the outcome instead.
        claimed: Claimed,
        #[pin]
        attempt: R,
    }
}

impl<Req, S, T, B> Drive<Req, S> for BreakerStage<T, B>
where
    T: Drive<Req, S, Entry = ()>,
    B: PickBreaker<Req>,
{
    type Response = T::Response;
    type Running = BreakerRunning<T::Running, B::Picked>;

    type Entry = B::Picked;

    #[inline]
    fn enter(&self, request: &Req, now: Moment) -> Result<(B::Picked, Marks), Refusal> {
        let picked = self.breakers.pick(request);
        let marks = match self.breakers.breaker(&picked) {
            None => Marks::NONE,
            Some(breaker) => {
                breaker.core().is_shut(|| now)?;
                Marks::LENDS_PERMITS
            }
        };
        Ok((picked, marks))
    }

    fn would_admit(&self, running: &Self::Running, now: Moment) -> Result<(), Refusal> {
        match self.breakers.breaker(&running.picked) {
            Some(breaker) => breaker.core().would_admit(|| now),
            None => Ok(()),
        }
    }

    fn prepare(&self, picked: B::Picked, service: S) -> Self::Running {
        BreakerRunning {
            picked,
            held: Held {
                ticket: None,
                claimed: Claimed::NONE,
                attempt: self.attempt.prepare((), service),
            },
        }
    }

    #[inline(always)]
    fn start(
        &self,
        running: Pin<&mut Self::Running>,
        request: &Req,
        now: Moment,
    ) -> Result<(), Refusal> {
        let this = running.project();
        let held = this.held.project();
        if let Some(breaker) = self.breakers.breaker(this.picked) {
            *held.ticket = Some(breaker.core().admit(|| now)?);
        }
        self.attempt.start(held.attempt, request, now)
    }

    #[inline(always)]
    fn poll_attempt(
        &self,
        running: Pin<&mut Self::Running>,
        request: Option<Req>,
        timer: Pin<&mut Timer>,
        turn: &mut Turn,
        limits: Limits,
        cx: &mut Context<'_>,
    ) -> Poll<Attempted<T::Response>> {
        let this = running.project();
        let held = this.held.project();
        let polling = Polling;
        let attempt = &self.attempt;
        match attempt.poll_attempt(held.attempt, request, timer, turn, limits, cx) {
            Poll::Pending => {
                if polling.left_a_claim() {
                    held.claimed.take_over();
                }
                Poll::Pending
            }
            Poll::Ready(Attempted::Success(answer)) => {
                let is_claimed = polling.left_a_claim() || held.claimed.is_some();
                let breaker = self.breakers.breaker(this.picked);
                if let (Some(breaker), Some(ticket)) = (breaker, held.ticket.take()) {
                    let started = limits.started;
                    if is_claimed {
                        held.claimed.hand_over(breaker, ticket, started, turn);
                    } else {
                        breaker.core().record_success(ticket, started, turn);
                    }
                }
                Poll::Ready(Attempted::Success(answer))
            }
            Poll::Ready(Attempted::Unsuccess(unsuccess)) => {
                if polling.left_a_claim() {
                    held.claimed.take_over();
                }
                *held.claimed = Claimed::NONE;
                let breaker = self.breakers.breaker(this.picked);
                if let (Some(breaker), Some(ticket)) = (breaker, held.ticket.take()) {
                    let (core, started) = (breaker.core(), limits.started);
                    core.record(ticket, &unsuccess.verdict, started, || turn.now());
                }
                Poll::Ready(Attempted::Unsuccess(unsuccess))
            }
        }
    }

    fn abandon(&self, running: Pin<&mut Self::Running>, started: Option<Moment>) {
        let this = running.project();
        if let Some(ticket) = this.held.project().ticket.take() {
            if let Some(breaker) = self.breakers.breaker(this.picked) {
                self.abandon_ticket(breaker.core(), ticket, started);
            }
        }
    }

    fn copy(&self, request: &Req) -> Option<Req> {
        self.attempt.copy(request)
    }

    fn is_intact(&self, copy: &Req) -> bool {
        self.attempt.is_intact(copy)
    }

    fn idempotent(&self, running: &Self::Running) -> bool {
        self.attempt.idempotent(&running.held.attempt)
    }

    fn seal(&self, response: &mut T::Response, stopped: &Stopped) {
        self.attempt.seal(response, stopped);
    }
}
