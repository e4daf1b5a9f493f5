//! A call whose classifier panics: observers hear of its end and of that of each
//! attempt, each once, and what it held is given back.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps in vain should fail"
)]

use std::error::Error as StdError;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};

use steadfast::telemetry::{CallOutcome, Event, Observer};
use steadfast::{BreakerConfig, Classify, Policy, Replay, Stopped, Verdict};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Panics {
    Memo,
    Copy,
    Classify,
    Idempotent,
    IsIntact,
    Seal,
}

struct Judge(Panics);

impl Judge {
    fn at(&self, place: Panics) {
        if self.0 == place {
            // Without the hook, which would print.
            resume_unwind(Box::new("a classifier's panic"));
        }
    }
}

impl Replay<()> for Judge {
    type Memo = ();

    fn memo(&self, (): &()) {
        self.at(Panics::Memo);
    }

    fn copy(&self, (): &()) -> Option<()> {
        self.at(Panics::Copy);
        Some(())
    }

    fn is_intact(&self, (): &()) -> bool {
        self.at(Panics::IsIntact);
        true
    }

    fn idempotent(&self, (): &()) -> bool {
        self.at(Panics::Idempotent);
        true
    }
}

impl Classify<(), u16> for Judge {
    fn classify(
        &self,
        (): &(),
        _: Result<&u16, &(dyn StdError + Send + Sync + 'static)>,
    ) -> Verdict {
        self.at(Panics::Classify);
        Verdict::transient()
    }

    fn seal(&self, _: &mut u16, _: &Stopped) {
        self.at(Panics::Seal);
    }
}

#[derive(Default)]
struct Heard {
    attempts: Mutex<u32>,
    ends: Mutex<Vec<(CallOutcome, u32)>>,
}

impl Observer for Heard {
    fn on_event(&self, event: &Event<'_>) {
        match event {
            Event::AttemptEnded { .. } => *self.attempts.lock().unwrap() += 1,
            Event::CallEnded {
                outcome, attempts, ..
            } => self.ends.lock().unwrap().push((*outcome, *attempts)),
            _ => {}
        }
    }
}

/// How many attempts observers heard of, and how the call ended, with how many.
async fn heard_of_a_call(panics: Panics) -> (u32, Vec<(CallOutcome, u32)>) {
    let heard = Arc::new(Heard::default());
    let policy = Policy::builder("scripted")
        .classify(Judge(panics))
        .max_attempts(2)
        .observer(heard.clone())
        .build()
        .unwrap();
    let call = policy.call(|| async { Ok::<_, io::Error>(503) });
    let ended = tokio::spawn(call).await;
    assert!(ended.is_err(), "it did not panic");
    let attempts = *heard.attempts.lock().unwrap();
    let ends = heard.ends.lock().unwrap().clone();
    (attempts, ends)
}

#[tokio::test(start_paused = true)]
async fn a_panic_before_the_attempt_is_the_end_of_the_call_alone() {
    for place in [Panics::Memo, Panics::Copy] {
        let heard = heard_of_a_call(place).await;
        assert_eq!(heard, (0, vec![(CallOutcome::Dropped, 0)]), "{place:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_the_judgement_ends_attempt_and_call_once() {
    let heard = heard_of_a_call(Panics::Classify).await;
    assert_eq!(heard, (1, vec![(CallOutcome::Dropped, 1)]));
}

#[tokio::test(start_paused = true)]
async fn a_panic_while_another_attempt_is_decided_for_ends_the_attempt_once() {
    for place in [Panics::Idempotent, Panics::IsIntact] {
        let heard = heard_of_a_call(place).await;
        assert_eq!(heard, (1, vec![(CallOutcome::Dropped, 1)]), "{place:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_the_seal_is_still_an_end_of_the_call() {
    let heard = heard_of_a_call(Panics::Seal).await;
    assert_eq!(heard, (2, vec![(CallOutcome::Dropped, 2)]));
}

/// Panics once, in the memo.
struct Startled(AtomicBool);

impl Replay<()> for Startled {
    type Memo = ();

    fn memo(&self, (): &()) {
        if !self.0.swap(true, Ordering::Relaxed) {
            resume_unwind(Box::new("a classifier's panic"));
        }
    }

    fn copy(&self, (): &()) -> Option<()> {
        Some(())
    }

    fn idempotent(&self, (): &()) -> bool {
        true
    }
}

impl Classify<(), u16> for Startled {
    fn classify(
        &self,
        (): &(),
        _: Result<&u16, &(dyn StdError + Send + Sync + 'static)>,
    ) -> Verdict {
        Verdict::success()
    }
}

/// It has the place of its admission still, and the copy of its request.
#[tokio::test(start_paused = true)]
async fn a_call_that_panicked_before_its_attempt_is_over_and_gives_its_place_back() {
    let policy = Policy::builder("scripted")
        .classify(Startled(AtomicBool::new(false)))
        .max_attempts(2)
        .breaker(BreakerConfig::consecutive(1).concurrency_limit(1))
        .build()
        .unwrap();
    let sends = AtomicU32::new(0);
    let mut call = Box::pin(policy.call(|| async {
        sends.fetch_add(1, Ordering::Relaxed);
        Ok::<_, io::Error>(200)
    }));
    let mut poll = || {
        let mut cx = Context::from_waker(Waker::noop());
        catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(&mut cx))).is_err()
    };
    assert!(poll(), "it did not panic");
    assert!(poll(), "it went on");
    assert_eq!(sends.load(Ordering::Relaxed), 0);
    drop(call);
    assert_eq!(policy.breaker().unwrap().snapshot().in_flight(), 0);
}
