//! Random settings, and random things that happen to a breaker.

use proptest::collection::vec;
use proptest::option::{of, weighted};
use proptest::prelude::*;
use proptest::sample::select;

use crate::breaker_model::MS;
use crate::breaker_model::reference::Told;
use crate::breaker_model::settings::{Settings, Window};
use crate::breaker_model::steps::{Calls, Change, Step, Wait};

pub(crate) fn case() -> impl Strategy<Value = (Settings, Vec<Step>)> {
    (settings(), vec(step(), 1..100))
}

fn settings() -> impl Strategy<Value = Settings> {
    let rules = prop_oneof![
        3 => (1..=5_u32).prop_map(|calls| (Some(calls), None)),
        3 => percent().prop_map(|rate| (None, Some(rate))),
        2 => (1..=5_u32, percent()).prop_map(|(calls, rate)| (Some(calls), Some(rate))),
    ];
    let window = prop_oneof![
        (1..=12_u32).prop_map(Window::Count),
        select(vec![
            10 * MS,
            100 * MS,
            1000 * MS,
            10_000 * MS,
            10_000_007,
            60_000 * MS
        ])
        .prop_map(Window::Time),
    ];
    let slow = weighted(0.3, (span(), percent()));
    let counted = (rules, window, of(1..=6_u32), of(1..=4_u32), slow);
    let opening = (
        span(),
        select(vec![(1, 1), (2, 1), (3, 1), (3, 2)]),
        select(vec![1, 2, 5, 8]),
        span(),
    );
    let probing = (1..=3_u32, 1..=3_u32, span());
    let ramp = prop_oneof![1 => Just(0), 3 => span()];
    let from = prop_oneof![select(vec![0.0, 0.1, 0.25, 1.0]), 0.0..=1.0];
    let limit = weighted(0.3, prop_oneof![1..=3_u32, 4..=10_u32]);
    (counted, opening, probing, (ramp, from, limit)).prop_map(
        |(counted, opening, probing, (ramp, ramp_from, concurrency_limit))| {
            let ((consecutive, rate), window, min_calls, last_failed, slow) = counted;
            let (open_time, growth, times, max_hint_open) = opening;
            let (probes, successes, lease) = probing;
            let fits = |calls: u32| match window {
                Window::Count(size) => calls.min(size),
                Window::Time(_) => calls,
            };
            Settings {
                consecutive,
                rate,
                window,
                min_calls: min_calls.map(fits),
                last_failed: last_failed.map(fits),
                slow,
                open_time,
                growth,
                max_open_time: open_time * times,
                max_hint_open,
                probes,
                successes: successes.min(probes),
                lease,
                ramp,
                ramp_from,
                concurrency_limit,
            }
        },
    )
}

fn percent() -> impl Strategy<Value = u32> {
    prop_oneof![select(vec![1, 29, 33, 50, 100]), 1..=100_u32]
}

/// From a millisecond to minutes. Few digits, so that times meet each other.
fn span() -> impl Strategy<Value = u64> {
    (1..=9_u64, 0..=5_u32).prop_map(|(digit, zeros)| digit * 10_u64.pow(zeros) * MS)
}

fn step() -> impl Strategy<Value = Step> {
    let reasons = vec!["drill", "moving to another data centre"];
    prop_oneof![
        60 => Just(Step::Start),
        50 => (any::<usize>(), told()).prop_map(|(call, told)| Step::Finish(call, told)),
        8 => any::<usize>().prop_map(Step::Drop),
        4 => any::<usize>().prop_map(Step::Panic),
        50 => calls().prop_map(Step::Calls),
        8 => Just(Step::Heal),
        8 => calls().prop_map(Step::Probe),
        12 => (-1..=1_i64, told()).prop_map(|(off, told)| Step::Slow(off, told)),
        70 => wait().prop_map(Step::Wait),
        1 => select(reasons).prop_map(Step::ForceOpen),
        1 => Just(Step::Disable),
        5 => Just(Step::Reset),
        5 => change().prop_map(Step::Reconfigure),
    ]
}

fn calls() -> impl Strategy<Value = Calls> {
    let number = || prop_oneof![4 => 1..=4_usize, 2 => 5..=9_usize, 1 => 10..=25_usize];
    let all = (number(), told()).prop_map(|(calls, told)| (calls, 1, told, told));
    let mixed = (number(), 2..=9_usize, told(), told());
    let neutral = (1..=12_usize, 2..=12_usize, told());
    let neutral = neutral.prop_map(|(calls, one_in, told)| (calls, one_in, told, Told::Neutral));
    prop_oneof![3 => all, 3 => mixed, 1 => neutral].prop_map(|(calls, one_in, told, rest)| Calls {
        calls,
        one_in,
        told,
        rest,
    })
}

fn told() -> impl Strategy<Value = Told> {
    prop_oneof![
        8 => Just(Told::Success),
        8 => Just(Told::Failure(None)),
        2 => span().prop_map(|hint| Told::Failure(Some(hint))),
        2 => Just(Told::Neutral),
        1 => Just(Told::Nothing),
    ]
}

fn wait() -> impl Strategy<Value = Wait> {
    prop_oneof![
        2 => Just(Wait::Nanos(0)),
        16 => span().prop_map(Wait::Nanos),
        2 => (0..1000 * MS).prop_map(Wait::Nanos),
        6 => Just(Wait::UntilOver(0, 0)),
        12 => (any::<usize>(), -1..=1_i64).prop_map(|(event, off)| Wait::UntilOver(event, off)),
        4 => (any::<usize>(), -1..=1_i64).prop_map(|(call, off)| Wait::UntilSlow(call, off)),
        2 => (1..=12_u64).prop_map(Wait::Slots),
        1 => (1..=2_u64).prop_map(|rounds| Wait::Slots(rounds * 5 * 65_536)),
        1 => (1..=365_u64).prop_map(|days| Wait::Nanos(days * 86_400_000 * MS)),
    ]
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        6 => settings().prop_map(Change::Others),
        2 => settings().prop_map(Change::All),
        1 => Just(Change::NoProbes),
    ]
}
