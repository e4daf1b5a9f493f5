//! Refused calls that are put off: when they come back, how fast, in which
//! order, and what bounds it.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps in vain should fail"
)]

mod support;

use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use steadfast::attempt::AttemptLayer;
use steadfast::breaker::BreakerLayer;
use steadfast::classify::classify_fn;
use steadfast::defer::DeferLayer;
use steadfast::retry::RetryLayer;
use steadfast::telemetry::{Event, Observer};
use steadfast::{
    Backoff, Breaker, BreakerConfig, BreakerState, CallReport, Deadline, Error, ErrorKind,
    ParkLimit, Policy, RefusalReason, ServedBy, ServiceBuilderExt, Stopped, Verdict, fallback,
};
use support::*;
use tokio::task::JoinSet;
use tokio_test::{assert_pending, assert_ready, task};
use tower::{ServiceBuilder, ServiceExt, service_fn};

/// A policy whose breaker opens at the first failure, for 10 s.
fn hasty() -> Policy {
    let breaker = plain(BreakerConfig::consecutive(1));
    named("jobs")
        .max_attempts(2)
        .breaker(breaker)
        .build()
        .unwrap()
}

fn deferring(policy: &Policy, layer: DeferLayer, inner: &Inner) -> impl Client + use<> {
    ServiceBuilder::new()
        .deferring_resilience(policy.clone(), layer)
        .service(inner.clone())
}

/// A breaker that has just opened, and the stack over it.
fn open(inner: &Inner) -> (Policy, impl Client + use<>) {
    let policy = hasty();
    let client = deferring(&policy, DeferLayer::new(), inner);
    policy.breaker().unwrap().admit().unwrap().failure();
    assert_eq!(policy.breaker().unwrap().state(), BreakerState::Open);
    (policy, client)
}

/// A call that is made when it is first polled, for tasks that do more than
/// wait for it.
fn job(client: &impl Client) -> Pin<Box<dyn Future<Output = Result<Text, Error>> + Send>> {
    Box::pin(client.clone().oneshot("job"))
}

/// Notes when calls end, in order.
#[derive(Clone, Default)]
struct Ends(Arc<Mutex<Vec<(usize, f64)>>>);

impl Ends {
    fn order(&self) -> Vec<usize> {
        self.0
            .lock()
            .unwrap()
            .iter()
            .map(|(call, _)| *call)
            .collect()
    }

    fn times(&self) -> Vec<f64> {
        self.0.lock().unwrap().iter().map(|(_, at)| *at).collect()
    }
}

/// Sends `calls` calls now, each a task of its own.
fn crowd(t: Clock, client: &impl Client, calls: usize) -> (JoinSet<()>, Ends) {
    let ends = Ends::default();
    let mut tasks = JoinSet::new();
    for call in 0..calls {
        let (job, ends) = (job(client), ends.clone());
        tasks.spawn(async move {
            job.await.unwrap();
            ends.0.lock().unwrap().push((call, t.now()));
        });
    }
    (tasks, ends)
}

// ---- when ------------------------------------------------------------------------

#[tokio::test(start_paused = true)]
async fn a_refused_call_comes_back_at_the_next_check_and_never_before() {
    let mut late: f64 = 0.0;
    for _ in 0..50 {
        let t = Clock::start();
        let (_, client) = open(&Inner::always(Step::Ok));
        assert_eq!(client.oneshot("job").await.unwrap(), "ok");
        assert!((10.0..11.002).contains(&t.now()), "{}", t.now());
        late = late.max(t.now() - 10.0);
    }
    assert!(late > 0.1, "all came in lockstep");
}

#[tokio::test(start_paused = true)]
async fn it_is_woken_as_soon_as_the_breaker_closes() {
    let t = Clock::start();
    let (policy, client) = open(&Inner::always(Step::Ok));
    let call = tokio::spawn(client.oneshot("job"));
    t.reach(3.0).await;
    policy.breaker().unwrap().reset();
    assert_eq!(call.await.unwrap().unwrap(), "ok");
    t.assert_now(3.0);
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_fails_is_put_off_again_until_one_succeeds() {
    let t = Clock::start();
    let inner = Inner::script([Step::Err; 3], Step::Ok);
    let client = deferring(&hasty(), DeferLayer::new(), &inner);
    let (answer, report) = CallReport::capture(client.oneshot("job")).await;
    assert_eq!(answer.unwrap(), "ok");
    let times = inner.call_times();
    assert_eq!(times.len(), 4);
    for (gap, check) in gaps(&times).into_iter().zip(1..) {
        assert!((10.0..11.002).contains(&gap), "check {check} after {gap}");
    }
    let report = report.unwrap();
    assert_eq!(report.attempts(), 4, "all returns");
    assert_times(&[report.elapsed().as_secs_f64()], &[t.now()]);
}

#[tokio::test(start_paused = true)]
async fn what_no_breaker_had_a_part_in_is_not_put_off() {
    let t = Clock::start();
    let policy = named("jobs")
        .max_attempts(2)
        .breaker(plain(BreakerConfig::consecutive(5)))
        .build()
        .unwrap();
    let inner = Inner::always(Step::Err);
    let error = deferring(&policy, DeferLayer::new(), &inner)
        .oneshot("job")
        .await
        .unwrap_err();
    assert_eq!(error.stopped(), Some(Stopped::AttemptsExhausted));
    assert_eq!(error.park_limit(), None);
    assert_eq!(inner.calls(), 2);
    t.assert_now(0.0);
}

#[tokio::test(start_paused = true)]
async fn opened_by_hand_it_waits_for_the_word_that_it_is_over() {
    let t = Clock::start();
    let policy = hasty();
    let client = deferring(&policy, DeferLayer::new(), &Inner::always(Step::Ok));
    policy.breaker().unwrap().force_open("maintenance");
    let mut call = task::spawn(client.clone().oneshot("job"));
    assert_pending!(call.poll());
    t.reach(600.0).await;
    assert!(!call.is_woken(), "nothing to look at meanwhile");
    policy.breaker().unwrap().reset();
    assert!(call.is_woken());
    assert_ready!(call.poll()).unwrap();
}

#[tokio::test(start_paused = true)]
async fn one_that_waits_for_a_word_hears_of_an_earlier_check() {
    let t = Clock::start();
    let policy = hasty();
    let client = deferring(&policy, DeferLayer::new(), &Inner::always(Step::Ok));
    let breaker = policy.breaker().unwrap();
    breaker.force_open("maintenance");
    let mut call = task::spawn(client.clone().oneshot("job"));
    assert_pending!(call.poll());
    breaker.reset();
    breaker.admit().unwrap().failure();
    assert!(call.is_woken());
    assert_pending!(call.poll());
    t.reach(9.9).await;
    assert!(!call.is_woken());
    t.reach(11.1).await;
    assert!(call.is_woken(), "it does not wait for the hour to pass");
    assert_ready!(call.poll()).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_place_that_comes_free_without_a_word_is_found() {
    let t = Clock::start();
    let breaker = plain(BreakerConfig::consecutive(5)).concurrency_limit(1);
    let policy = named("jobs").breaker(breaker).build().unwrap();
    let inner = Inner::always(Step::OkAfter(2.5));
    let client = deferring(&policy, DeferLayer::new(), &inner);
    let (mut tasks, ends) = crowd(t, &client, 2);
    while tasks.join_next().await.is_some() {}
    let times = ends.times();
    assert_times(&times[..1], &[2.5]);
    assert!((5.0..6.7).contains(&times[1]), "{times:?}");
}

#[tokio::test(start_paused = true)]
async fn a_parked_call_is_not_polled_until_there_is_something_to_do() {
    let t = Clock::start();
    let (_policy, client) = open(&Inner::always(Step::Ok));
    let mut first = task::spawn(client.clone().oneshot("job"));
    let mut second = task::spawn(client.clone().oneshot("job"));
    assert_pending!(first.poll());
    assert_pending!(second.poll());
    t.reach(9.9).await;
    assert!(!first.is_woken() && !second.is_woken());
    t.reach(11.1).await;
    assert!(first.is_woken(), "it watches the clock");
    assert!(!second.is_woken(), "it stands behind the first");
    assert_ready!(first.poll()).unwrap();
    assert!(second.is_woken(), "it has to watch now");
}

// ---- how fast, in which order ----------------------------------------------------

#[tokio::test(start_paused = true)]
async fn each_new_call_that_is_admitted_brings_back_one_and_no_more() {
    let t = Clock::start();
    let (policy, client) = open(&Inner::always(Step::Ok));
    let (_tasks, ends) = crowd(t, &client, 20);
    t.reach(1.0).await;
    policy.breaker().unwrap().reset();
    // Twenty that came at one instant, by themselves: two a second.
    for arrival in 0..10 {
        let before = ends.order().len();
        client.clone().oneshot("new").await.unwrap();
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
        let brought = ends.order().len() - before;
        assert!(brought <= 1, "arrival {arrival} brought {brought}");
        t.reach(1.1 + f64::from(arrival) * 0.1).await;
    }
    let came = ends.order();
    assert!((9..=12).contains(&came.len()), "{came:?}");
    assert!(came.is_sorted(), "the oldest first: {came:?}");
}

#[tokio::test(start_paused = true)]
async fn without_new_calls_they_come_at_the_rate_at_which_they_came() {
    let t = Clock::start();
    let (_, client) = open(&Inner::always(Step::Ok));
    let (mut tasks, ends) = (JoinSet::new(), Ends::default());
    for call in 0..100 {
        let (job, ends) = (job(&client), ends.clone());
        tasks.spawn(async move {
            t.reach(f64::from(call) * 0.09).await;
            job.await.unwrap();
            ends.0.lock().unwrap().push((call as usize, t.now()));
        });
    }
    while tasks.join_next().await.is_some() {}
    let (order, times) = (ends.order(), ends.times());
    assert!(order.is_sorted(), "{order:?}");
    assert!(times[0] >= 10.0 && times[0] < 11.1, "{times:?}");
    // A hundred, measured over ten seconds.
    for gap in gaps(&times) {
        assert!((0.0999..0.103).contains(&gap), "{gap} in {times:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn probes_that_the_breaker_has_room_for_do_not_wait_for_the_pace() {
    // Each comes at a moment of its own within a second, which may be later
    // than what the pace would allow; not so each time.
    let mut soonest: f64 = 1.0;
    for _ in 0..20 {
        let breaker = plain(BreakerConfig::consecutive(1)).probes(2).successes(2);
        let policy = named("jobs").breaker(breaker).build().unwrap();
        let inner = Inner::always(Step::OkAfter(5.0));
        let client = deferring(&policy, DeferLayer::new(), &inner);
        policy.breaker().unwrap().admit().unwrap().failure();
        let (mut tasks, _) = crowd(Clock::start(), &client, 2);
        while tasks.join_next().await.is_some() {}
        soonest = soonest.min(gaps(&inner.call_times())[0]);
    }
    assert!(soonest < 0.9, "{soonest} s between two probes");
}

#[tokio::test(start_paused = true)]
async fn the_breakers_ramp_holds_for_those_that_come_back() {
    let t = Clock::start();
    let breaker = plain(BreakerConfig::consecutive(1)).ramp(secs(10.0));
    let policy = named("jobs").breaker(breaker).build().unwrap();
    let inner = Inner::always(Step::Ok);
    let client = deferring(&policy, DeferLayer::new(), &inner);
    policy.breaker().unwrap().admit().unwrap().failure();
    let (mut tasks, ends) = crowd(t, &client, 2_000);
    while tasks.join_next().await.is_some() {}
    assert!(
        ends.order().is_sorted(),
        "a refusal does not cost the place"
    );

    let times = inner.call_times();
    let begin = times[0];
    // By themselves 200 a second (2,000 over ten seconds); of those the ramp
    // admits a handful and a share that grows from a tenth.
    for second in 0..9 {
        let from = begin + f64::from(second);
        let sent = times.iter().filter(|at| (from..from + 1.0).contains(*at));
        let share = 0.1 + 0.9 * (f64::from(second) + 0.5) / 10.0;
        let most = 200.0 * share + 10.0;
        let sent = sent.count() as f64;
        assert!(sent <= most, "second {second}: {sent} of {most}");
        assert!(sent >= most * 0.5 - 10.0, "second {second}: {sent}");
    }
}

// ---- bounds ------------------------------------------------------------------------

#[track_caller]
fn assert_limited(error: &Error, limit: ParkLimit) {
    assert_eq!(error.park_limit(), Some(limit), "{error}");
    assert!(error.is_deferrable(), "the refusal stands: {error}");
    assert!(error.refusal().is_some() && error.retry_after().is_some());
    assert!(error.to_string().contains(&limit.to_string()), "{error}");
}

#[tokio::test(start_paused = true)]
async fn calls_beyond_the_number_of_places_are_refused_at_once() {
    let t = Clock::start();
    let inner = Inner::always(Step::Ok);
    let policy = hasty();
    let client = deferring(&policy, DeferLayer::new().calls(2), &inner);
    policy.breaker().unwrap().admit().unwrap().failure();
    let first = tokio::spawn(client.clone().oneshot("job"));
    let mut second = task::spawn(client.clone().oneshot("job"));
    assert_pending!(second.poll());
    tokio::task::yield_now().await;
    let error = client.clone().oneshot("job").await.unwrap_err();
    assert_limited(&error, ParkLimit::Calls);
    assert_eq!((error.kind(), error.attempts()), (ErrorKind::Refused, 0));
    t.assert_now(0.0);

    // Whoever drops a parked call frees its place.
    drop(second);
    let third = tokio::spawn(client.clone().oneshot("job"));
    first.await.unwrap().unwrap();
    third.await.unwrap().unwrap();

    let none = deferring(&policy, DeferLayer::new().calls(0), &inner);
    policy.breaker().unwrap().admit().unwrap().failure();
    let error = none.oneshot("job").await.unwrap_err();
    assert_limited(&error, ParkLimit::Calls);
}

/// How many calls are put off, as each event says.
#[derive(Default)]
struct Parked(Mutex<Vec<usize>>);

impl Observer for Parked {
    fn on_event(&self, event: &Event<'_>) {
        if let Event::Parked {
            parked, dependency, ..
        }
        | Event::Unparked {
            parked, dependency, ..
        } = event
        {
            assert_eq!(*dependency, "jobs");
            self.0.lock().unwrap().push(*parked);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn how_many_are_put_off_is_told_with_each() {
    let told = Arc::new(Parked::default());
    let policy = named("jobs")
        .breaker(plain(BreakerConfig::consecutive(1)))
        .observer(told.clone())
        .build()
        .unwrap();
    let client = deferring(&policy, DeferLayer::new(), &Inner::always(Step::Ok));
    let breaker = policy.breaker().unwrap();
    breaker.admit().unwrap().failure();
    let mut calls: Vec<_> = (0..3).map(|_| task::spawn(job(&client))).collect();
    for call in &mut calls {
        assert_pending!(call.poll());
    }
    drop(calls.pop());
    breaker.reset();
    for call in calls {
        call.into_inner().await.unwrap();
    }
    assert_eq!(*told.0.lock().unwrap(), [1, 2, 3, 2, 1, 0]);

    // Of single layers the service itself says it.
    let breaker = Breaker::new("jobs", plain(BreakerConfig::consecutive(1))).unwrap();
    let service = ServiceBuilder::new()
        .layer(DeferLayer::new())
        .layer(RetryLayer::builder(1).build().unwrap())
        .layer(BreakerLayer::new(breaker.clone()))
        .layer(AttemptLayer::new())
        .service(Inner::always(Step::Ok));
    breaker.admit().unwrap().failure();
    let mut calls: Vec<_> = (0..2)
        .map(|_| task::spawn(Box::pin(service.clone().oneshot("job"))))
        .collect();
    for (before, call) in calls.iter_mut().enumerate() {
        assert_eq!(service.parked(), before);
        assert_pending!(call.poll());
    }
    assert_eq!(service.parked(), 2);
    drop(calls);
    assert_eq!(service.parked(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_check_comes_too_late_is_refused_at_once() {
    let t = Clock::start();
    let inner = Inner::always(Step::Ok);
    let policy = hasty();
    policy.breaker().unwrap().admit().unwrap().failure();
    let short = deferring(&policy, DeferLayer::new().longest(secs(9.0)), &inner);
    let error = short.oneshot("job").await.unwrap_err();
    assert_limited(&error, ParkLimit::Time);

    let client = deferring(&policy, DeferLayer::new(), &inner);
    let late = Deadline::after(secs(9.0)).scope(client.clone().oneshot("job"));
    assert_limited(&late.await.unwrap_err(), ParkLimit::Deadline);
    t.assert_now(0.0);

    // The jitter does not take a call past a deadline that the check is before.
    let tight = Deadline::after(secs(10.01)).scope(client.oneshot("job"));
    assert_eq!(tight.await.unwrap(), "ok");
    t.assert_now(10.0);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_of_the_policy_bounds_it_from_the_call_on() {
    let t = Clock::start();
    let breaker = plain(BreakerConfig::consecutive(1));
    let policy = named("jobs").deadline(secs(25.0)).breaker(breaker);
    let policy = policy.build().unwrap();
    let inner = Inner::always(Step::Err);
    let client = deferring(&policy, DeferLayer::new(), &inner);
    policy.breaker().unwrap().admit().unwrap().failure();
    let call = tokio::spawn(client.oneshot("job"));
    t.reach(5.0).await;
    let error = call.await.unwrap().unwrap_err();
    // A policy of one attempt: the probe's failure is its own.
    assert_eq!(error.stopped(), Some(Stopped::AttemptsExhausted));

    let policy = hasty();
    policy.breaker().unwrap().force_open("maintenance");
    let client = deferring(&policy, DeferLayer::new().longest(secs(30.0)), &inner);
    let start = t.now();
    let error = client.oneshot("job").await.unwrap_err();
    assert_eq!(error.park_limit(), Some(ParkLimit::Time));
    assert_times(
        &[t.now() - start, error.elapsed().as_secs_f64()],
        &[30.0; 2],
    );
    let refusal = error.refusal().unwrap();
    assert_eq!(refusal.reason(), RefusalReason::ForcedOpen);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_is_in_scope_only_where_it_is_polled_bounds_it_too() {
    let t = Clock::start();
    let policy = hasty();
    policy.breaker().unwrap().force_open("maintenance");
    let mut client = deferring(&policy, DeferLayer::new(), &Inner::always(Step::Ok));
    let made = tower::Service::call(&mut client, "job");
    let error = Deadline::after(secs(7.0)).scope(made).await.unwrap_err();
    assert_eq!(error.park_limit(), Some(ParkLimit::Deadline));
    t.assert_now(7.0);
}

#[tokio::test(start_paused = true)]
async fn one_that_ran_into_a_bound_keeps_what_the_dependency_said() {
    let t = Clock::start();
    let inner = Inner::always(Step::Err);
    let layer = DeferLayer::new().longest(secs(35.0));
    let client = deferring(&hasty(), layer, &inner);
    let (answer, report) = CallReport::capture(client.oneshot("job")).await;
    let error = answer.unwrap_err();
    assert_limited(&error, ParkLimit::Time);
    assert_eq!(fault(&error), Some(Fault("scripted")));
    // At 0 s, at 10, 20 and 30 s; the next check would be at 40 s.
    assert_eq!((error.attempts(), inner.calls()), (4, 4));
    assert!((30.0..33.1).contains(&t.now()), "{}", t.now());
    let report = report.unwrap();
    assert_eq!((report.attempts(), report.elapsed()), (4, error.elapsed()));
}

#[tokio::test(start_paused = true)]
async fn an_end_that_says_nothing_of_the_dependency_keeps_what_it_said_before() {
    let t = Clock::start();
    let policy = named("jobs")
        .deadline(secs(12.0))
        .max_attempts(2)
        .breaker(plain(BreakerConfig::consecutive(1)).probe_lease(secs(12.0)))
        .build()
        .unwrap();
    let inner = Inner::script([Step::Err], Step::Hang);
    let client = deferring(&policy, DeferLayer::new(), &inner);
    let error = client.oneshot("job").await.unwrap_err();
    t.assert_now(12.0);
    assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);
    assert_eq!(error.attempts(), 2);
    assert_eq!(fault(&error), Some(Fault("scripted")));
}

#[tokio::test(start_paused = true)]
async fn one_behind_others_ends_at_its_own_deadline() {
    let t = Clock::start();
    let (_policy, client) = open(&Inner::always(Step::Ok));
    // Two a second, from 10 s on: the last of twenty would come at about 20 s.
    let (_tasks, _ends) = crowd(t, &client, 19);
    tokio::task::yield_now().await;
    let last = Deadline::after(secs(15.0)).scope(client.oneshot("job"));
    let error = last.await.unwrap_err();
    assert_eq!(error.park_limit(), Some(ParkLimit::Deadline));
    assert_eq!(error.kind(), ErrorKind::Refused, "as it was refused");
    t.assert_now(15.0);
}

// ---- dropped, panicking -----------------------------------------------------------

#[tokio::test(start_paused = true)]
async fn when_the_first_is_dropped_the_next_takes_over() {
    let t = Clock::start();
    let (_policy, client) = open(&Inner::always(Step::Ok));
    let mut first = task::spawn(client.clone().oneshot("job"));
    let mut second = task::spawn(client.clone().oneshot("job"));
    assert_pending!(first.poll());
    assert_pending!(second.poll());
    t.reach(5.0).await;
    drop(first);
    assert!(second.is_woken());
    assert_pending!(second.poll());
    t.reach(11.1).await;
    assert!(second.is_woken());
    assert_ready!(second.poll()).unwrap();
}

#[tokio::test(start_paused = true)]
async fn one_that_is_dropped_at_its_turn_passes_it_on() {
    let (policy, client) = open(&Inner::always(Step::Ok));
    let mut parked: Vec<_> = (0..3)
        .map(|_| task::spawn(client.clone().oneshot("job")))
        .collect();
    for call in &mut parked {
        assert_pending!(call.poll());
    }
    policy.breaker().unwrap().reset();
    client.clone().oneshot("new").await.unwrap();
    // The new one has let the first come back; it never does.
    drop(parked.remove(0));
    assert!(parked[0].is_woken());
    assert_ready!(parked[0].poll()).unwrap();
    assert_pending!(parked[1].poll());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_panics_when_it_comes_back_harms_no_other() {
    let t = Clock::start();
    let inner = Inner::script([Step::Panic, Step::PanicInCall], Step::Ok);
    let policy = hasty();
    let client = deferring(&policy, DeferLayer::new().calls(3), &inner);
    policy.breaker().unwrap().admit().unwrap().failure();
    let mut tasks = JoinSet::new();
    for _ in 0..3 {
        tasks.spawn(client.clone().oneshot("job"));
    }
    let mut panics = 0;
    while let Some(task) = tasks.join_next().await {
        match task {
            Ok(answer) => assert_eq!(answer.unwrap(), "ok"),
            Err(error) => panics += u32::from(error.is_panic()),
        }
    }
    assert_eq!(panics, 2);
    assert!(t.now() < 32.0, "{}", t.now());
    // All three places are free again.
    policy.breaker().unwrap().force_open("to park");
    let mut parked: Vec<_> = (0..3)
        .map(|_| task::spawn(client.clone().oneshot("job")))
        .collect();
    for call in &mut parked {
        assert_pending!(call.poll());
    }
    let error = client.oneshot("job").await.unwrap_err();
    assert_eq!(error.park_limit(), Some(ParkLimit::Calls));
}

#[tokio::test(start_paused = true)]
async fn whatever_happens_every_call_ends_and_every_place_is_free() {
    for seed in 1..60_u64 {
        let mut dice = Dice(seed);
        let t = Clock::start();
        let steps: Vec<Step> = (0..200)
            .map(|_| match dice.roll(6) {
                0 | 1 => Step::Err,
                2 => Step::ErrAfter(0.5),
                3 => Step::OkAfter(1.0),
                4 => Step::Panic,
                _ => Step::Ok,
            })
            .collect();
        let inner = Inner::script(steps, Step::Ok);
        let policy = hasty();
        let client = deferring(&policy, DeferLayer::new().calls(30), &inner);
        let mut tasks = JoinSet::new();
        for _ in 0..60 {
            let call = job(&client);
            let (start, patience) = (dice.roll(30) as f64, 1.0 + dice.roll(80) as f64);
            let dropped = dice.roll(3) == 0;
            tasks.spawn(async move {
                t.reach(start).await;
                if dropped {
                    tokio::time::timeout(secs(patience), call).await.ok();
                } else {
                    Deadline::after(secs(patience)).scope(call).await.ok();
                }
            });
        }
        let all = async { while tasks.join_next().await.is_some() {} };
        tokio::time::timeout(secs(200.0), all).await.unwrap();

        policy.breaker().unwrap().force_open("to park");
        let mut parked: Vec<_> = (0..30)
            .map(|_| task::spawn(client.clone().oneshot("job")))
            .collect();
        for call in &mut parked {
            assert_pending!(call.poll(), "seed {seed}: a place is lost");
        }
    }
}

// ---- what is put off, and what is told ---------------------------------------------

/// A request that can be sent once.
struct Once;

#[tokio::test(start_paused = true)]
async fn a_request_that_cannot_be_copied_is_refused_as_ever() {
    /// Has a copy to give, or not; and it is spoilt at once.
    #[derive(Clone, Copy)]
    struct Never(bool);
    impl steadfast::Replay<Once> for Never {
        type Memo = ();
        fn memo(&self, _: &Once) {}
        fn copy(&self, _: &Once) -> Option<Once> {
            self.0.then_some(Once)
        }
        fn is_intact(&self, _: &Once) -> bool {
            false
        }
        fn idempotent(&self, (): &()) -> bool {
            true
        }
    }
    impl<Res> steadfast::Classify<Once, Res> for Never {
        fn classify(&self, (): &(), result: Result<&Res, &Source>) -> Verdict {
            result.map_or_else(|_| Verdict::transient(), |_| Verdict::success())
        }
    }
    for copies in [false, true] {
        let policy = named("jobs").breaker(bk()).classify(Never(copies));
        let policy = policy.build().unwrap();
        policy.breaker().unwrap().force_open("maintenance");
        let client = ServiceBuilder::new()
            .deferring_resilience(policy, DeferLayer::new())
            .service(service_fn(|_: Once| ready(Ok::<_, Fault>(()))));
        let error = client.oneshot(Once).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.park_limit()),
            (ErrorKind::Refused, None),
            "copies: {copies}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_put_off_if_only_the_breaker_forbade_another_attempt() {
    let judge = classify_fn(|result: Result<&Text, &Source>| match result {
        Ok(&"busy") => Verdict::overloaded(None),
        _ => Verdict::success(),
    });
    let inner = Inner::script([Step::Say("busy"); 2], Step::Ok);
    let policy = named("jobs")
        .max_attempts(2)
        .breaker(plain(BreakerConfig::consecutive(1)))
        .classify(judge)
        .build()
        .unwrap();
    let stack = |calls| {
        ServiceBuilder::new()
            .deferring_resilience(policy.clone(), DeferLayer::new().calls(calls))
            .service(inner.clone())
    };
    // Nowhere to put it: it is handed on as it is.
    assert_eq!(stack(0).oneshot("job").await.unwrap(), "busy");
    policy.breaker().unwrap().reset();
    let (answer, report) = CallReport::capture(stack(1).oneshot("job")).await;
    assert_eq!(answer.unwrap(), "ok");
    assert_eq!(report.unwrap().attempts(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_fallback_serves_what_could_not_be_put_off() {
    let policy = hasty();
    policy.breaker().unwrap().force_open("maintenance");
    let client = ServiceBuilder::new()
        .fallback(fallback::value("later"))
        .deferring_resilience(policy, DeferLayer::new().longest(secs(5.0)))
        .service(Inner::always(Step::Ok));
    let (answer, report) = CallReport::capture(client.oneshot("job")).await;
    assert_eq!(answer.unwrap(), "later");
    let report = report.unwrap();
    assert_eq!(report.served_by(), ServedBy::Fallback(0));
    assert_times(&[report.primary_elapsed().as_secs_f64()], &[5.0]);
}

#[tokio::test(start_paused = true)]
async fn a_stack_further_out_hears_that_a_call_was_given_up_only_in_the_end() {
    let inner = Inner::script([Step::Err; 2], Step::Ok);
    let below = deferring(&hasty(), DeferLayer::new(), &inner);
    let outer = named("outer").max_attempts(3).build().unwrap();
    let mut client = ServiceBuilder::new().resilience(outer).service(below);
    let (answer, report) = CallReport::capture(client.ready().await.unwrap().oneshot("job")).await;
    assert_eq!(answer.unwrap(), "ok");
    assert_eq!(report.unwrap().attempts(), 1, "one call, put off twice");
    assert_eq!(inner.calls(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_backoff_that_the_breaker_ends_is_put_off_too() {
    let t = Clock::start();
    let policy = named("jobs")
        .max_attempts(3)
        .backoff(Backoff::fixed(secs(2.0)))
        .breaker(plain(BreakerConfig::consecutive(2)))
        .build()
        .unwrap();
    let inner = Inner::script([Step::Err; 2], Step::Ok);
    let client = deferring(&policy, DeferLayer::new(), &inner);
    // The first is in backoff when the second opens the breaker.
    let (mut tasks, ends) = crowd(t, &client, 2);
    while tasks.join_next().await.is_some() {}
    assert_eq!(inner.calls(), 4);
    assert!(ends.times().iter().all(|at| (10.0..13.0).contains(at)));
}

#[cfg(feature = "keyed")]
#[tokio::test(start_paused = true)]
async fn one_key_that_stays_down_does_not_hold_up_another() {
    use steadfast::Breakers;

    let t = Clock::start();
    let hosts: Breakers<String> =
        Breakers::new("hosts", plain(BreakerConfig::consecutive(1))).unwrap();
    let policy = named("hosts")
        .breakers(hosts.clone(), |host: &Text| *host)
        .build()
        .unwrap();
    let client = ServiceBuilder::new()
        .deferring_resilience(policy, DeferLayer::new())
        .service(Inner::always(Step::Ok));
    hosts.get("a").force_open("down");
    hosts.get("b").admit().unwrap().failure();
    let mut a = task::spawn(client.clone().oneshot("a"));
    assert_pending!(a.poll());
    assert_eq!(client.oneshot("b").await.unwrap(), "ok");
    assert!(t.now() < 11.1);
    assert!(!a.is_woken());
}
