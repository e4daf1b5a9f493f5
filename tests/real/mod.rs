//! The same run through the real stack: the model's plain types in the crate's
//! words, and what is seen from outside in the model's.

mod dependency;
mod settings;

use std::error::Error as _;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use steadfast::{
    BreakerState, CallReport, Deadline, Error, ErrorKind, Policy, Refusal, RefusalReason,
    Resilience, Scope, ServiceBuilderExt, Stopped,
};
use tokio::time::{Instant, sleep_until, timeout_at};
use tower::{Service, ServiceBuilder};

use crate::model::Ms;
use crate::model::breaker::{Refused, Shown};
use crate::model::policy::{Call, TOKEN, Wish};
use crate::model::run::{self, Ending, Seen, Source};
use dependency::{CALL, Request, Scripted, World};
pub(crate) use dependency::{Fault, Judge};
pub(crate) use settings::builder;

pub(crate) fn in_paused_time<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime")
        .block_on(future)
}

/// Plays the calls. The policy is built inside, since its breaker remembers
/// when that was.
pub(crate) async fn play(build: impl FnOnce() -> Policy<Judge>, calls: Vec<Call>) -> Vec<Seen> {
    let epoch = Instant::now();
    let world = Arc::new(World {
        epoch,
        attempts: calls.iter().map(|_| Mutex::default()).collect(),
        calls,
    });
    let policy = build();
    let client = ServiceBuilder::new()
        .resilience(policy.clone())
        .service(Scripted::new(Arc::clone(&world)));
    let tasks: Vec<_> = (0..world.calls.len())
        .map(|index| {
            let call = one_call(Arc::clone(&world), policy.clone(), client.clone(), index);
            tokio::spawn(CALL.scope(index, call))
        })
        .collect();
    let mut seen = Vec::new();
    for task in tasks {
        seen.push(task.await.expect("a call without a panic"));
    }
    seen
}

async fn one_call(
    world: Arc<World>,
    policy: Policy<Judge>,
    mut client: Resilience<Scripted, Judge>,
    index: usize,
) -> Seen {
    let call = &world.calls[index];
    let starts = world.epoch + ms(call.starts);
    sleep_until(starts).await;

    let request = Request {
        index,
        idempotent: call.idempotent,
        copyable: call.copyable,
    };
    let within = async {
        std::future::poll_fn(|cx| client.poll_ready(cx)).await?;
        client.call(request).await
    };
    let reported = CallReport::capture(within);
    let reported: Pin<Box<dyn Future<Output = _> + Send>> = match call.caller_has {
        Some(left) => Box::pin(Deadline::at(starts + ms(left)).scope(reported)),
        None => Box::pin(reported),
    };
    let scope = Scope::current();
    let reported = match call.wish {
        Some(Wish::NoRetries) => scope.no_retries(),
        Some(Wish::NotIdempotent) => scope.not_idempotent(),
        None => scope,
    }
    .wrap(reported);
    let result = match call.dropped_after {
        Some(after) => timeout_at(starts + ms(after), reported).await.ok(),
        None => Some(reported.await),
    };

    let attempts = world.attempts[index]
        .lock()
        .expect("no panic elsewhere")
        .clone();
    let (ending, source, stopped) = match result {
        None => (Ending::Dropped, None, None),
        Some((result, report)) => {
            let report = report.expect("a report of every call");
            assert_eq!(report.attempts() as usize, attempts.len());
            let stopped = report.stopped().map(plain_stopped);
            match result {
                Ok(answer) => (Ending::Answer(answer.0), None, stopped),
                Err(error) => {
                    assert_eq!(error.attempts(), report.attempts());
                    assert_eq!(error.stopped(), report.stopped());
                    (plain_kind(&error), plain_source(&error), stopped)
                }
            }
        }
    };
    Seen {
        attempts,
        ended_at: world.now(),
        ending,
        source,
        stopped,
        balance: policy
            .budget_balance()
            .map(|tokens| (tokens * TOKEN as f64).round() as i64),
        breaker: policy.breaker().map(|breaker| match breaker.state() {
            BreakerState::Closed => Shown::Closed,
            BreakerState::Open => Shown::Open,
            BreakerState::HalfOpen => Shown::HalfOpen,
            other => panic!("unknown state {other:?}"),
        }),
    }
}

fn plain_kind(error: &Error) -> Ending {
    match error.kind() {
        ErrorKind::Failed => Ending::Failed,
        ErrorKind::TimedOut => Ending::TimedOut,
        ErrorKind::DeadlineExceeded => Ending::DeadlineExceeded,
        ErrorKind::Refused => Ending::Refused(plain_refusal(error.refusal().expect("the refusal"))),
        other => panic!("unknown kind {other:?}"),
    }
}

fn plain_source(error: &Error) -> Option<Source> {
    Some(match error.source()?.downcast_ref() {
        Some(Fault::Answer(class)) => Source::Answer(*class),
        Some(Fault::Unready) => Source::Unready,
        None => panic!("not the dependency's own error: {error:?}"),
    })
}

fn plain_refusal(refusal: &Refusal) -> Refused {
    match refusal.reason() {
        RefusalReason::Open => Refused::Open {
            comes_back_in: refusal
                .retry_after()
                .expect("when to come back")
                .as_millis() as Ms,
        },
        RefusalReason::HalfOpen => Refused::HalfOpen,
        other => panic!("unknown reason {other:?}"),
    }
}

fn plain_stopped(stopped: Stopped) -> run::Stopped {
    match stopped {
        Stopped::NotRetryable => run::Stopped::NotRetryable,
        Stopped::NotIdempotent => run::Stopped::NotIdempotent,
        Stopped::AttemptsExhausted => run::Stopped::AttemptsExhausted,
        Stopped::RetriesDisabled => run::Stopped::RetriesDisabled,
        Stopped::NotReplayable => run::Stopped::NotReplayable,
        Stopped::Breaker(refusal) => run::Stopped::Breaker(plain_refusal(&refusal)),
        Stopped::HintTooLong => run::Stopped::HintTooLong,
        Stopped::Deadline => run::Stopped::Deadline,
        Stopped::BudgetExhausted => run::Stopped::BudgetExhausted,
        other => panic!("nobody asked for {other:?}"),
    }
}

fn ms(number: Ms) -> Duration {
    Duration::from_millis(number)
}
