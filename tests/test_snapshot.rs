//! What a health endpoint gets: all that a policy knows, as JSON.

#![cfg(all(feature = "serde", feature = "keyed"))]
#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps in vain should fail"
)]

mod support;

use serde_json::{Value, json, to_value};
use steadfast::{
    Backoff, BreakerConfig, BreakerState, Breakers, Policy, PolicyChanges, ServiceBuilderExt,
    Window,
};
use support::*;
use tokio_test::{assert_pending, task};
use tower::{ServiceBuilder, ServiceExt};

fn snapshot(policy: &Policy) -> Value {
    to_value(policy.snapshot()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_settings_are_those_that_were_given() {
    let policy = Policy::builder("inventory")
        .deadline(secs(2.0))
        .attempt_timeout(secs(0.5))
        .max_attempts(4)
        .backoff(Backoff::full_jitter(secs(0.1), secs(20.0)).factor(3.0))
        .retry_budget(budget(5.0))
        .breaker(
            BreakerConfig::failure_rate(0.25)
                .window(Window::time(secs(10.0)))
                .min_calls(30)
                .concurrency_limit(50),
        )
        .build()
        .unwrap();
    let json = snapshot(&policy);
    assert_eq!(json["dependency"], "inventory");
    assert_eq!(json["budget_balance"], 5.0);
    let settings = &json["settings"];
    assert_eq!(settings["deadline_seconds"], 2.0);
    assert_eq!(settings["attempt_timeout_seconds"], 0.5);
    assert_eq!(settings["max_attempts"], 4);
    let backoff = json!({
        "base_seconds": 0.1, "cap_seconds": 20.0, "factor": 3.0, "full_jitter": true
    });
    assert_eq!(settings["backoff"], backoff);
    assert_eq!(settings["retry_budget"]["kind"], "ratio");
    assert_eq!(settings["retry_budget"]["cap"], 10.0);
    let breaker = &settings["breaker"];
    assert_eq!(breaker["failure_rate"], 0.25);
    assert_eq!(breaker["window"], json!({ "seconds": 10.0 }));
    assert_eq!(breaker["min_calls"], 30);
    assert_eq!(breaker["concurrency_limit"], 50);
    assert_eq!(breaker["open_time_seconds"], 5.0);
    assert_eq!(breaker["consecutive"], Value::Null);
    assert_eq!(json["warnings"], json!(policy.describe().warnings()));

    policy
        .reconfigure(PolicyChanges::new().max_attempts(1))
        .unwrap();
    assert_eq!(snapshot(&policy)["settings"]["max_attempts"], 1);
}

#[tokio::test(start_paused = true)]
async fn an_open_breaker_says_since_when_it_counts_and_until_when_it_waits() {
    let policy = named("inventory").breaker(bk()).build().unwrap();
    four_failures(&stack(&policy, &Inner::always(Step::Err))).await;
    let breaker = snapshot(&policy)["breakers"][0].take();
    assert_eq!(
        breaker,
        json!({
            "key": null,
            "dependency": "inventory",
            "state": "open",
            "generation": 1,
            "share": 1.0,
            "failed_recoveries": 0,
            "next_check_seconds": 10.0,
            "forced_reason": null,
            "calls": 4,
            "failures": 4,
            "in_flight": 0,
        })
    );
}

#[tokio::test(start_paused = true)]
async fn a_policy_without_breaker_budget_or_limits_says_so() {
    let json = snapshot(&bare().build().unwrap());
    assert_eq!(json["breakers"], json!([]));
    assert_eq!(json["budget_balance"], Value::Null);
    for setting in ["deadline_seconds", "retry_budget", "breaker"] {
        assert_eq!(json["settings"][setting], Value::Null, "{setting}");
    }
    let warnings = json["warnings"].as_array().unwrap();
    assert!(warnings[0].as_str().unwrap().contains("for ever"));
}

#[tokio::test(start_paused = true)]
async fn calls_in_flight_are_those_whose_future_lives() {
    let policy = bare().build().unwrap();
    let client = stack(&policy, &Inner::always(Step::Hang));
    let mut calls: Vec<_> = (0..3).map(|_| task::spawn(send(&client, "x"))).collect();
    for call in &mut calls {
        assert_pending!(call.poll());
    }
    assert_eq!(policy.snapshot().calls_in_flight(), 3);
    calls.pop();
    assert_eq!(policy.snapshot().calls_in_flight(), 2);
    drop(calls);
    assert_eq!(policy.snapshot().calls_in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn every_key_has_its_breaker_and_its_name() {
    let hosts =
        Breakers::<Text>::bounded("hosts", plain(BreakerConfig::consecutive(1)), 2, secs(60.0))
            .unwrap()
            .naming_keys(|host| host.to_uppercase());
    let policy = named("inventory")
        .breakers(hosts.clone(), |host: &Text| host)
        .build()
        .unwrap();
    let client = ServiceBuilder::new()
        .resilience(policy.clone())
        .service(Inner::script([Step::Err, Step::Err], Step::Ok));
    let state = |key: Option<&str>| {
        let snapshot = policy.snapshot();
        let found = snapshot.breakers().iter().find(|one| one.key() == key);
        found.map(|one| one.state())
    };
    for host in ["a", "b"] {
        assert!(client.clone().oneshot(host).await.is_err());
    }
    assert_eq!(state(Some("A")), Some(BreakerState::Open));
    assert_eq!(state(Some("B")), Some(BreakerState::Open));
    assert_eq!(state(None), None);
    // No room for a third: it shares the overflow breaker, which has no key.
    assert!(client.clone().oneshot("c").await.is_ok());
    assert_eq!(state(None), Some(BreakerState::Closed));
    let json = to_value(policy.snapshot()).unwrap();
    assert_eq!(json["breakers"].as_array().unwrap().len(), 3);
    assert_eq!(json["settings"]["breaker"]["consecutive"], 1);
}

#[test]
fn a_state_is_called_the_same_everywhere() {
    for state in [
        BreakerState::Closed,
        BreakerState::Open,
        BreakerState::HalfOpen,
        BreakerState::Recovering,
        BreakerState::ForcedOpen,
        BreakerState::Disabled,
    ] {
        assert_eq!(to_value(state).unwrap(), state.as_str());
    }
}
