//! Random policies, scripts and drops through the real stack, in paused time,
//! against the slow reference model in `model/`.
//!
//! `PROPTEST_CASES` sets the number of cases.

#[path = "model/generate.rs"]
mod generate;
mod model;
mod real;

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{FileFailurePersistence, TestCaseError, TestRunner};
use steadfast::Backoff;

use model::arrange::HEALTHY_CALLS;
use model::breaker::Shown;
use model::policy::{Behaviour, Breaker, Call, Class, Policy, Readiness, Try};
use model::run::{Ending, Seen, Source, Stopped, run};
use model::{DEADLINE_OFFSET, GRAIN};

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn the_loop_does_what_the_model_says((policy, calls) in generate::case()) {
        let expected = run(&policy, &calls);
        let real = || real::builder(&policy).build().unwrap();
        let seen = real::in_paused_time(real::play(real, calls));
        compare(&expected, &seen)?;
    }
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn the_breaker_keeps_its_times_to_the_millisecond(
        (policy, calls) in generate::case_on_the_grain(),
    ) {
        let expected = run(&policy, &calls);
        let real = || real::builder(&policy).build().unwrap();
        let seen = real::in_paused_time(real::play(real, calls));
        compare(&expected, &seen)?;
    }
}

proptest! {
    #![proptest_config(cases(256))]

    /// The random part of a delay lies between nothing and the backoff of that
    /// attempt, on top of what the server asked for.
    #[test]
    fn with_jitter_every_delay_stays_within_its_window(
        base in 1..=2000_u64,
        times in 1..=50_u64,
        seed in any::<u64>(),
        hints in prop::collection::vec(prop::option::of(1..=20_000_u64), 11),
        deadline in prop::option::of(1..=60_000_u64),
    ) {
        let cap = base * times;
        let policy = Policy {
            deadline,
            ..only_retries(12)
        };
        let script = hints.iter().map(|hint| fails_at_once(Class::Overloaded(*hint)));
        let call = Call {
            script: script.chain([fails_at_once(Class::Overloaded(None))]).collect(),
            ..patient_call()
        };
        let full = Backoff::full_jitter(
            std::time::Duration::from_millis(base),
            std::time::Duration::from_millis(cap),
        );
        let twice = [(), ()].map(|()| {
            let real = || real::builder(&policy).backoff(full.clone().seed(seed)).build().unwrap();
            real::in_paused_time(real::play(real, vec![call.clone()])).remove(0)
        });
        prop_assert_eq!(&twice[0], &twice[1], "the same seed, another result");

        let [seen, _] = twice;
        for (retry, pair) in seen.attempts.windows(2).enumerate() {
            let delay = pair[1].asked - pair[0].asked;
            let hint = hints[retry].unwrap_or(0);
            let doubled = base.saturating_mul(1 << retry);
            // Timers round up to the next millisecond.
            prop_assert!(delay >= hint, "{} undercuts the hint {}", delay, hint);
            prop_assert!(
                delay <= hint + cap.min(doubled) + 1,
                "retry {} after {}, hint {}", retry, delay, hint,
            );
        }
        match seen.stopped {
            Some(Stopped::AttemptsExhausted) => prop_assert_eq!(seen.attempts.len(), 12),
            Some(Stopped::Deadline) => {
                prop_assert!(deadline.is_some());
                // At once, not after a sleep.
                let last = seen.attempts.last().map(|last| last.asked);
                prop_assert_eq!(last, Some(seen.ended_at));
            }
            other => prop_assert!(false, "stopped by {:?}", other),
        }
        if let Some(deadline) = deadline {
            prop_assert!(seen.ended_at <= call.starts + deadline);
        }
    }
}

/// A hang is no answer, not even one that says nothing: callers in a hurry must
/// not close the breaker of a dead dependency.
#[test]
fn probes_that_impatient_callers_cut_short_leave_the_breaker_half_open() {
    let policy = Policy {
        attempt_timeout: Some(40 * GRAIN),
        breaker: Some(Breaker {
            consecutive: Some(1),
            rate: None,
            open_time: GRAIN,
            growth: 1,
            max_open_time: GRAIN,
            max_hint_open: 0,
            probes: 1,
            successes: 1,
            lease: 40 * GRAIN,
            abandoned_after: None,
        }),
        ..only_retries(1)
    };
    let opens_it = Call {
        script: vec![fails_at_once(Class::Transient)],
        ..patient_call()
    };
    let in_a_hurry = (1..=12).map(|index| Call {
        starts: 2 * GRAIN * index,
        caller_has: Some(DEADLINE_OFFSET),
        script: vec![Try {
            ready: Readiness::After(0),
            then: Behaviour::Hangs,
        }],
        ..patient_call()
    });
    let calls: Vec<Call> = [opens_it].into_iter().chain(in_a_hurry).collect();
    let expected = run(&policy, &calls);
    assert_eq!(expected[12].breaker, Some(Shown::HalfOpen));
    let real = || real::builder(&policy).build().unwrap();
    assert_eq!(real::in_paused_time(real::play(real, calls)), expected);
}

/// A property over cases in which nothing happens would hold as well.
#[test]
fn the_generated_cases_reach_every_corner_of_the_loop() {
    let mut runner = TestRunner::deterministic();
    let mut corners: BTreeMap<String, u32> = BTreeMap::new();
    for _ in 0..500 {
        let case = generate::case().new_tree(&mut runner).unwrap();
        let (policy, calls) = case.current();
        let seen = run(&policy, &calls);
        let before_healthy_calls = &seen[..seen.len() - HEALTHY_CALLS];
        for corner in corners_of(before_healthy_calls) {
            *corners.entry(corner).or_default() += 1;
        }
    }
    let wanted = [
        "Answer",
        "Failed",
        "TimedOut",
        "Unready",
        "never ready",
        "DeadlineExceeded",
        "Refused",
        "Dropped",
        "success",
        "NotRetryable",
        "NotIdempotent",
        "AttemptsExhausted",
        "NotReplayable",
        "RetriesDisabled",
        "Breaker",
        "HintTooLong",
        "Deadline",
        "BudgetExhausted",
        "5 attempts",
        "refused after its sleep",
        "dropped after a retry",
        "no time to begin with",
        "opened",
        "closed again",
        "HalfOpen at its end",
    ];
    for corner in wanted {
        let cases = corners.get(corner).copied().unwrap_or(0);
        assert!(cases >= 5, "{corner}: in {cases} of 500 cases");
    }
}

fn corners_of(seen: &[Seen]) -> Vec<String> {
    let mut corners = Vec::new();
    let mut opened = false;
    for call in seen {
        let ending = match call.ending {
            Ending::Answer(_) => "Answer",
            Ending::Failed if call.source == Some(Source::Unready) => "Unready",
            Ending::Failed => "Failed",
            Ending::TimedOut => "TimedOut",
            Ending::DeadlineExceeded => "DeadlineExceeded",
            Ending::Refused(_) => "Refused",
            Ending::Dropped => "Dropped",
        };
        corners.push(ending.to_owned());
        corners.push(match call.stopped {
            Some(Stopped::Breaker(_)) => "Breaker".to_owned(),
            Some(stopped) => format!("{stopped:?}"),
            None if call.ending == Ending::Answer(Class::Success) => "success".to_owned(),
            None => String::new(),
        });
        corners.push(format!("{} attempts", call.attempts.len()));
        let tried = !call.attempts.is_empty();
        let special = match call.ending {
            Ending::Refused(_) if tried => "refused after its sleep",
            Ending::Dropped if call.attempts.len() > 1 => "dropped after a retry",
            Ending::DeadlineExceeded if !tried => "no time to begin with",
            Ending::TimedOut if call.attempts.iter().any(|a| a.sent.is_none()) => "never ready",
            _ => "",
        };
        corners.push(special.to_owned());
        match call.breaker {
            Some(Shown::Open) => opened = true,
            Some(Shown::Closed) if opened => corners.push("closed again".to_owned()),
            Some(Shown::HalfOpen) => corners.push("HalfOpen at its end".to_owned()),
            _ => {}
        }
    }
    if opened {
        corners.push("opened".to_owned());
    }
    corners.sort();
    corners.dedup();
    corners
}

/// Each case ends with healthy calls.
fn compare(expected: &[Seen], seen: &[Seen]) -> Result<(), TestCaseError> {
    prop_assert_eq!(expected.len(), seen.len());
    let at_the_end = seen.last().and_then(|last| last.breaker);
    prop_assert!(
        matches!(at_the_end, None | Some(Shown::Closed)),
        "stuck: {:?}",
        at_the_end
    );
    for (index, (expected, seen)) in expected.iter().zip(seen).enumerate() {
        prop_assert_eq!(
            expected,
            seen,
            "call {} (left the model, right ours)",
            index
        );
    }
    Ok(())
}

/// `default` of them, unless the environment says otherwise.
fn cases(default: u32) -> ProptestConfig {
    let beside_this_file = FileFailurePersistence::WithSource("regressions");
    let mut config = ProptestConfig {
        failure_persistence: Some(Box::new(beside_this_file)),
        ..ProptestConfig::default()
    };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = default;
    }
    config
}

fn only_retries(max_attempts: u32) -> Policy {
    Policy {
        max_attempts,
        backoff: model::policy::Backoff::None,
        deadline: None,
        attempt_timeout: None,
        largest_hint: 1000 * GRAIN,
        min_useful: 1,
        budget: None,
        breaker: None,
    }
}

fn patient_call() -> Call {
    Call {
        starts: 1,
        idempotent: true,
        copyable: true,
        wish: None,
        caller_has: None,
        dropped_after: None,
        script: Vec::new(),
    }
}

fn fails_at_once(class: Class) -> Try {
    Try {
        ready: Readiness::After(0),
        then: Behaviour::Answers {
            after: 0,
            class,
            as_error: true,
        },
    }
}
