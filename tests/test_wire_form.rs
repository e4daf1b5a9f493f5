//! What a refusal says to machines.

#![cfg(feature = "serde")]
#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps in vain should fail"
)]

use std::collections::HashSet;
use std::io;
use std::time::Duration;

use serde_json::{Value, json};
use steadfast::{Breaker, BreakerConfig, Refusal, RefusalNotice};
use tokio::time::advance;

/// The refusal of a breaker that one failure has opened for so long.
fn opened_for(open_time: Duration) -> Refusal {
    let config = BreakerConfig::consecutive(1)
        .open_time(open_time)
        .open_jitter(0.0);
    let breaker = Breaker::new("inventory", config).unwrap();
    breaker.admit().unwrap().failure();
    breaker.admit().unwrap_err()
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_written_with_exactly_six_members() {
    let notice = opened_for(Duration::from_millis(2100)).notice("item-17");
    assert_eq!(
        serde_json::to_value(&notice).unwrap(),
        json!({
            "code": "dependency_temporarily_unavailable",
            "operation_id": "item-17",
            "dependency": "inventory",
            "safe_action": "defer_item",
            "prohibited_action": "score_item_as_failed",
            "next_status_check_after_seconds": 3,
        })
    );
}

#[tokio::test(start_paused = true)]
async fn the_next_check_is_what_is_left_rounded_up() {
    let config = BreakerConfig::consecutive(1)
        .open_time(Duration::from_secs(30))
        .open_jitter(0.0);
    let breaker = Breaker::new("inventory", config).unwrap();
    breaker.admit().unwrap().failure();
    for (passed, left) in [(0, 30), (999, 30), (1, 29), (28_001, 1), (998, 1)] {
        advance(Duration::from_millis(passed)).await;
        let notice = breaker.admit().unwrap_err().notice(None);
        assert_eq!(notice.next_status_check_after_seconds(), Some(left));
    }
}

#[tokio::test(start_paused = true)]
async fn where_no_time_can_be_named_null_is_written() {
    let config = BreakerConfig::consecutive(5).concurrency_limit(1);
    let breaker = Breaker::new("inventory", config).unwrap();
    let held = breaker.admit().unwrap();
    let limited = breaker.admit().unwrap_err();
    drop(held);
    breaker.force_open("maintenance");
    let forced = breaker.admit().unwrap_err();
    for refusal in [limited, forced] {
        let written = serde_json::to_value(refusal.notice(None)).unwrap();
        let seconds = written.get("next_status_check_after_seconds");
        assert_eq!(seconds, Some(&Value::Null), "{refusal}");
        assert_eq!(written.as_object().unwrap().len(), 6);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_written_can_be_read() {
    let notice = opened_for(Duration::from_secs(5)).notice("item \"17\"\n");
    let text = serde_json::to_string(&notice).unwrap();
    let read: RefusalNotice = serde_json::from_str(&text).unwrap();
    assert_eq!(read, notice);
    assert_eq!(read.operation_id(), "item \"17\"\n");
    assert_eq!(read.dependency(), "inventory");
    assert_eq!(read.next_status_check_after_seconds(), Some(5));
}

#[tokio::test(start_paused = true)]
async fn a_reader_passes_over_what_it_does_not_know_and_takes_no_other_kind() {
    let written = serde_json::to_value(opened_for(Duration::from_secs(5)).notice("a")).unwrap();
    let read = |change: &dyn Fn(&mut Value)| {
        let mut changed = written.clone();
        change(&mut changed);
        serde_json::from_value::<RefusalNotice>(changed)
    };
    let more = read(&|value| value["status"] = json!(503)).unwrap();
    assert_eq!(more.operation_id(), "a");
    let absent = read(&|value| {
        value
            .as_object_mut()
            .unwrap()
            .remove("next_status_check_after_seconds");
    });
    assert_eq!(absent.unwrap().next_status_check_after_seconds(), None);

    for member in ["code", "safe_action", "prohibited_action"] {
        let error = read(&|value| value[member] = json!("other")).unwrap_err();
        assert!(error.to_string().contains(member), "{error}");
        let removed = read(&|value| drop(value.as_object_mut().unwrap().remove(member)));
        assert!(removed.is_err(), "{member}");
    }
    for seconds in [json!(-1), json!(1.5), json!("5")] {
        let changed = read(&|value| value["next_status_check_after_seconds"] = seconds.clone());
        assert!(changed.is_err(), "{seconds}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_operation_without_a_name_gets_a_random_uuid() {
    let refusal = opened_for(Duration::from_secs(5));
    let ids: HashSet<String> = (0..1000)
        .map(|_| refusal.notice(None).operation_id().to_owned())
        .collect();
    assert_eq!(ids.len(), 1000);
    for id in &ids {
        let groups: Vec<&str> = id.split('-').collect();
        let lengths: Vec<usize> = groups.iter().map(|group| group.len()).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12], "{id}");
        let hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
        assert!(groups.concat().chars().all(hex), "{id}");
        assert!(groups[2].starts_with('4'), "version 4: {id}");
        assert!(groups[3].starts_with(['8', '9', 'a', 'b']), "{id}");
    }
    // Every other bit is drawn: over a thousand ids each place takes all values.
    for place in [0, 7, 12, 17, 35] {
        let seen: HashSet<u8> = ids.iter().map(|id| id.as_bytes()[place]).collect();
        assert_eq!(seen.len(), 16, "place {place}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_of_a_stack_gives_the_refusal_that_is_written() {
    let policy = steadfast::Policy::builder("inventory").build().unwrap();
    policy.breaker().unwrap().force_open("maintenance");
    let call = policy.call(|| async { Err::<(), _>(io::Error::other("down")) });
    let error = call.await.unwrap_err();
    let notice = error.refusal().unwrap().notice("item-17");
    assert_eq!(notice.dependency(), "inventory");
}
