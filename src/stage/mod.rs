//! What happens once per attempt, below the retry loop.
//!
//! Above the line the stages are `tower::Service`s. Below it they are not:
//! [`Breaker`](crate::breaker::BreakerLayer) and
//! [`Attempt`](crate::attempt::AttemptLayer) are sealed stages of one attempt,
//! so that nothing can be put between them and nothing else can be retried.
//!
//! A stage is settings only. The service stands beside it in a [`Single`], and
//! what a call needs while it runs is a value of its own (`Running`), kept in
//! the loop's future. So the loop shares all settings and state below it
//! behind one handle, takes that handle once per call, and clones the inner
//! service once per call, however many attempts follow.

pub(crate) mod timer;
pub(crate) mod turn;

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tower::BoxError;

use crate::classify::verdict::Verdict;
use crate::error::Stopped;
use crate::moment::Moment;
use crate::refusal::Refusal;
use crate::scope::marks::Marks;
use crate::span::Span;
use timer::Timer;
use turn::Turn;

pub(crate) mod sealed {
    pub trait Sealed {}
}

/// A service and the stages of one attempt around it. Neither a
/// `tower::Service` nor `Clone`: only the retry loop can use it.
#[derive(Debug)]
pub struct Single<S, T> {
    pub(crate) service: S,
    pub(crate) stage: T,
}

/// What a retry loop can drive: an `Attempt`, or a `Breaker` around one.
///
/// Sealed. It is the trait that compiler errors name when a stack is built in
/// an order that does not work.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a single attempt",
    label = "a retry loop wraps only an `Attempt`, or a `Breaker` around one",
    note = "the order is Fallback, Deadline, Defer, Retry, Breaker, Attempt, your service"
)]
pub trait SingleAttempt: sealed::Sealed {
    /// The service inside.
    type Service;
    /// The stages around it.
    type Stage;

    #[doc(hidden)]
    fn split(self) -> (Self::Service, Self::Stage);
}

impl<S, T> sealed::Sealed for Single<S, T> {}

impl<S, T> SingleAttempt for Single<S, T> {
    type Service = S;
    type Stage = T;

    fn split(self) -> (S, T) {
        (self.service, self.stage)
    }
}

/// A service that can stand below an `Attempt`: any that is `Clone`.
///
/// Every call clones it once, so that attempts do not compete for one
/// readiness. A service that is not `Clone` goes through `tower::buffer`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot stand below an `Attempt`",
    label = "expected a service that is `Clone`",
    note = "a stage of single attempts (`Breaker`, `Attempt`) cannot stand here; another service that is not `Clone` goes through `tower::buffer`"
)]
pub trait InnerService: Clone {}

impl<S: Clone> InnerService for S {}

/// A service that may hold a place in a queue, and how to be rid of it.
///
/// Only a fresh clone is sure to hold nothing: there is no way to tell a
/// service that its readiness is no longer waited for.
pub trait Renew: Sized {
    /// One that holds nothing; `None` where it never does.
    fn renewed(&self) -> Option<Self>;
}

impl<S: Clone> Renew for S {
    fn renewed(&self) -> Option<Self> {
        Some(self.clone())
    }
}

/// How one attempt ended.
#[derive(Debug)]
pub enum Attempted<Res> {
    /// With an answer that is a success.
    Success(Res),
    /// In any other way.
    Unsuccess(Unsuccess<Res>),
}

/// An attempt that was no success: the result and its verdict.
#[derive(Debug)]
pub struct Unsuccess<Res> {
    pub(crate) result: Result<Res, Failure>,
    pub(crate) verdict: Verdict,
}

/// An attempt without an answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The service's own error.
    Service(BoxError),
    /// The attempt timeout passed.
    TimedOut,
    /// The deadline passed.
    DeadlineExceeded,
    /// There is no room under the call cap; nothing was sent.
    Capped,
}

/// When an attempt began, and what bounds it from outside besides the deadline
/// in scope. Two words, which go from hand to hand in registers.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub(crate) started: Moment,
    /// The stack's own total, of which an attempt may expect a fair share.
    pub(crate) total: Span,
}

impl Limits {
    /// How long the attempt has run.
    pub(crate) fn ran(&self, now: Moment) -> Duration {
        now.since(self.started)
    }
}

/// The stages of one attempt over a service `S`. Sealed: it can be named in
/// bounds, not implemented.
pub trait Stage<Req, S>: stage_sealed::Drive<Req, S> {}

impl<Req, S, T: stage_sealed::Drive<Req, S>> Stage<Req, S> for T {}

pub(crate) use stage_sealed::Drive;

pub(crate) mod stage_sealed {
    use super::*;

    /// What the loop asks of the stages below it.
    pub trait Drive<Req, S> {
        /// The answer.
        type Response;
        /// What one call keeps while it runs: the one clone of the service,
        /// a permit, the attempt under way.
        type Running;

        /// What a call keeps of its way in: which breaker judges it.
        type Entry;

        /// Lets a call in, with what its attempts are marked with in their
        /// scope, unless the first of them is refused for certain: spares a
        /// call that can go nowhere its clone of the service and its handle.
        /// Reserves nothing.
        fn enter(&self, request: &Req, now: Moment) -> Result<(Self::Entry, Marks), Refusal>;

        /// Would a further attempt be admitted now? A look, no reservation.
        fn would_admit(&self, running: &Self::Running, now: Moment) -> Result<(), Refusal>;

        /// Room for the attempts of one call, with its clone of the service.
        fn prepare(&self, entry: Self::Entry, service: S) -> Self::Running;

        /// Begins an attempt, the first or a further one in the same clone,
        /// or refuses it. The request is handed over with the first poll.
        fn start(
            &self,
            running: Pin<&mut Self::Running>,
            request: &Req,
            now: Moment,
        ) -> Result<(), Refusal>;

        /// Drives the attempt under way. The request comes with the first poll
        /// and with no other: a service that is ready then gets it from hand to
        /// hand.
        fn poll_attempt(
            &self,
            running: Pin<&mut Self::Running>,
            request: Option<Req>,
            timer: Pin<&mut Timer>,
            turn: &mut Turn,
            limits: Limits,
            cx: &mut Context<'_>,
        ) -> Poll<Attempted<Self::Response>>;

        /// Gives back what is held from the breaker for an attempt that will
        /// not be driven to its end, and began then if it began; the caller
        /// drops the rest.
        fn abandon(&self, running: Pin<&mut Self::Running>, started: Option<Moment>);

        /// A copy of the request for a later attempt.
        fn copy(&self, request: &Req) -> Option<Req>;

        /// Whether such a copy can still be sent.
        fn is_intact(&self, copy: &Req) -> bool;

        /// Whether the request of the last attempt may be sent twice.
        fn idempotent(&self, running: &Self::Running) -> bool;

        /// Marks an answer with which the retries ended.
        fn seal(&self, response: &mut Self::Response, stopped: &Stopped);
    }
}
