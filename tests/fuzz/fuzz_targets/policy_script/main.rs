//! Whole policies and calls with them, made of bytes, through the real stack in
//! paused time.
//!
//! What is to be seen of each call is what the reference model of the loop says,
//! to the millisecond and the millionth of a token; and whatever that says: no
//! call sends more than its attempts, no budget leaves its bounds, and time and
//! healthy calls close every breaker.

#![no_main]

mod generate;
#[path = "../../../model/mod.rs"]
mod model;
#[path = "../../../real/mod.rs"]
mod real;

use libfuzzer_sys::fuzz_target;

use model::breaker::Shown;
use model::policy::{Budget, Policy};
use model::run::{Seen, run};

fuzz_target!(|data: &[u8]| {
    let Ok((policy, calls)) = generate::case(data) else {
        return;
    };
    let expected = run(&policy, &calls);
    let build = || real::builder(&policy).build().expect("settings that do");
    let seen = real::in_paused_time(real::play(build, calls.clone()));
    for (call, (expected, seen)) in expected.iter().zip(&seen).enumerate() {
        assert_eq!(
            expected, seen,
            "call {call} (left the model, right ours) of {policy:#?}\n{calls:#?}"
        );
    }
    assert_eq!(expected.len(), seen.len());
    holds_whatever_the_model_says(&policy, &seen);
});

fn holds_whatever_the_model_says(policy: &Policy, seen: &[Seen]) {
    for call in seen {
        assert!(call.attempts.len() <= policy.max_attempts as usize);
        if let (Some(balance), Some(Budget::Ratio { cap, .. })) = (call.balance, policy.budget) {
            assert!((0..=cap).contains(&balance), "a balance of {balance}");
        }
    }
    let at_the_end = seen.last().and_then(|last| last.breaker);
    assert!(
        matches!(at_the_end, None | Some(Shown::Closed)),
        "stuck: {at_the_end:?}"
    );
}
