//! seatbelt, through its own trait and through tower's. It has no retry budget;
//! its breaker counts in a time window.

use std::future::Future;
use std::time::Duration;

use layered::{Execute, Layer as _, Stack};
use seatbelt::breaker::{Breaker, BreakerId, BreakerLayer};
use seatbelt::retry::{Retry, RetryLayer};
use seatbelt::timeout::{Timeout, TimeoutLayer};
use seatbelt::typestates::Set;
use seatbelt::{RecoveryInfo, ResilienceContext};
use tick::Clock;
use tower::{Service as _, ServiceBuilder};

use super::Peer;
use crate::contender::{Contender, Tower};
use crate::inner::{Fault, Inner};
use crate::settings::{
    ATTEMPT_TIMEOUT, BACKOFF_BASE, BACKOFF_CAP, DEADLINE, MAX_ATTEMPTS, MIN_CALLS, OPEN_TIME, Rule,
    WINDOW,
};

type Out = Result<u64, Fault>;
type Context = ResilienceContext<u64, Out>;

pub struct Seatbelt;

impl Peer for Seatbelt {
    const NAME: &'static str = "seatbelt";

    fn stack(inner: Inner) -> Option<impl Contender> {
        Some(stack(BACKOFF_BASE, Rule::Half, inner))
    }

    fn refusing(inner: Inner) -> Option<impl Contender> {
        Self::stack(inner)
    }

    fn at_once(inner: Inner) -> Option<impl Contender> {
        Some(stack(Duration::ZERO, Rule::OutOfReach, inner))
    }

    fn breaker(inner: Inner, rule: Rule) -> Option<impl Contender> {
        let context = context();
        Some(Own((breaker(&context, rule), execute(inner)).into_service()))
    }
}

pub struct SeatbeltTower;

impl Peer for SeatbeltTower {
    const NAME: &'static str = "seatbelt-tower";

    fn stack(inner: Inner) -> Option<impl Contender> {
        Some(tower_stack(BACKOFF_BASE, Rule::Half, inner))
    }

    fn refusing(inner: Inner) -> Option<impl Contender> {
        Self::stack(inner)
    }

    fn at_once(inner: Inner) -> Option<impl Contender> {
        Some(tower_stack(Duration::ZERO, Rule::OutOfReach, inner))
    }

    fn breaker(inner: Inner, rule: Rule) -> Option<impl Contender> {
        Some(Tower(breaker(&context(), rule).layer(inner)))
    }
}

/// Its registry: a breaker per request here.
pub fn per_key() -> impl layered::Service<u64, Out = Out> {
    let breaker = breaker(&context(), Rule::Half).breaker_id(|key| BreakerId::from(*key));
    (breaker, execute(Inner::READY)).into_service()
}

fn stack(base: Duration, rule: Rule, inner: Inner) -> impl Contender {
    let context = context();
    Own((
        timeout(&context, DEADLINE),
        retry(&context, base),
        breaker(&context, rule),
        timeout(&context, ATTEMPT_TIMEOUT),
        execute(inner),
    )
        .into_service())
}

fn tower_stack(base: Duration, rule: Rule, inner: Inner) -> impl Contender {
    let context = context();
    let service = ServiceBuilder::new()
        .layer(timeout(&context, DEADLINE))
        .layer(retry(&context, base))
        .layer(breaker(&context, rule))
        .layer(timeout(&context, ATTEMPT_TIMEOUT))
        .service(inner);
    Tower(service)
}

fn context() -> Context {
    ResilienceContext::new(Clock::new_tokio())
}

fn execute(inner: Inner) -> impl layered::Service<u64, Out = Out> + Clone + 'static {
    Execute::new(move |request| inner.clone().call(request))
}

fn timeout(context: &Context, limit: Duration) -> TimeoutLayer<u64, Out, Set, Set> {
    Timeout::layer("timeout", context)
        .timeout_error(|_| Fault::TimedOut)
        .timeout(limit)
}

fn retry(context: &Context, base: Duration) -> RetryLayer<u64, Out, Set, Set> {
    Retry::layer("retry", context)
        .clone_input()
        .recovery_with(|out, _| recovery(out))
        .max_retry_attempts(MAX_ATTEMPTS - 1)
        .base_delay(base)
        .max_delay(BACKOFF_CAP)
}

fn breaker(context: &Context, rule: Rule) -> BreakerLayer<u64, Out, Set, Set> {
    // It insists on less than 1.
    let share = rule.share().min(0.99);
    Breaker::layer("breaker", context)
        .recovery_with(|out, _| recovery(out))
        .rejected_input_error(|_, _| Fault::Refused)
        .failure_threshold(share as f32)
        .sampling_duration(WINDOW)
        .min_throughput(MIN_CALLS)
        .break_duration(OPEN_TIME)
}

fn recovery(out: &Out) -> RecoveryInfo {
    match out {
        Ok(_) | Err(Fault::Refused) => RecoveryInfo::never(),
        Err(Fault::Failed | Fault::TimedOut) => RecoveryInfo::retry(),
    }
}

/// A service of its own trait.
#[derive(Clone)]
struct Own<S>(S);

impl<S> Contender for Own<S>
where
    S: layered::Service<u64, Out = Out> + Clone + 'static,
{
    type Error = Fault;

    fn call(&mut self, request: u64) -> impl Future<Output = Out> {
        self.0.execute(request)
    }
}
