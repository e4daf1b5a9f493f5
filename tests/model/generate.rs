//! Random policies and scripts, as plain values of the model.

use std::ops::RangeInclusive;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use crate::model::arrange::{self, HOUR};
use crate::model::policy::*;
use crate::model::{DEADLINE_OFFSET, DROP_OFFSET, GRAIN, MOST_CALLS, Ms};

/// A policy and the calls made with it.
pub(crate) fn case() -> impl Strategy<Value = (Policy, Vec<Call>)> {
    (policy(), phases()).prop_map(|(policy, phases)| {
        let calls = phases.into_iter().flatten().take(MOST_CALLS);
        let calls = arrange::apart(&policy, calls.collect());
        let calls = arrange::and_healthy_calls(&policy, calls);
        (policy, calls)
    })
}

/// A breaker alone and calls that start on the grain, most of them answered at
/// once: so they meet the breaker's own times exactly, which calls with an
/// offset each never do.
pub(crate) fn case_on_the_grain() -> impl Strategy<Value = (Policy, Vec<Call>)> {
    let call = |mood| {
        let behaviour = prop_oneof![
            9 => (Just(0), class(mood)),
            2 => (grains(0..=60).prop_map(|n| n + DEADLINE_OFFSET), class(mood)),
        ]
        .prop_map(|(after, class)| Behaviour::Answers {
            after,
            class,
            as_error: true,
        });
        let behaviour = prop_oneof![11 => behaviour, 1 => Just(Behaviour::Hangs)];
        (grains(1..=12), grains(0..=90), behaviour).prop_map(|(gap, patience, then)| Call {
            starts: gap,
            idempotent: true,
            copyable: true,
            wish: None,
            caller_has: None,
            dropped_after: Some(patience + DROP_OFFSET),
            script: vec![Try {
                ready: Readiness::After(0),
                then,
            }],
        })
    };
    let moods = prop_oneof![Just(Mood::Healthy), Just(Mood::Sick), Just(Mood::Mixed)];
    let phase = moods.prop_flat_map(move |mood| vec(call(mood), 1..=14));
    (breaker(), vec(phase, 1..=5)).prop_map(|(breaker, phases)| {
        let policy = Policy::of_a_breaker(breaker);
        let calls = phases.into_iter().flatten().take(MOST_CALLS);
        let calls = arrange::on_the_grain(calls.collect());
        let calls = arrange::and_healthy_calls(&policy, calls);
        (policy, calls)
    })
}

fn grains(range: RangeInclusive<Ms>) -> impl Strategy<Value = Ms> + Clone {
    range.prop_map(|n| n * GRAIN)
}

fn policy() -> impl Strategy<Value = Policy> {
    (
        prop_oneof![1 => Just(1), 9 => 2..=5_u32],
        backoff(),
        limits(),
        grains(4..=300),
        prop_oneof![
            3 => Just(1),
            1 => Just(0),
            2 => Just(DEADLINE_OFFSET),
            1 => Just(DEADLINE_OFFSET + GRAIN),
            1 => Just(DEADLINE_OFFSET + 9 * GRAIN),
        ],
        option::weighted(0.6, budget()),
        option::weighted(0.7, breaker()),
    )
        .prop_map(
            |(
                max_attempts,
                backoff,
                (deadline, attempt_timeout),
                largest_hint,
                min_useful,
                budget,
                breaker,
            )| Policy {
                max_attempts,
                backoff,
                deadline,
                attempt_timeout,
                largest_hint,
                min_useful,
                budget,
                breaker: breaker.map(|b| b.with_lease_for(attempt_timeout, deadline)),
            },
        )
}

/// Deadline and attempt timeout.
fn limits() -> impl Strategy<Value = (Option<Ms>, Option<Ms>)> {
    let deadline = grains(1..=150).prop_map(|d| d + DEADLINE_OFFSET);
    let timeout = grains(1..=40);
    prop_oneof![
        // Only these let a probe outlive its lease.
        2 => Just((None, None)),
        1 => timeout.clone().prop_map(|timeout| (None, Some(timeout))),
        1 => deadline.clone().prop_map(|deadline| (Some(deadline), None)),
        4 => (deadline.prop_map(Some), timeout.prop_map(Some)),
    ]
}

fn backoff() -> impl Strategy<Value = Backoff> {
    prop_oneof![
        Just(Backoff::None),
        grains(1..=30).prop_map(Backoff::Fixed),
        (grains(1..=10), 1..=20_u64, 1..=3_u64).prop_map(|(base, times, factor)| {
            Backoff::Exponential {
                base,
                cap: base * times,
                factor,
            }
        }),
    ]
}

fn budget() -> impl Strategy<Value = Budget> {
    let ratio = (
        prop_oneof![
            Just(0),
            Just(100_000),
            Just(150_000),
            Just(300_000),
            Just(700_000),
            Just(1_000_000),
            1..=1_500_000_i64,
        ],
        TOKEN..=(12 * TOKEN),
        0..=100_i64,
        // Thousands, so that every millisecond brings a whole number.
        prop_oneof![
            2 => Just(Refill::Trickle(0)),
            3 => (1..=2000_i64).prop_map(|n| Refill::Trickle(n * 1000)),
            2 => (1..=2000_i64).prop_map(|n| Refill::Floor(n * 1000)),
        ],
    )
        .prop_map(|(ratio, cap, percent_full, refill)| Budget::Ratio {
            ratio,
            cap,
            opening: cap / 100 * percent_full,
            refill,
        });
    let concurrent =
        (0..=100_u32, 1..=3_u32).prop_map(|(percent, min)| Budget::Concurrent { percent, min });
    prop_oneof![4 => ratio, 1 => concurrent]
}

fn breaker() -> impl Strategy<Value = Breaker> {
    let rules = prop_oneof![
        2 => (1..=5_u32).prop_map(|k| (Some(k), None)),
        5 => rate().prop_map(|rate| (None, Some(rate))),
        1 => (2..=5_u32, rate()).prop_map(|(k, rate)| (Some(k), Some(rate))),
    ];
    (
        rules,
        grains(1..=80),
        1..=2_u64,
        1..=8_u64,
        prop_oneof![Just(0), Just(20 * GRAIN), Just(2000 * GRAIN)],
        (1..=3_u32).prop_flat_map(|probes| (Just(probes), 1..=probes)),
        prop_oneof![grains(1..=40), grains(100..=500)],
        option::weighted(0.2, grains(1..=40).prop_map(|d| d + DROP_OFFSET)),
    )
        .prop_map(
            |(
                (consecutive, rate),
                open_time,
                growth,
                times,
                max_hint_open,
                probes,
                lease,
                abandoned_after,
            )| {
                Breaker {
                    consecutive,
                    rate,
                    open_time,
                    growth,
                    max_open_time: open_time * times,
                    max_hint_open,
                    probes: probes.0,
                    successes: probes.1,
                    lease,
                    abandoned_after,
                }
            },
        )
}

fn rate() -> impl Strategy<Value = Rate> {
    let percent = prop_oneof![
        Just(100),
        Just(50),
        Just(25),
        Just(30),
        Just(60),
        1..=100_u32
    ];
    let count = (1..=10_u32)
        .prop_flat_map(|n| (Just(Window::Count(n)), 1..=n, option::weighted(0.3, 1..=n)));
    let time = (
        (1..=10_u64).prop_map(|n| Window::Time(n * 10 * GRAIN)),
        1..=8_u32,
        option::weighted(0.5, 1..=5_u32),
    );
    (percent, prop_oneof![count.boxed(), time.boxed()]).prop_map(
        |(percent, (window, min_calls, last_failed))| Rate {
            percent,
            window,
            min_calls,
            last_failed,
        },
    )
}

/// The dependency's health changes in phases, so that breakers trip and recover.
fn phases() -> impl Strategy<Value = Vec<Vec<Call>>> {
    let phase = prop_oneof![
        3 => Just(Mood::Healthy),
        4 => Just(Mood::Sick),
        3 => Just(Mood::Mixed),
        2 => Just(Mood::Mute),
        1 => Just(Mood::Hurried),
    ]
    .prop_flat_map(|mood| vec(call(mood), 1..=14));
    vec(phase, 1..=5)
}

#[derive(Clone, Copy, Debug)]
enum Mood {
    Healthy,
    Sick,
    Mixed,
    /// Answers that say nothing of its health.
    Mute,
    /// It hangs, and the callers have next to no time.
    Hurried,
}

fn call(mood: Mood) -> impl Strategy<Value = Call> {
    (
        prop_oneof![
            3 => Just(0),
            4 => grains(1..=8),
            3 => grains(1..=80),
            1 => Just(HOUR),
        ],
        prop::bool::weighted(0.92),
        prop::bool::weighted(0.96),
        option::weighted(
            0.05,
            prop_oneof![Just(Wish::NoRetries), Just(Wish::NotIdempotent)],
        ),
        caller_has(mood),
        option::weighted(0.2, grains(0..=60).prop_map(|d| d + DROP_OFFSET)),
        vec(
            (readiness(), behaviour(mood)).prop_map(|(ready, then)| Try { ready, then }),
            5,
        ),
    )
        .prop_map(
            |(gap, idempotent, copyable, wish, caller_has, dropped_after, script)| Call {
                starts: gap,
                idempotent,
                copyable,
                wish,
                caller_has,
                dropped_after,
                script,
            },
        )
}

fn caller_has(mood: Mood) -> BoxedStrategy<Option<Ms>> {
    let some_time = |range| grains(range).prop_map(|d| d + DEADLINE_OFFSET);
    match mood {
        Mood::Hurried => some_time(0..=2).prop_map(Some).boxed(),
        _ => option::weighted(0.15, prop_oneof![1 => Just(0), 6 => some_time(0..=60)]).boxed(),
    }
}

fn readiness() -> impl Strategy<Value = Readiness> {
    prop_oneof![
        40 => Just(Readiness::After(0)),
        6 => grains(1..=40).prop_map(Readiness::After),
        1 => Just(Readiness::Never),
        1 => grains(0..=2).prop_map(Readiness::Fails),
    ]
}

fn behaviour(mood: Mood) -> impl Strategy<Value = Behaviour> {
    let after = prop_oneof![4 => Just(0), 3 => grains(1..=6), 2 => grains(1..=60)];
    let answers = (after, class(mood), any::<bool>()).prop_map(|(after, class, as_error)| {
        Behaviour::Answers {
            after,
            class,
            as_error,
        }
    });
    let hangs = match mood {
        Mood::Hurried => 100,
        _ => 1,
    };
    prop_oneof![12 => answers, hangs => Just(Behaviour::Hangs)]
}

fn class(mood: Mood) -> impl Strategy<Value = Class> {
    let (ok, failing, neutral) = match mood {
        Mood::Healthy => (20, 1, 1),
        Mood::Sick | Mood::Hurried => (1, 20, 1),
        Mood::Mixed => (5, 6, 2),
        Mood::Mute => (1, 1, 20),
    };
    prop_oneof![
        ok => prop_oneof![4 => Just(Class::Success), 1 => Just(Class::Terminal)],
        failing => prop_oneof![
            4 => Just(Class::Transient),
            2 => hint().prop_map(Class::Overloaded),
            1 => Just(Class::Unreachable),
            2 => Just(Class::Ambiguous),
        ],
        neutral => prop_oneof![hint().prop_map(Class::Throttled), Just(Class::Blocked)],
    ]
}

fn hint() -> impl Strategy<Value = Option<Ms>> {
    option::of(prop_oneof![grains(1..=20), grains(1..=400)])
}
