//! A provider that takes its time over an answer and rejects quickly, and what a gateway has without
//! a library: a loop of retries and a second provider.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use tokio::time::{Instant, sleep};
use tower::{Service, service_fn};

/// The answer of a provider that takes no more work.
#[derive(Debug, thiserror::Error)]
#[error("rejected")]
pub(crate) struct Rejected;

/// How a provider behaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manners {
    /// The share of attempts that are rejected.
    pub(crate) rejects: f64,
    /// The probability that an attempt of a request ends as the one before, whatever the share.
    pub(crate) correlation: f64,
    /// How long a rejection takes.
    pub(crate) rejection: Duration,
    /// How long an answer takes.
    pub(crate) answer: Duration,
}

impl Manners {
    /// Always answers.
    pub(crate) fn healthy(answer: Duration) -> Self {
        Self {
            rejects: 0.0,
            correlation: 0.0,
            rejection: Duration::ZERO,
            answer,
        }
    }
}

/// A request, by its number.
pub(crate) type Number = u32;

/// A send, from its begin to the answer or to the moment at which it was given up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) request: Number,
    pub(crate) begun: Instant,
    pub(crate) ended: Instant,
}

/// A provider with a record of all that was sent to it; clones share the record.
#[derive(Clone)]
pub(crate) struct Provider {
    manners: Manners,
    state: Arc<Mutex<State>>,
}

struct State {
    random: StdRng,
    /// How the last attempt of each request ended, as far as later ones hang on it.
    rejected: HashMap<Number, bool>,
    sent: Vec<Sent>,
}

impl Provider {
    pub(crate) fn new(manners: Manners, random: StdRng) -> Self {
        Self {
            manners,
            state: Arc::new(Mutex::new(State {
                random,
                rejected: HashMap::new(),
                sent: Vec::new(),
            })),
        }
    }

    /// One send.
    ///
    /// # Errors
    ///
    /// When it is rejected.
    pub(crate) async fn send(&self, request: Number) -> Result<(), Rejected> {
        let _under_way = UnderWay {
            state: &self.state,
            request,
            begun: Instant::now(),
        };
        if self.rejects(request) {
            sleep(self.manners.rejection).await;
            return Err(Rejected);
        }
        sleep(self.manners.answer).await;
        Ok(())
    }

    /// As a service.
    pub(crate) fn service(
        &self,
    ) -> impl Service<Number, Response = (), Error = Rejected, Future: Send> + Clone + Send + Sync + use<>
    {
        let provider = self.clone();
        service_fn(move |request| {
            let provider = provider.clone();
            async move { provider.send(request).await }
        })
    }

    /// All sends that are over.
    pub(crate) fn sent(&self) -> Vec<Sent> {
        locked(&self.state).sent.clone()
    }

    fn rejects(&self, request: Number) -> bool {
        let Manners {
            rejects,
            correlation,
            ..
        } = self.manners;
        let mut state = locked(&self.state);
        let as_before = state.random.random::<f64>() < correlation;
        let on_its_own = state.random.random::<f64>() < rejects;
        if correlation == 0.0 {
            return on_its_own;
        }
        let before = state.rejected.get(&request).copied();
        let rejected = before.filter(|_| as_before).unwrap_or(on_its_own);
        state.rejected.insert(request, rejected);
        rejected
    }
}

/// Records a send when it is over, however it ends.
struct UnderWay<'a> {
    state: &'a Mutex<State>,
    request: Number,
    begun: Instant,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let sent = Sent {
            request: self.request,
            begun: self.begun,
            ended: Instant::now(),
        };
        locked(self.state).sent.push(sent);
    }
}

/// The lock's content, whoever panicked while holding it.
pub(crate) fn locked<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Who answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnsweredBy {
    Primary,
    Secondary,
}

/// The comparator, in plain lines: attempts with waits between them, then the secondary. Requests
/// learn nothing from one another, and nobody looks at how long the caller will stay.
///
/// # Errors
///
/// When the secondary rejects as well.
pub(crate) async fn plain_loop(
    primary: &Provider,
    secondary: &Provider,
    waits: &[Duration],
    request: Number,
) -> Result<AnsweredBy, Rejected> {
    let mut waits = waits.iter();
    loop {
        if primary.send(request).await.is_ok() {
            return Ok(AnsweredBy::Primary);
        }
        let Some(&wait) = waits.next() else { break };
        sleep(wait).await;
    }
    secondary.send(request).await?;
    Ok(AnsweredBy::Secondary)
}

/// The waits of a plain exponential backoff between so many attempts.
pub(crate) fn doubled(base: Duration, attempts: u32) -> Vec<Duration> {
    let mut wait = base;
    let mut waits = Vec::new();
    for _ in 1..attempts {
        waits.push(wait);
        wait = wait.saturating_mul(2);
    }
    waits
}
