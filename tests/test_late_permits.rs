//! The permit of an attempt, taken over by its answer.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on ends with a panic"
)]

mod support;

use std::future::{pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use steadfast::{BreakerConfig, BreakerState, LatePermit, Policy, Scope, Window};
use support::{bare, plain, secs};
use tokio::time::{advance, sleep};
use tokio_test::{assert_pending, assert_ready, task};

/// One failure opens for 10 s; one probe.
fn policy() -> Policy {
    policy_of(BreakerConfig::consecutive(1))
}

fn policy_of(config: BreakerConfig) -> Policy {
    let config = plain(config.open_time(secs(10.0)));
    bare().breaker(config).build().unwrap()
}

async fn open_stream(policy: &Policy) -> LatePermit {
    let call = policy.call(|| async { Ok::<_, std::io::Error>(LatePermit::claim()) });
    call.await.unwrap().unwrap()
}

fn heard(policy: &Policy) -> (u64, u64) {
    let seen = policy.breaker().unwrap().snapshot();
    (seen.calls(), seen.failures())
}

fn state(policy: &Policy) -> BreakerState {
    policy.breaker().unwrap().state()
}

fn counting() -> Policy {
    policy_of(BreakerConfig::failure_rate(0.5).min_calls(100))
}

#[tokio::test(start_paused = true)]
async fn the_breaker_hears_the_end_and_not_the_head() {
    let policy = counting();
    let good = open_stream(&policy).await;
    let bad = open_stream(&policy).await;
    assert_eq!(heard(&policy), (0, 0));
    assert_eq!(format!("{good:?}"), "LatePermit { .. }");
    good.take().unwrap().success();
    bad.take().unwrap().failure();
    assert_eq!(heard(&policy), (2, 1));
    assert!(good.take().is_none(), "taken once");
}

#[cfg(feature = "keyed")]
#[tokio::test(start_paused = true)]
async fn a_breaker_of_a_key_hears_the_end_as_well() {
    use steadfast::{Breakers, ServiceBuilderExt};
    use tower::{ServiceBuilder, ServiceExt, service_fn};

    let hosts = Breakers::<u64>::new("hosts", BreakerConfig::consecutive(1)).unwrap();
    let policy = bare().breakers(hosts.clone(), |host: &u64| host);
    let client = ServiceBuilder::new()
        .resilience(policy.build().unwrap())
        .service(service_fn(|_: u64| async {
            Ok::<_, std::io::Error>(LatePermit::claim())
        }));
    let stream = client.oneshot(7).await.unwrap().unwrap();
    stream.take().unwrap().failure();
    assert_eq!(hosts.get(&7).state(), BreakerState::Open);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_dropped_counts_for_nothing() {
    let policy = counting();
    drop(open_stream(&policy).await);
    drop(open_stream(&policy).await.take());
    assert_eq!(heard(&policy), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_is_no_success_is_heard_at_once() {
    let policy = counting();
    let kept = Mutex::new(None);
    let call = policy.call(|| {
        *kept.lock().unwrap() = LatePermit::claim();
        async { Err::<(), _>(std::io::Error::other("broken")) }
    });
    call.await.unwrap_err();
    assert_eq!(heard(&policy), (1, 1));
    assert!(kept.into_inner().unwrap().unwrap().take().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_claim_given_up_before_the_attempt_ends_changes_nothing() {
    let policy = counting();
    let call = policy.call(|| async {
        drop(LatePermit::claim().unwrap());
        Ok::<_, std::io::Error>(())
    });
    call.await.unwrap();
    assert_eq!(heard(&policy), (1, 0));

    // Given up in a later poll than it was made in.
    let call = policy.call(|| async {
        let claim = LatePermit::claim().unwrap();
        sleep(secs(1.0)).await;
        drop(claim);
        Ok::<_, std::io::Error>(())
    });
    call.await.unwrap();
    assert_eq!(heard(&policy), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_claim_outlives_polls_that_end_pending() {
    let policy = counting();
    let call = policy.call(|| async {
        let claim = LatePermit::claim();
        sleep(secs(1.0)).await;
        Ok::<_, std::io::Error>(claim)
    });
    let claim = call.await.unwrap().unwrap();
    assert_eq!(heard(&policy), (0, 0));
    claim.take().unwrap().failure();
    assert_eq!(heard(&policy), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_given_up_leaves_one_of_an_earlier_poll() {
    let policy = counting();
    let call = policy.call(|| async {
        let claim = LatePermit::claim();
        sleep(secs(1.0)).await;
        drop(LatePermit::claim().unwrap());
        Ok::<_, std::io::Error>(claim)
    });
    let claim = call.await.unwrap().unwrap();
    assert_eq!(heard(&policy), (0, 0));
    claim.take().unwrap().failure();
    assert_eq!(heard(&policy), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_probe_is_out_until_its_answer_ends() {
    let policy = policy();
    policy.breaker().unwrap().admit().unwrap().failure();
    advance(secs(10.0)).await;
    let probe = open_stream(&policy).await;
    assert_eq!(state(&policy), BreakerState::HalfOpen);
    let refused = policy.call(|| async { Ok::<_, std::io::Error>(()) }).await;
    assert_eq!(refused.unwrap_err().attempts(), 0);
    probe.take().unwrap().success();
    assert_eq!(state(&policy), BreakerState::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_answer_gives_back_slot_and_place() {
    let policy = policy_of(BreakerConfig::consecutive(1).concurrency_limit(1));
    let stream = open_stream(&policy).await;
    assert_eq!(policy.breaker().unwrap().snapshot().in_flight(), 1);
    assert!(policy.breaker().unwrap().admit().is_err());
    drop(stream);
    assert_eq!(policy.breaker().unwrap().snapshot().in_flight(), 0);

    policy.breaker().unwrap().admit().unwrap().failure();
    advance(secs(10.0)).await;
    drop(open_stream(&policy).await);
    let next = open_stream(&policy).await;
    next.take().unwrap().success();
    assert_eq!(state(&policy), BreakerState::Closed);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_an_answer_from_an_earlier_period_changes_nothing() {
    let policy = policy();
    let old = open_stream(&policy).await;
    policy.breaker().unwrap().reset();
    old.take().unwrap().failure();
    assert_eq!(state(&policy), BreakerState::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_slow_head_is_heard_at_once_and_a_long_answer_is_not_slow() {
    let config = BreakerConfig::failure_rate(0.5).window(Window::count(10));
    let policy = policy_of(config.min_calls(1).slow_calls(secs(2.0), 0.5));
    for (head, expected) in [(1.0, BreakerState::Closed), (3.0, BreakerState::Open)] {
        let call = policy.call(|| async move {
            sleep(secs(head)).await;
            Ok::<_, std::io::Error>(LatePermit::claim())
        });
        let permit = call.await.unwrap().unwrap();
        let is_slow = expected == BreakerState::Open;
        assert_eq!(state(&policy), expected, "at a head of {head} s");
        sleep(secs(100.0)).await;
        let permit = permit.take();
        assert_eq!(permit.is_none(), is_slow);
        if let Some(permit) = permit {
            permit.success();
            assert_eq!(state(&policy), BreakerState::Closed);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_head_that_was_busy_within_one_poll_is_slow_whoever_claims_it() {
    let config = BreakerConfig::failure_rate(0.5).window(Window::count(10));
    let policy = policy_of(config.min_calls(1).slow_calls(secs(2.0), 0.5));
    let call = policy.call(|| {
        let mut passes = task::spawn(advance(secs(3.0)));
        assert_pending!(passes.poll());
        let claim = LatePermit::claim();
        async { Ok::<_, std::io::Error>(claim) }
    });
    let claim = call.await.unwrap().unwrap();
    assert_eq!(state(&policy), BreakerState::Open);
    assert!(claim.take().is_none());
}

#[tokio::test(start_paused = true)]
async fn there_is_nothing_to_claim_without_an_attempt_behind_a_breaker() {
    assert!(LatePermit::claim().is_none());
    let without = Policy::builder("none").no_breaker().build().unwrap();
    let call = without.call(|| async { Ok::<_, std::io::Error>(LatePermit::claim().is_none()) });
    assert!(call.await.unwrap());

    // A task of its own is not polled by the attempt, whatever scope it is in.
    let policy = counting();
    let call = policy.call(|| async {
        let claim = Scope::current().wrap(async { LatePermit::claim().is_none() });
        tokio::spawn(claim).await.map_err(std::io::Error::other)
    });
    assert!(call.await.unwrap());
    assert_eq!(heard(&policy), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_scope_inside_the_attempt_does_not_hide_it() {
    let policy = counting();
    let call = policy.call(|| {
        Scope::current().wrap(async { Ok::<_, std::io::Error>(LatePermit::claim().unwrap()) })
    });
    call.await.unwrap().take().unwrap().failure();
    assert_eq!(heard(&policy), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn the_nearest_of_nested_stacks_lends_its_permit() {
    let (outer, inner) = (counting(), counting());
    let call = outer.call(|| inner.call(|| async { Ok::<_, std::io::Error>(LatePermit::claim()) }));
    let claim = call.await.unwrap().unwrap();
    assert_eq!((heard(&outer), heard(&inner)), ((1, 0), (0, 0)));
    claim.take().unwrap().failure();
    assert_eq!((heard(&outer), heard(&inner)), ((1, 0), (1, 1)));
}

#[tokio::test(start_paused = true)]
async fn a_call_made_after_a_claim_does_not_take_it() {
    let without = || bare().build().unwrap();
    for (inner, fails) in [
        (counting(), false),
        (counting(), true),
        (without(), false),
        (without(), true),
    ] {
        let outer = counting();
        // As a client does that has its answer and then writes to its log, by
        // another stack.
        let call = outer.call(|| async {
            let claim = LatePermit::claim();
            let log = inner.call(|| async move {
                if fails {
                    return Err(std::io::Error::other("no space left"));
                }
                Ok(())
            });
            let _ = log.await;
            Ok::<_, std::io::Error>(claim)
        });
        let claim = call.await.unwrap().unwrap();
        assert_eq!(heard(&outer), (0, 0));
        if inner.breaker().is_some() {
            assert_eq!(heard(&inner), (1, u64::from(fails)));
        }
        claim.take().unwrap().failure();
        assert_eq!(heard(&outer), (1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_outlives_a_panic_gets_no_permit_of_another_call() {
    let (broken, other) = (counting(), counting());
    let kept = Mutex::new(None);
    let mut panics = task::spawn(broken.call(|| {
        *kept.lock().unwrap() = LatePermit::claim();
        poll_fn(|_| -> Poll<Result<(), std::io::Error>> { panic!("in the middle of a poll") })
    }));
    catch_unwind(AssertUnwindSafe(|| drop(panics.poll()))).unwrap_err();
    let mut call = task::spawn(other.call(|| async { Ok::<_, std::io::Error>(()) }));
    assert_ready!(call.poll()).unwrap();
    assert_eq!(heard(&other), (1, 0));
    assert!(kept.lock().unwrap().take().unwrap().take().is_none());
}

#[tokio::test(start_paused = true)]
async fn each_attempt_has_a_permit_of_its_own() {
    let policy = Policy::builder("feed")
        .breaker(plain(BreakerConfig::failure_rate(0.9).min_calls(100)))
        .max_attempts(2)
        .build()
        .unwrap();
    let first = Arc::new(Mutex::new(None));
    let call = policy.call(|| {
        let claim = LatePermit::claim().unwrap();
        let mut first = first.lock().unwrap();
        let is_first = first.is_none();
        let answer = if is_first {
            *first = Some(claim);
            Err(std::io::Error::other("broken"))
        } else {
            Ok(claim)
        };
        async { answer }
    });
    let second = call.await.unwrap();
    assert_eq!(heard(&policy), (1, 1));
    assert!(first.lock().unwrap().take().unwrap().take().is_none());
    second.take().unwrap().success();
    assert_eq!(heard(&policy), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_claim_of_an_attempt_that_failed_gets_no_permit_of_the_next() {
    let policy = Policy::builder("feed")
        .breaker(plain(BreakerConfig::failure_rate(0.9).min_calls(100)))
        .max_attempts(2)
        .build()
        .unwrap();
    let first = Mutex::new(None);
    let call = policy.call(|| {
        let is_first = first.lock().unwrap().is_none();
        if is_first {
            *first.lock().unwrap() = LatePermit::claim();
        }
        async move {
            sleep(secs(1.0)).await;
            if is_first {
                return Err(std::io::Error::other("broken"));
            }
            Ok(())
        }
    });
    call.await.unwrap();
    assert_eq!(heard(&policy), (2, 1));
    assert!(first.into_inner().unwrap().unwrap().take().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_claim_of_an_attempt_that_failed_gets_no_permit_of_a_stack_further_out() {
    let (outer, inner) = (counting(), counting());
    let kept = Mutex::new(None);
    let call = outer.call(|| {
        let call = inner.call(|| {
            *kept.lock().unwrap() = LatePermit::claim();
            async { Err::<(), _>(std::io::Error::other("broken")) }
        });
        async { Ok::<_, std::io::Error>(call.await.is_err()) }
    });
    assert!(call.await.unwrap());
    assert_eq!((heard(&outer), heard(&inner)), ((1, 0), (1, 1)));
    assert!(kept.into_inner().unwrap().unwrap().take().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_claim_of_a_poll_that_panicked_is_nobodys() {
    let (broken, other) = (counting(), counting());
    let mut panics = task::spawn(broken.call(|| {
        poll_fn(|_| -> Poll<Result<(), std::io::Error>> {
            let _claim = LatePermit::claim();
            panic!("in the middle of a poll")
        })
    }));
    catch_unwind(AssertUnwindSafe(|| drop(panics.poll()))).unwrap_err();
    // Another call on the same thread ends as if nothing had been left.
    let mut call = task::spawn(other.call(|| async { Ok::<_, std::io::Error>(()) }));
    assert_ready!(call.poll()).unwrap();
    assert_eq!(heard(&other), (1, 0));
}

/// The service of an outer stack claims, and catches the panic of a call that it
/// makes, whose own claim is kept.
#[tokio::test(start_paused = true)]
async fn a_panic_further_in_takes_no_claim_and_leaves_none() {
    for claims in [true, false] {
        let (outer, inner) = (counting(), counting());
        let kept = Mutex::new(None);
        let panics = || {
            poll_fn(|_| -> Poll<Result<(), std::io::Error>> {
                *kept.lock().unwrap() = LatePermit::claim();
                panic!("in the middle of a poll")
            })
        };
        let call = outer.call(|| async {
            let claim = if claims { LatePermit::claim() } else { None };
            let mut call = task::spawn(inner.call(panics));
            catch_unwind(AssertUnwindSafe(|| drop(call.poll()))).unwrap_err();
            Ok::<_, std::io::Error>(claim)
        });
        let claim = call.await.unwrap();
        let kept = kept.into_inner().unwrap().unwrap();
        assert!(kept.take().is_none(), "the outer permit is not its");
        assert_eq!(heard(&outer), (u64::from(!claims), 0));
        assert_eq!(claim.is_some_and(|claim| claim.take().is_some()), claims);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_after_a_claim_counts_as_any_other() {
    let policy = Policy::builder("feed")
        .breaker(plain(
            BreakerConfig::consecutive(1).abandoned_after(secs(5.0)),
        ))
        .build()
        .unwrap();
    for (after, expected) in [(1.0, BreakerState::Closed), (6.0, BreakerState::Open)] {
        let kept = Mutex::new(None);
        let mut call = task::spawn(policy.call(|| {
            *kept.lock().unwrap() = LatePermit::claim();
            pending::<Result<(), std::io::Error>>()
        }));
        assert_pending!(call.poll());
        advance(Duration::from_secs_f64(after)).await;
        drop(call);
        assert!(kept.into_inner().unwrap().unwrap().take().is_none());
        assert_eq!(state(&policy), expected, "dropped after {after} s");
    }
}

#[tokio::test(start_paused = true)]
async fn layers_without_a_breaker_have_nothing_to_lend() {
    use steadfast::attempt::AttemptLayer;
    use steadfast::retry::RetryLayer;
    use tower::{ServiceBuilder, ServiceExt, service_fn};

    let client = ServiceBuilder::new()
        .layer(RetryLayer::builder(1).build().unwrap())
        .layer(AttemptLayer::new())
        .service(service_fn(|()| async {
            Ok::<_, std::io::Error>(LatePermit::claim().is_none())
        }));
    assert!(client.oneshot(()).await.unwrap());
}
