//! The dependency: a service that follows the script.

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use steadfast::{Classify, Replay, Verdict};
use tokio::time::{Instant, Sleep, sleep};
use tower::Service;

use super::ms;
use crate::model::Ms;
use crate::model::policy::{Behaviour, Call, Class, Readiness, Try};
use crate::model::run::Attempt;

tokio::task_local! {
    /// Which call this task makes: readiness is asked for before any request is
    /// seen.
    pub(super) static CALL: usize;
}

pub(super) struct World {
    pub(super) epoch: Instant,
    pub(super) calls: Vec<Call>,
    /// What arrived here of each call.
    pub(super) attempts: Vec<Mutex<Vec<Attempt>>>,
}

impl World {
    pub(super) fn now(&self) -> Ms {
        let passed = Instant::now() - self.epoch;
        assert_eq!(passed.subsec_nanos() % 1_000_000, 0, "whole milliseconds");
        passed.as_millis() as Ms
    }
}

pub(super) struct Scripted {
    world: Arc<World>,
    /// The attempt that this clone was asked to be ready for.
    asked: Option<Asked>,
}

struct Asked {
    attempt: Try,
    waiting: Option<Pin<Box<Sleep>>>,
}

impl Scripted {
    pub(super) fn new(world: Arc<World>) -> Self {
        let asked = None;
        Self { world, asked }
    }
}

/// A clone is not ready because the original was.
impl Clone for Scripted {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.world))
    }
}

impl Service<Request> for Scripted {
    type Response = Answer;
    type Error = Fault;
    type Future = Pin<Box<dyn Future<Output = Result<Answer, Fault>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        let asked = self.asked.get_or_insert_with(|| {
            let index = CALL.get();
            let mut attempts = self.world.attempts[index]
                .lock()
                .expect("no panic elsewhere");
            let attempt = self.world.calls[index].script[attempts.len()];
            attempts.push(Attempt {
                asked: self.world.now(),
                sent: None,
            });
            let waiting = match attempt.ready {
                Readiness::After(0) | Readiness::Fails(0) | Readiness::Never => None,
                Readiness::After(wait) | Readiness::Fails(wait) => Some(Box::pin(sleep(ms(wait)))),
            };
            Asked { attempt, waiting }
        });
        if let Some(waiting) = &mut asked.waiting {
            ready!(waiting.as_mut().poll(cx));
            asked.waiting = None;
        }
        match asked.attempt.ready {
            Readiness::After(_) => Poll::Ready(Ok(())),
            Readiness::Never => Poll::Pending,
            Readiness::Fails(_) => Poll::Ready(Err(Fault::Unready)),
        }
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let asked = self.asked.take().expect("called without being ready");
        let mut attempts = self.world.attempts[request.index]
            .lock()
            .expect("no panic elsewhere");
        attempts.last_mut().expect("asked before").sent = Some(self.world.now());
        Box::pin(async move {
            match asked.attempt.then {
                Behaviour::Hangs => std::future::pending().await,
                Behaviour::Answers {
                    after,
                    class,
                    as_error,
                } => {
                    if after > 0 {
                        sleep(ms(after)).await;
                    }
                    if as_error {
                        Err(Fault::Answer(class))
                    } else {
                        Ok(Answer(class))
                    }
                }
            }
        })
    }
}

#[derive(Debug)]
pub(super) struct Request {
    pub(super) index: usize,
    pub(super) idempotent: bool,
    pub(super) copyable: bool,
}

#[derive(Debug)]
pub(super) struct Answer(pub(super) Class);

#[derive(Debug)]
pub(crate) enum Fault {
    Answer(Class),
    Unready,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl StdError for Fault {}

/// Reads the class that every answer and error carries.
#[derive(Clone, Debug)]
pub(crate) struct Judge;

impl Replay<Request> for Judge {
    type Memo = bool;

    fn memo(&self, request: &Request) -> bool {
        request.idempotent
    }

    fn copy(&self, request: &Request) -> Option<Request> {
        request.copyable.then_some(Request { ..*request })
    }

    fn idempotent(&self, memo: &bool) -> bool {
        *memo
    }
}

impl Classify<Request, Answer> for Judge {
    fn classify(
        &self,
        _: &bool,
        result: Result<&Answer, &(dyn StdError + Send + Sync + 'static)>,
    ) -> Verdict {
        let class = match result {
            Ok(Answer(class)) => *class,
            Err(error) => {
                let Some(Fault::Answer(class)) = error.downcast_ref() else {
                    panic!("not an answer of the script: {error:?}");
                };
                *class
            }
        };
        match class {
            Class::Success => Verdict::success(),
            Class::Transient => Verdict::transient(),
            Class::Overloaded(hint) => Verdict::overloaded(hint.map(ms)),
            Class::Unreachable => Verdict::unreachable(),
            Class::Throttled(hint) => Verdict::throttled(hint.map(ms)),
            Class::Ambiguous => Verdict::ambiguous(),
            Class::Terminal => Verdict::terminal(),
            Class::Blocked => Verdict::blocked(),
            Class::NotReady => unreachable!("not an answer"),
        }
    }
}
