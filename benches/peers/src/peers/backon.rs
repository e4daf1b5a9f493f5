//! backon's retries around recloser's breaker, with tokio's timeouts: no tower
//! and no budget.

use std::future::{Ready, ready};
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable, Sleeper};
use recloser::{AsyncRecloser, Error};
use tokio::time::timeout;
use tower::Service;

use super::Peer;
use super::recloser::breaker;
use crate::contender::{Contender, Refusable};
use crate::inner::{Fault, Inner};
use crate::settings::{ATTEMPT_TIMEOUT, BACKOFF_BASE, BACKOFF_CAP, DEADLINE, MAX_ATTEMPTS, Rule};

pub struct Backon;

impl Peer for Backon {
    const NAME: &'static str = "backon";

    fn stack(inner: Inner) -> Option<impl Contender> {
        Some(Stack {
            breaker: breaker(Rule::Half).into(),
            sleeper: backon::TokioSleeper,
            inner,
        })
    }

    fn refusing(inner: Inner) -> Option<impl Contender> {
        Self::stack(inner)
    }

    fn at_once(inner: Inner) -> Option<impl Contender> {
        Some(Stack {
            breaker: breaker(Rule::OutOfReach).into(),
            sleeper: AtOnce,
            inner,
        })
    }
}

const BACKOFF: ExponentialBuilder = ExponentialBuilder::new()
    .with_jitter()
    .with_min_delay(BACKOFF_BASE)
    .with_max_delay(BACKOFF_CAP)
    .with_max_times(MAX_ATTEMPTS as usize - 1);

#[derive(Clone)]
struct Stack<T> {
    breaker: AsyncRecloser,
    sleeper: T,
    inner: Inner,
}

impl<T> Contender for Stack<T>
where
    T: Sleeper + Clone + Send + 'static,
{
    type Error = Fault;

    async fn call(&mut self, request: u64) -> Result<u64, Fault> {
        let attempt = || async {
            // Called, and its timer made, only if the breaker lets it.
            let call = async {
                timeout(ATTEMPT_TIMEOUT, self.inner.clone().call(request))
                    .await
                    .unwrap_or(Err(Fault::TimedOut))
            };
            self.breaker.call(call).await.map_err(|error| match error {
                Error::Rejected => Fault::Refused,
                Error::Inner(fault) => fault,
            })
        };
        let retries = attempt
            .retry(BACKOFF)
            .sleep(self.sleeper.clone())
            .when(|fault| !fault.is_refusal());
        timeout(DEADLINE, retries)
            .await
            .unwrap_or(Err(Fault::TimedOut))
    }
}

#[derive(Clone)]
struct AtOnce;

impl Sleeper for AtOnce {
    type Sleep = Ready<()>;

    fn sleep(&self, _: Duration) -> Ready<()> {
        ready(())
    }
}
