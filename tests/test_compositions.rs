//! The stack over the services that people put under it, inside the ones that
//! they put around it, and nested in itself.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps in vain should fail"
)]

mod support;

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::future::{Future, ready};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use steadfast::{
    Backoff, Breaker, CallReport, DefaultClassify, Error, ErrorKind, Policy, ServiceBuilderExt,
    Stopped, Verdict, classify::classify_fn,
};
use support::*;
use tower::buffer::Buffer;
use tower::limit::ConcurrencyLimit;
use tower::util::{BoxCloneService, BoxCloneSyncService};
use tower::{BoxError, Service, ServiceBuilder, ServiceExt, service_fn};

fn three_attempts() -> Policy {
    bare()
        .max_attempts(3)
        .backoff(Backoff::fixed(secs(1.0)))
        .build()
        .unwrap()
}

/// Two requests on clones, each of which needs the third of its attempts.
async fn the_third_attempt_succeeds<S>(inner: &Inner, service: S)
where
    S: Service<Text, Response = Text, Error: Into<BoxError>> + Clone,
{
    let client = ServiceBuilder::new()
        .resilience(three_attempts())
        .service(service);
    for request in 1..=2 {
        inner.rescript([Step::Err, Step::Err], Step::Ok);
        assert_eq!(client.clone().oneshot("x").await.unwrap(), "ok");
        assert_eq!(inner.calls(), 3 * request);
    }
    inner.rescript([], Step::Err);
    let error = client.oneshot("x").await.unwrap_err();
    assert_eq!(error.attempts(), 3);
    assert_eq!(error.stopped(), Some(Stopped::AttemptsExhausted));
    assert_eq!(error.to_string().lines().count(), 1);
    assert_eq!(fault(&error), Some(Fault("scripted")));
}

fn any() -> Inner {
    Inner::always(Step::Ok)
}

#[tokio::test(start_paused = true)]
async fn works_over_a_strict_service() {
    let inner = any();
    the_third_attempt_succeeds(&inner, inner.clone()).await;
    assert_eq!(inner.grants(), inner.calls());
}

#[tokio::test(start_paused = true)]
async fn works_over_a_service_fn() {
    let inner = any();
    let through = inner.clone();
    let service = service_fn(move |request: Text| through.clone().oneshot(request));
    the_third_attempt_succeeds(&inner, service).await;
}

#[tokio::test(start_paused = true)]
async fn works_over_a_boxed_sync_service() {
    let inner = any();
    the_third_attempt_succeeds(&inner, BoxCloneSyncService::new(inner.clone())).await;
}

#[tokio::test(start_paused = true)]
async fn works_over_a_boxed_service() {
    let inner = any();
    the_third_attempt_succeeds(&inner, BoxCloneService::new(inner.clone())).await;
}

#[tokio::test(start_paused = true)]
async fn works_over_a_boxed_service_whose_error_is_boxed() {
    let inner = any();
    let boxed = BoxCloneSyncService::new(inner.clone().map_err(BoxError::from));
    the_third_attempt_succeeds(&inner, boxed).await;
}

#[tokio::test(start_paused = true)]
async fn works_over_a_concurrency_limit() {
    let inner = any();
    the_third_attempt_succeeds(&inner, ConcurrencyLimit::new(inner.clone(), 1)).await;
}

#[tokio::test(start_paused = true)]
async fn works_over_a_buffer() {
    let inner = any();
    the_third_attempt_succeeds(&inner, Buffer::new(inner.clone(), 1)).await;
}

#[tokio::test(start_paused = true)]
async fn works_over_a_buffer_over_a_concurrency_limit_with_clones_in_flight() {
    let inner = Inner::script([Step::Err; 6], Step::Ok);
    let limit = ConcurrencyLimit::new(inner.clone(), 2);
    let client = ServiceBuilder::new()
        .resilience(three_attempts())
        .service(Buffer::new(limit, 2));
    let tasks: Vec<_> = (0..3).map(|_| tokio::spawn(send(&client, "x"))).collect();
    for task in tasks {
        assert_eq!(task.await.unwrap().unwrap(), "ok");
    }
    assert_eq!(inner.calls(), 9);
}

#[tokio::test(start_paused = true)]
async fn works_over_a_service_that_cannot_fail() {
    let calls = AtomicUsize::new(0);
    let policy = bare()
        .max_attempts(3)
        .classify(classify_fn(
            |result: Result<&usize, &Source>| match result {
                Ok(call) if *call < 2 => Verdict::transient(),
                Ok(_) => Verdict::success(),
                Err(_) => Verdict::terminal(),
            },
        ))
        .build()
        .unwrap();
    let calls = &calls;
    let client = ServiceBuilder::new()
        .resilience(policy)
        .service(service_fn(move |_: Text| {
            ready(Ok::<_, Infallible>(calls.fetch_add(1, Ordering::Relaxed)))
        }));
    assert_eq!(client.clone().oneshot("x").await.unwrap(), 2);
    assert_eq!(client.oneshot("x").await.unwrap(), 3);
}

#[tokio::test(start_paused = true)]
async fn the_typed_error_is_found_behind_a_boxed_one() {
    let client = ServiceBuilder::new()
        .resilience(bare().build().unwrap())
        .service(service_fn(|_: Text| {
            ready(Err::<Text, BoxError>(Box::new(Fault("boxed"))))
        }));
    let error = client.oneshot("x").await.unwrap_err();
    assert_eq!(fault(&error), Some(Fault("boxed")));
    let source = error.into_source().unwrap();
    assert_eq!(*source.downcast::<Fault>().unwrap(), Fault("boxed"));
}

#[tokio::test(start_paused = true)]
async fn an_error_converts_with_the_question_mark() {
    async fn asks(inner: &Inner) -> Result<Text, BoxError> {
        Ok(send(&stack(&three_attempts(), inner), "x").await?)
    }
    let error = asks(&Inner::always(Step::Err)).await.unwrap_err();
    assert_eq!(error.downcast_ref::<Error>().unwrap().attempts(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_layer_turns_any_clonable_service_into_a_client() {
    // The layer is used as a plain layer, without the extension trait.
    let inner = Inner::script([Step::Err, Step::Err], Step::Ok);
    let layer = ServiceBuilder::new().resilience(three_attempts());
    let (first, second) = (
        layer.clone().service(inner.clone()),
        layer.service(inner.clone()),
    );
    assert!(first.oneshot("x").await.is_ok());
    assert!(second.oneshot("x").await.is_ok());
    assert_eq!(inner.calls(), 4);
}

// ---- join!, select!, spawned tasks ------------------------------------------

#[tokio::test(start_paused = true)]
async fn calls_in_one_join_do_not_disturb_each_other() {
    let t = Clock::start();
    let (a, b) = (
        Inner::script([Step::Err], Step::Ok),
        Inner::script([Step::Err, Step::Err], Step::Ok),
    );
    let policy = three_attempts();
    let (to_a, to_b) = (stack(&policy, &a), stack(&policy, &b));
    let (first, second) = tokio::join!(send(&to_a, "a"), send(&to_b, "b"));
    assert!(first.is_ok() && second.is_ok());
    assert_times(&a.call_times(), &[0.0, 1.0]);
    assert_times(&b.call_times(), &[0.0, 1.0, 2.0]);
    t.assert_now(2.0);
}

#[tokio::test(start_paused = true)]
async fn the_loser_of_a_select_lets_go_of_everything() {
    let t = Clock::start();
    let inner = Inner::script([Step::Err; 4], Step::Hang);
    let policy = bare().breaker(bk()).build().unwrap();
    let client = stack(&policy, &inner);
    four_failures(&client).await;
    t.reach(10.0).await;
    let won = tokio::select! {
        _ = send(&client, "probe") => "the call",
        () = tokio::time::sleep(secs(1.0)) => "the timer",
    };
    assert_eq!(won, "the timer");
    assert_times(&inner.cancelled(), &[11.0]);
    inner.rescript([], Step::Ok);
    assert!(send(&client, "the next probe").await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn works_in_spawned_tasks_on_several_threads() {
    let policy = bare().max_attempts(3).build().unwrap();
    let tries = Arc::new(Mutex::new(std::collections::HashMap::new()));
    let log = Arc::clone(&tries);
    let client = ServiceBuilder::new()
        .resilience(policy)
        .service(service_fn(move |id: usize| {
            let mut log = log.lock().unwrap();
            let tries: &mut u32 = log.entry(id).or_default();
            *tries += 1;
            ready(if *tries < 3 {
                Err(Fault("again"))
            } else {
                Ok(id)
            })
        }));
    let tasks: Vec<_> = (0..100)
        .map(|id| tokio::spawn(client.clone().oneshot(id)))
        .collect();
    for (id, task) in tasks.into_iter().enumerate() {
        assert_eq!(task.await.unwrap().unwrap(), id);
    }
    assert!(tries.lock().unwrap().values().all(|tries| *tries == 3));
}

// ---- requests and answers that are neither 'static nor Send ------------------

#[tokio::test(start_paused = true)]
async fn requests_and_answers_may_borrow_from_the_caller() {
    let text = String::from("one two");
    let tries = Cell::new(0);
    let client = ServiceBuilder::new()
        .resilience(three_attempts())
        .service(service_fn(|line| {
            let line: &str = line;
            tries.set(tries.get() + 1);
            let word = line.split(' ').next().ok_or(Fault("empty"));
            ready(if tries.get() < 3 {
                Err(Fault("again"))
            } else {
                word
            })
        }));
    let word: &str = client.oneshot(text.as_str()).await.unwrap();
    assert_eq!(word, "one");
    assert_eq!(tries.get(), 3);
}

#[tokio::test(start_paused = true)]
async fn requests_and_answers_need_not_be_send() {
    let tries = Rc::new(Cell::new(0));
    let seen = Rc::clone(&tries);
    let client = ServiceBuilder::new()
        .resilience(three_attempts())
        .service(service_fn(move |request: Rc<RefCell<Vec<u8>>>| {
            let seen = Rc::clone(&seen);
            async move {
                seen.set(seen.get() + 1);
                request.borrow_mut().push(seen.get());
                if seen.get() < 3 {
                    return Err(Fault("again"));
                }
                Ok(Rc::clone(&request))
            }
        }));
    let request = Rc::new(RefCell::new(Vec::new()));
    let answer = client.oneshot(Rc::clone(&request)).await.unwrap();
    assert!(Rc::ptr_eq(&request, &answer));
    assert_eq!(*answer.borrow(), [1, 2, 3]);
}

// ---- readiness --------------------------------------------------------------

#[tokio::test(start_paused = true)]
async fn a_readiness_error_is_final_for_the_call() {
    let inner = any().readiness([Ready::Fails], Ready::Now);
    let client = stack(&three_attempts(), &inner);
    let error = send(&client, "x").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Failed);
    assert_eq!(fault(&error), Some(Fault("not ready")));
    assert_eq!((inner.polls(), inner.calls()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_readiness_error_before_a_later_attempt_is_final_too() {
    let inner = Inner::always(Step::Err).readiness([Ready::Now, Ready::Fails], Ready::Now);
    let client = stack(&three_attempts(), &inner);
    assert!(send(&client, "x").await.is_err());
    assert_eq!((inner.polls(), inner.calls()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_readiness_error_counts_against_the_dependency() {
    let inner = any().readiness([], Ready::Fails);
    let client = stack(&bare().breaker(bk()).build().unwrap(), &inner);
    four_failures(&client).await;
    assert_refused(&send(&client, "x").await);
    assert_eq!(inner.polls(), 4);
}

#[tokio::test(start_paused = true)]
async fn the_stack_itself_is_always_ready() {
    let inner = any().readiness([], Ready::Never);
    let mut client = stack(&three_attempts(), &inner);
    let mut ready = tokio_test::task::spawn(client.ready());
    assert!(ready.poll().is_ready());
    assert_eq!(inner.polls(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_readiness_timeout_leaves_the_queue_of_a_concurrency_limit_during_the_backoff() {
    let t = Clock::start();
    let inner = Inner::script([Step::OkAfter(2.0)], Step::Ok);
    let limit = ConcurrencyLimit::new(inner.clone(), 1);
    let policy = bare()
        .max_attempts(2)
        .attempt_timeout(secs(1.0))
        .backoff(Backoff::fixed(secs(10.0)))
        .build()
        .unwrap();
    let client = ServiceBuilder::new()
        .resilience(policy)
        .service(limit.clone());

    let holder = tokio::spawn(limit.clone().oneshot("holds the only permit until T=2"));
    tokio::task::yield_now().await;
    let waiter = tokio::spawn(send(
        &client,
        "times out in the queue at T=1, sleeps until T=11",
    ));
    t.reach(1.5).await;
    assert!(limit.oneshot("queues at T=1.5").await.is_ok());
    t.assert_now(2.0);

    assert!(holder.await.unwrap().is_ok());
    assert!(waiter.await.unwrap().is_ok());
    assert_times(&inner.call_times(), &[0.0, 2.0, 11.0]);
}

#[tokio::test(start_paused = true)]
async fn a_call_in_backoff_holds_no_permit_of_a_concurrency_limit() {
    let t = Clock::start();
    let inner = Inner::script([Step::Err], Step::Ok);
    let limit = ConcurrencyLimit::new(inner.clone(), 1);
    let policy = bare()
        .max_attempts(2)
        .backoff(Backoff::fixed(secs(5.0)))
        .build()
        .unwrap();
    let client = ServiceBuilder::new()
        .resilience(policy)
        .service(limit.clone());
    let sleeper = tokio::spawn(send(&client, "fails, sleeps until T=5"));
    t.reach(1.0).await;
    assert!(limit.oneshot("in between").await.is_ok());
    t.assert_now(1.0);
    assert!(sleeper.await.unwrap().is_ok());
}

// ---- callers without a service ----------------------------------------------

/// A closure that fails twice, then answers the number of its call.
fn fails_twice(calls: &Cell<u32>) -> impl FnMut() -> std::future::Ready<Result<u32, Fault>> + '_ {
    || {
        calls.set(calls.get() + 1);
        ready(if calls.get() < 3 {
            Err(Fault("again"))
        } else {
            Ok(calls.get())
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_policy_calls_a_closure_with_the_same_retries() {
    let calls = Cell::new(0);
    let policy = three_attempts();
    let (answer, report) = CallReport::capture(policy.call(fails_twice(&calls))).await;
    assert_eq!(answer.unwrap(), 3);
    assert_eq!(report.unwrap().attempts(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_policy_calls_a_closure_behind_the_same_breaker() {
    let inner = Inner::always(Step::Err);
    let policy = bare().breaker(bk()).build().unwrap();
    four_failures(&stack(&policy, &inner)).await;
    let called = Cell::new(false);
    let refused = policy
        .call(|| {
            called.set(true);
            ready(Ok::<_, Fault>(()))
        })
        .await;
    assert_refused(&refused);
    assert!(!called.get());
}

#[tokio::test(start_paused = true)]
async fn clones_of_a_policy_share_their_breaker_and_two_builds_do_not() {
    let inner = Inner::always(Step::Err);
    let builder = || bare().breaker(bk()).build().unwrap();
    let (policy, other) = (builder(), builder());
    four_failures(&stack(&policy, &inner)).await;
    assert_refused(&send(&stack(&policy.clone(), &inner), "shared").await);
    assert_eq!(
        kind(&send(&stack(&other, &inner), "its own").await),
        Some(ErrorKind::Failed)
    );
}

#[tokio::test(start_paused = true)]
async fn policies_may_share_one_breaker() {
    let inner = Inner::always(Step::Err);
    let breaker = Breaker::new("shared", bk()).unwrap();
    let policy = |name| named(name).breaker(breaker.clone()).build().unwrap();
    four_failures(&stack(&policy("a"), &inner)).await;
    let error = send(&stack(&policy("b"), &inner), "x").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused);
    assert_eq!(error.dependency(), "b");
    assert_eq!(error.refusal().unwrap().dependency(), "shared");
}

#[tokio::test(start_paused = true)]
async fn the_default_policy_works_as_it_stands() {
    let inner = Inner::script([Step::Err, Step::Err], Step::Ok);
    let policy = Policy::builder("inventory").build().unwrap();
    assert_eq!(policy.name(), "inventory");
    assert_eq!(send(&stack(&policy, &inner), "x").await.unwrap(), "ok");
    assert_eq!(inner.calls(), 3);
    // Ten at the start, two paid, a tenth for the success.
    let balance = policy.budget_balance().unwrap();
    assert!((8.09..8.15).contains(&balance), "{balance}");
    inner.rescript([], Step::Err);
    let error = send(&stack(&policy, &inner), "x").await.unwrap_err();
    assert_eq!(error.dependency(), "inventory");
    assert!(error.to_string().contains("inventory"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_local_overload_below_is_no_evidence_of_health() {
    // The load shed layer below refuses: the dependency was never asked.
    let inner = Inner::always(Step::Hang);
    let limit = ConcurrencyLimit::new(inner.clone(), 1);
    let policy = bare()
        .breaker(bk())
        .classify(DefaultClassify::default())
        .build()
        .unwrap();
    let shedding = tower::load_shed::LoadShed::new(limit);
    let client = ServiceBuilder::new()
        .resilience(policy.clone())
        .service(shedding);
    let hanging = tokio::spawn(send(&client, "holds the permit"));
    tokio::task::yield_now().await;
    for _ in 0..10 {
        let error = send(&client, "shed").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Failed);
    }
    hanging.abort();
    assert!(policy.breaker().unwrap().would_admit().is_ok());
    assert_eq!(inner.calls(), 1);
}

/// The future of a stack is `Send` when its parts are: it can be spawned.
#[tokio::test(start_paused = true)]
async fn the_future_is_send_without_a_box() {
    fn spawns<F>(future: F) -> tokio::task::JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        tokio::spawn(future)
    }
    let client = stack(&three_attempts(), &any());
    assert!(spawns(send(&client, "x")).await.unwrap().is_ok());
}
