//! The figures of the `outage` example follow from its inputs: each scenario is run with inputs of
//! its own and held against a plain model written here, which knows nothing of the library.

#[path = "../examples/outage/main.rs"]
#[expect(dead_code, reason = "the program's own door is not used from here")]
mod outage;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::num::NonZeroU32;
use std::time::Duration;

use outage::amplification::{Amplification, PUBLISHED, expected};
use outage::eval_jobs::{Counts, EvalJobs};
use outage::fixture::Fixture;
use outage::live::Live;
use outage::report::Band;
use outage::ten_second_outage::TenSecondOutage;
use serde_json::Value;

fn at_least_one(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).expect("not zero")
}

fn millis(duration: Duration) -> u64 {
    duration.as_millis().try_into().expect("not for ever")
}

// ---------------------------------------------------------------------------------------------
// amplification

/// Mean sends per request by trying every possible script of outcomes: bit `i` of a script says
/// whether attempt `i` fails, and each script weighs as much as it is probable.
fn by_brute_force(f: f64, retries: &[u32]) -> f64 {
    let longest: u32 = retries.iter().map(|retries| retries + 1).product();
    let weighed = |script: u32| {
        let fails = script.count_ones() as i32;
        let weight = f.powi(fails) * (1.0 - f).powi(longest as i32 - fails);
        let mut used = 0;
        request(script, &mut used, retries);
        weight * f64::from(used)
    };
    (0..1 << longest).map(weighed).sum()
}

fn request(script: u32, used: &mut u32, layers: &[u32]) -> bool {
    let Some((outermost, below)) = layers.split_last() else {
        let fails = script >> *used & 1 == 1;
        *used += 1;
        return !fails;
    };
    for _ in 0..=*outermost {
        if request(script, used, below) {
            return true;
        }
    }
    false
}

#[test]
fn the_amplification_formula_agrees_with_trying_every_script() {
    for retries in [
        &[0][..],
        &[2],
        &[5],
        &[1, 2],
        &[2, 1],
        &[0, 3, 1],
        &[1, 1, 2],
        &[3, 2],
    ] {
        for f in [0.0, 0.05, 0.2, 0.5, 0.77, 0.9, 0.99, 1.0] {
            let (formula, counted) = (expected(f, retries), by_brute_force(f, retries));
            assert!(
                (formula - counted).abs() < 1e-9,
                "{f} {retries:?}: {formula}, {counted}"
            );
        }
    }
}

#[test]
fn plain_loops_measure_what_the_formula_says_and_stacks_send_like_one_layer() {
    let inputs = Amplification {
        f: vec![0.0, 0.3, 0.8, 1.0],
        retries: vec![vec![1, 2], vec![2, 0, 1], vec![4]],
        precision: 0.03,
        requests: at_least_one(1_000),
    };
    let rows = inputs.measure(7).unwrap();
    assert_eq!(rows.len(), 12);
    for row in rows {
        let off = (row.measured / by_brute_force(row.f, &row.retries) - 1.0).abs();
        assert!(off <= 0.03, "{row:?}");
        let innermost = row.retries[0];
        let off = (row.nested_steadfast / by_brute_force(row.f, &[innermost]) - 1.0).abs();
        assert!(off <= 0.03, "{row:?}");
        let most = if row.f == 0.0 {
            1
        } else {
            u64::from(innermost) + 1
        };
        assert_eq!(row.nested_max, most, "{row:?}");
    }
}

#[test]
fn a_dead_dependency_is_amplified_by_the_whole_product() {
    let inputs = Amplification {
        f: vec![1.0],
        retries: vec![vec![1, 4, 2]],
        precision: 0.01,
        requests: at_least_one(100),
    };
    let row = &inputs.measure(1).unwrap()[0];
    assert_eq!((row.expected, row.measured), (30.0, 30.0));
    assert_eq!((row.nested_steadfast, row.nested_max), (2.0, 2));
}

#[test]
fn the_published_rows_are_all_there() {
    let rows = Amplification {
        precision: 0.2,
        requests: at_least_one(100),
        ..Amplification::default()
    }
    .measure(1)
    .unwrap();
    let rows: Vec<(f64, &[u32])> = rows
        .iter()
        .map(|row| (row.f, row.retries.as_slice()))
        .collect();
    for f in [0.1, 0.5, 0.9, 0.99, 1.0] {
        assert!(rows.contains(&(f, &[3, 3, 3])));
        assert!(rows.contains(&(f, &[2, 3, 3])));
    }
    assert!(rows.contains(&(1.0, &[2, 2, 2])));
    assert!(rows.contains(&(0.2, &[2])));
    assert_eq!(rows.len(), 12);
    for (f, retries, reference) in PUBLISHED {
        let off = expected(f, retries) - reference.parse::<f64>().unwrap();
        assert!(off.abs() <= 0.005, "{f} {retries:?}: {reference}");
    }
}

#[test]
fn another_seed_measures_other_figures_and_the_same_seed_the_same() {
    let inputs = Amplification {
        f: vec![0.5],
        retries: vec![vec![2, 2]],
        ..Amplification::default()
    };
    let measured = |seed| inputs.measure(seed).unwrap()[0].measured;
    assert_eq!(measured(1).to_bits(), measured(1).to_bits());
    assert_ne!(measured(1).to_bits(), measured(2).to_bits());
}

// ---------------------------------------------------------------------------------------------
// ten_second_outage

/// A breaker with nothing but a count and a time, for calls of any length.
#[derive(Clone, Default)]
struct PlainBreaker {
    threshold: u32,
    open_for: u64,
    failures: u32,
    opened: Option<u64>,
    probing: bool,
    /// Outcomes of calls from before the last change of state no longer count.
    era: u32,
}

impl PlainBreaker {
    fn new(threshold: NonZeroU32, open_for: Duration) -> Self {
        Self {
            threshold: threshold.get(),
            open_for: millis(open_for),
            ..Self::default()
        }
    }

    fn admits(&mut self, now: u64) -> Option<u32> {
        if let Some(opened) = self.opened {
            if self.probing || now < opened + self.open_for {
                return None;
            }
            self.probing = true;
            self.era += 1;
        }
        Some(self.era)
    }

    fn hears(&mut self, now: u64, era: u32, ok: bool) {
        if era != self.era {
            return;
        }
        self.failures = if ok { 0 } else { self.failures + 1 };
        let was_probe = std::mem::take(&mut self.probing);
        if ok {
            self.opened = None;
        } else if was_probe || self.failures >= self.threshold {
            self.opened = Some(now);
        } else {
            return;
        }
        self.era += u32::from(was_probe || !ok);
    }
}

/// The arrivals within the outage and the waits before each further attempt, in milliseconds.
fn schedule(inputs: &TenSecondOutage) -> (Vec<u64>, Vec<u64>) {
    let outage = millis(inputs.outage);
    let arrivals = (0..).map(|i| (f64::from(i) * 1_000.0 / inputs.rate) as u64);
    let waits = (0..inputs.attempts.get() - 1).map(|n| millis(inputs.backoff) << n);
    (
        arrivals.take_while(|&at| at < outage).collect(),
        waits.collect(),
    )
}

fn plain_without_breaker(inputs: &TenSecondOutage) -> u64 {
    let (arrivals, waits) = schedule(inputs);
    let mut sends = 0;
    for mut at in arrivals {
        for wait in waits.iter().copied().chain([0]) {
            sends += u64::from(at < millis(inputs.outage));
            at += wait;
            if at >= millis(inputs.outage) {
                break;
            }
        }
    }
    sends
}

fn plain_sequential(inputs: &TenSecondOutage) -> u64 {
    let (arrivals, waits) = schedule(inputs);
    let outage = millis(inputs.outage);
    let mut breaker = PlainBreaker::new(inputs.threshold, inputs.open_time);
    let (mut now, mut sends) = (0, 0);
    for arrival in arrivals {
        now = now.max(arrival);
        let Some(era) = breaker.admits(now) else {
            continue;
        };
        let mut waits = waits.iter();
        let ok = loop {
            if now >= outage {
                break true;
            }
            sends += 1;
            match waits.next() {
                Some(wait) => now += wait,
                None => break false,
            }
        };
        breaker.hears(now, era, ok);
    }
    sends
}

/// Overlapping requests, the breaker asked once per request or before every attempt.
fn plain_overlapping(inputs: &TenSecondOutage, per_attempt: bool) -> u64 {
    let (arrivals, waits) = schedule(inputs);
    let outage = millis(inputs.outage);
    let mut breaker = PlainBreaker::new(inputs.threshold, inputs.open_time);
    // When, which request, which attempt, and the era of its admission.
    let mut due: BinaryHeap<_> = arrivals
        .into_iter()
        .enumerate()
        .map(|(id, at)| Reverse((at, id, 0, 0)))
        .collect();
    let mut sends = 0;
    while let Some(Reverse((now, id, attempt, mut era))) = due.pop() {
        if per_attempt || attempt == 0 {
            let Some(admitted) = breaker.admits(now) else {
                continue;
            };
            era = admitted;
        }
        let ok = now >= outage;
        sends += u64::from(!ok);
        let again = if ok { None } else { waits.get(attempt) };
        if per_attempt || again.is_none() {
            breaker.hears(now, era, ok);
        }
        if let Some(wait) = again {
            due.push(Reverse((now + wait, id, attempt + 1, era)));
        }
    }
    sends
}

fn outages() -> Vec<TenSecondOutage> {
    let default = TenSecondOutage::default;
    let ms = Duration::from_millis;
    // Backoffs that never meet an arrival, so that no figure hangs on who comes first at one tick.
    vec![
        TenSecondOutage {
            backoff: ms(103),
            ..default()
        },
        TenSecondOutage {
            backoff: ms(57),
            threshold: at_least_one(1),
            ..default()
        },
        TenSecondOutage {
            backoff: ms(57),
            threshold: at_least_one(12),
            ..default()
        },
        TenSecondOutage {
            backoff: ms(103),
            attempts: at_least_one(2),
            ..default()
        },
        TenSecondOutage {
            backoff: ms(103),
            attempts: at_least_one(1),
            ..default()
        },
        TenSecondOutage {
            backoff: ms(103),
            open_time: ms(1_500),
            ..default()
        },
        TenSecondOutage {
            backoff: ms(201),
            open_time: ms(333),
            rate: 50.0,
            ..default()
        },
        TenSecondOutage {
            backoff: ms(201),
            outage: ms(3_000),
            rate: 40.0,
            ..default()
        },
        TenSecondOutage {
            backoff: ms(33),
            outage: ms(31_000),
            rate: 20.0,
            ..default()
        },
        TenSecondOutage {
            backoff: ms(103),
            outage: ms(0),
            ..default()
        },
    ]
}

#[test]
fn every_arrangement_sends_what_a_plain_model_sends() {
    for inputs in outages() {
        let figures = inputs.measure().unwrap();
        assert_eq!(
            figures.no_breaker,
            plain_without_breaker(&inputs),
            "{inputs:?}"
        );
        assert_eq!(
            figures.around_loop_sequential,
            plain_sequential(&inputs),
            "{inputs:?}"
        );
        let around = plain_overlapping(&inputs, false);
        assert_eq!(figures.around_loop_concurrent, around, "{inputs:?}");
        assert_eq!(
            figures.per_attempt,
            plain_overlapping(&inputs, true),
            "{inputs:?}"
        );
    }
}

#[test]
fn the_published_inputs_give_the_published_figures() {
    let inputs = TenSecondOutage::default();
    let figures = inputs.measure().unwrap();
    assert_eq!(figures.no_breaker, 3_890);
    assert_eq!(figures.around_loop_sequential, 24);
    // An arrival and the failure that opens the breaker can meet at one tick.
    assert!(
        figures.around_loop_concurrent.abs_diff(304) <= 4,
        "{figures:?}"
    );
    assert_eq!(figures.per_attempt, 6);
    assert_eq!(figures.slowest_failure, Duration::from_millis(700));
}

#[test]
fn with_a_breaker_that_opens_after_k_failures_k_and_one_probe_get_through() {
    for k in [1, 2, 3, 7, 11, 20, 60] {
        let inputs = TenSecondOutage {
            threshold: at_least_one(k),
            ..Default::default()
        };
        assert_eq!(
            inputs.measure().unwrap().per_attempt,
            u64::from(k) + 1,
            "threshold {k}"
        );
    }
}

#[test]
fn shorter_cool_downs_cost_one_probe_each() {
    for (seconds, probes) in [(1, 9), (2, 4), (3, 3), (4, 2), (9, 1), (10, 0), (60, 0)] {
        let open_time = Duration::from_secs(seconds);
        let inputs = TenSecondOutage {
            open_time,
            ..Default::default()
        };
        assert_eq!(
            inputs.measure().unwrap().per_attempt,
            5 + probes,
            "open for {seconds} s"
        );
    }
}

// ---------------------------------------------------------------------------------------------
// eval_jobs

fn plain_jobs(inputs: &EvalJobs, mut breaker: Option<PlainBreaker>) -> (Counts, u64) {
    let mut counts = Counts::default();
    let mut after_recovery = Vec::new();
    let mut due: BinaryHeap<_> = (0..inputs.jobs.get())
        .map(|job| Reverse(((f64::from(job) * 1_000.0 / inputs.rate) as u64, job, 0)))
        .collect();
    while let Some(Reverse((now, job, attempt))) = due.pop() {
        let era = match breaker.as_mut().map(|breaker| breaker.admits(now)) {
            None => 0,
            Some(Some(era)) => era,
            Some(None) => {
                counts.refusals += 1;
                due.push(Reverse((now + millis(inputs.park), job, attempt)));
                continue;
            }
        };
        let ok = now >= millis(inputs.outage);
        if let Some(breaker) = &mut breaker {
            breaker.hears(now, era, ok);
        }
        if ok {
            counts.successes += 1;
            after_recovery.push(now);
            continue;
        }
        counts.failed_sends += 1;
        match inputs.backoff.get(attempt) {
            Some(&wait) => due.push(Reverse((now + millis(wait), job, attempt + 1))),
            None => counts.given_up += 1,
        }
    }
    let within_a_second = |&from: &u64| {
        after_recovery
            .iter()
            .filter(|&&at| at >= from && at < from + 1_000)
            .count()
    };
    let peak = after_recovery
        .iter()
        .map(within_a_second)
        .max()
        .unwrap_or(0);
    (counts, peak as u64)
}

#[test]
fn jobs_fare_as_in_a_plain_simulation() {
    let default = EvalJobs::default;
    let seconds = Duration::from_secs;
    let jobs = at_least_one(400);
    let cases = [
        EvalJobs {
            jobs,
            outage: seconds(60),
            ..default()
        },
        EvalJobs {
            jobs,
            outage: seconds(60),
            rate: 8.0,
            threshold: at_least_one(1),
            ..default()
        },
        EvalJobs {
            jobs,
            outage: seconds(60),
            rate: 2.0,
            threshold: at_least_one(9),
            ..default()
        },
        EvalJobs {
            jobs,
            outage: seconds(45),
            cooldown: seconds(7),
            park: seconds(4),
            ..default()
        },
        EvalJobs {
            jobs,
            outage: seconds(45),
            cooldown: seconds(4),
            park: seconds(9),
            ..default()
        },
        EvalJobs {
            jobs,
            outage: seconds(50),
            backoff: vec![],
            ..default()
        },
        EvalJobs {
            jobs,
            outage: seconds(50),
            backoff: vec![seconds(3); 5],
            ..default()
        },
        EvalJobs {
            jobs,
            outage: seconds(0),
            ..default()
        },
        EvalJobs {
            jobs,
            rate: 3.0,
            outage: seconds(1_000),
            ..default()
        },
    ];
    for inputs in cases {
        let figures = inputs.measure(3).unwrap();
        let breaker = PlainBreaker::new(inputs.threshold, inputs.cooldown);
        assert_eq!(figures.without, plain_jobs(&inputs, None).0, "{inputs:?}");
        let (with, peak) = plain_jobs(&inputs, Some(breaker));
        assert_eq!(figures.with, with, "{inputs:?}");
        assert_eq!(figures.peak_lockstep, peak, "{inputs:?}");
    }
}

#[test]
fn the_published_night_ends_as_published() {
    let figures = EvalJobs::default().measure(1).unwrap();
    let counts = |failed_sends, successes, given_up, refusals| Counts {
        failed_sends,
        successes,
        given_up,
        refusals,
    };
    assert_eq!(figures.without, counts(4_480, 1_515, 1_485, 0));
    assert_eq!(figures.with, counts(12, 3_000, 0, 8_270));
    assert!(figures.peak_jittered < figures.peak_lockstep, "{figures:?}");
}

#[test]
fn without_jitter_a_jittered_park_is_a_park() {
    let inputs = EvalJobs {
        jobs: at_least_one(500),
        outage: Duration::from_secs(60),
        park_jitter: 0.0,
        ..EvalJobs::default()
    };
    let figures = inputs.measure(5).unwrap();
    assert_eq!(figures.peak_jittered, figures.peak_lockstep);
}

// ---------------------------------------------------------------------------------------------
// fixture

#[test]
fn the_fixture_is_open_until_its_time_has_passed_since_the_last_failure() {
    for (threshold, spacing, cooldown, callers) in [
        (3, 1_000, 30_000, 50),
        (1, 1_000, 30_000, 7),
        (6, 250, 4_001, 2),
        (2, 0, 1, 1),
    ] {
        let inputs = Fixture {
            threshold: at_least_one(threshold),
            spacing: Duration::from_millis(spacing),
            cooldown: Duration::from_millis(cooldown),
            callers: at_least_one(callers),
        };
        let figures = inputs.measure().unwrap();
        let open_until = u64::from(threshold - 1) * spacing + cooldown;
        let found = (figures.open_until_seconds * 1_000.0).round() as u64;
        assert_eq!(found, open_until, "{inputs:?}");
        assert_eq!(figures.probes, 1, "{inputs:?}");
    }
}

// ---------------------------------------------------------------------------------------------
// live

#[test]
fn a_killed_server_is_stood_in_for_and_found_again() {
    let inputs = Live {
        warm_up: Duration::from_millis(200),
        outage: Duration::from_millis(500),
        open_time: Duration::from_millis(150),
        ..Live::default()
    };
    let figures = inputs.measure(1).unwrap();
    assert!(figures.refused > 0, "{figures:?}");
    assert!(figures.served_by_fallback >= figures.refused, "{figures:?}");
    assert!(figures.served_by_fallback < figures.requests, "{figures:?}");
    assert_eq!(figures.failed, 0, "{figures:?}");
    // The failures that open the breaker and a probe per open time, with room for those under way.
    assert!(
        (5..100).contains(&figures.sends_during_outage),
        "{figures:?}"
    );
}

// ---------------------------------------------------------------------------------------------
// the command line

/// Exit code, stdout and stderr of the program with these arguments.
fn program(arguments: &str) -> (u8, String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let arguments = arguments.split_whitespace().map(str::to_owned);
    let code = outage::run(arguments, &mut out, &mut err).expect("memory takes it all");
    (
        code,
        String::from_utf8(out).expect("text"),
        String::from_utf8(err).expect("text"),
    )
}

fn keys(value: &Value) -> Vec<&str> {
    value
        .as_object()
        .expect("an object")
        .keys()
        .map(String::as_str)
        .collect()
}

const QUICK: &str = "--set amplification.precision=0.2 --set amplification.requests=500 \
     --set live.warm_up=0.1 --set live.outage=0.3 --set live.open_time=0.1";

#[test]
fn json_is_one_object_with_a_key_for_each_scenario_that_ran() {
    let (code, out, err) = program(&format!("--json --seed 9 {QUICK}"));
    assert_eq!((code, err.as_str()), (0, ""));
    let json: Value = serde_json::from_str(&out).unwrap();
    let scenarios = [
        "amplification",
        "ten_second_outage",
        "eval_jobs",
        "fixture",
        "live",
    ];
    assert_eq!(keys(&json)[0], "seed");
    assert_eq!(keys(&json)[1..], scenarios);
    assert_eq!(json["seed"], 9);
    let row = [
        "f",
        "retries",
        "expected",
        "measured",
        "nested_steadfast",
        "nested_max",
    ];
    for measured in json["amplification"].as_array().unwrap() {
        assert_eq!(keys(measured), row);
    }
    assert_eq!(
        keys(&json["ten_second_outage"]),
        [
            "no_breaker",
            "around_loop_sequential",
            "around_loop_concurrent",
            "per_attempt",
            "refusal_micros_real_time",
        ]
    );
    let eval_jobs = &json["eval_jobs"];
    assert_eq!(
        keys(eval_jobs),
        ["without", "with", "recovery_peak_per_second"]
    );
    for counts in [&eval_jobs["without"], &eval_jobs["with"]] {
        assert_eq!(
            keys(counts),
            ["failed_sends", "successes", "given_up", "refusals"]
        );
    }
    assert_eq!(
        keys(&eval_jobs["recovery_peak_per_second"]),
        ["lockstep", "jittered"]
    );
    assert_eq!(keys(&json["fixture"]), ["open_until_seconds", "probes"]);
    assert_eq!(
        keys(&json["live"]),
        [
            "sends_during_outage",
            "refused",
            "served_by_fallback",
            "slowest_refusal_micros",
            "recovered_after_ms",
        ]
    );
    assert!(!out.contains("null"), "{out}");
}

#[test]
fn one_scenario_alone_leaves_the_other_keys_out() {
    let (code, out, _) = program("--scenario fixture --json --set threshold=4");
    assert_eq!(code, 0);
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(keys(&json), ["seed", "fixture"]);
    assert_eq!(json["fixture"]["open_until_seconds"], 33.0);
}

#[test]
fn a_changed_input_changes_the_figure_and_takes_its_band_and_reference_away() {
    let (code, out, err) =
        program("--scenario=ten_second_outage --set=ten_second_outage.threshold=9");
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(!out.contains("3,890  "), "{out}");
    let line = out
        .lines()
        .find(|line| line.contains("before every attempt"))
        .unwrap();
    assert_eq!(
        line.split_whitespace().rev().take(2).collect::<Vec<_>>(),
        ["10", "-"]
    );
}

#[test]
fn tables_and_sentences_fit_a_hundred_columns() {
    let (_, out, _) = program(QUICK);
    assert!(out.contains("8,270"), "{out}");
    for line in out.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
    let (code, help, _) = program("--help");
    assert_eq!(code, 0);
    for line in help.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
    for key in [
        "park_jitter=1",
        "retries=3,3,3/2,3,3",
        "backoff=1,2",
        "open_time=0.4",
    ] {
        assert!(help.contains(key), "{key}: {help}");
    }
}

#[test]
fn what_makes_no_sense_is_refused_with_a_list_of_what_does() {
    for (arguments, complaints) in [
        (
            "--jsn",
            &[
                "unknown option --jsn",
                "--json",
                "--scenario",
                "--set",
                "--seed",
            ][..],
        ),
        ("fixture", &["unknown option fixture"]),
        ("--json=yes", &["unknown option --json=yes"]),
        ("--scenario", &["--scenario needs a value"]),
        (
            "--scenario nightfall",
            &["unknown scenario nightfall", "fixture", "eval_jobs", "live"],
        ),
        ("--seed many", &["--seed many", "whole number"]),
        ("--set threshold", &["--set threshold", "KEY=VALUE"]),
        (
            "--set threshold=3",
            &["ambiguous", "fixture.threshold", "eval_jobs.threshold"],
        ),
        (
            "--set thresh=3",
            &["unknown key thresh", "fixture.threshold", "amplification.f"],
        ),
        (
            "--scenario fixture --set rate=3",
            &["unknown key rate", "fixture.cooldown"],
        ),
        (
            "--set fixture.rate=3",
            &["unknown key fixture.rate", "live.rate"],
        ),
        (
            "--set fixture.threshold=0",
            &["fixture.threshold=0", "one or above"],
        ),
        (
            "--set cooldown=3 --scenario fixture --set threshold=x",
            &["fixture.threshold=x"],
        ),
        (
            "--set fixture.cooldown=0",
            &["fixture.cooldown=0", "above zero"],
        ),
        (
            "--set fixture.cooldown=0.0001",
            &["fixture.cooldown=0.0001", "milliseconds"],
        ),
        ("--set fixture.cooldown=-1", &["fixture.cooldown=-1"]),
        ("--set eval_jobs.rate=nan", &["eval_jobs.rate=nan"]),
        (
            "--set eval_jobs.rate=0",
            &["eval_jobs.rate=0", "above zero"],
        ),
        (
            "--set ten_second_outage.rate=1e9",
            &["ten_second_outage.rate=1000000000", "at most"],
        ),
        (
            "--set amplification.f=0.5,1.5",
            &["amplification.f=1.5", "at most 1"],
        ),
        (
            "--set amplification.retries=3,a",
            &["amplification.retries=3,a"],
        ),
        (
            "--set amplification.retries=99,99,99",
            &["amplification.retries=99,99,99"],
        ),
        (
            "--set amplification.precision=0",
            &["amplification.precision=0"],
        ),
        ("--set eval_jobs.backoff=1,,2", &["eval_jobs.backoff=1,,2"]),
    ] {
        let (code, out, err) = program(arguments);
        assert_eq!((code, out.as_str()), (2, ""), "{arguments}");
        for complaint in complaints {
            assert!(err.contains(complaint), "{arguments}: {err}");
        }
    }
}

#[test]
fn a_figure_outside_its_band_is_named() {
    assert_eq!(Band::new("a.b", 3.0, 2.0..=3.0).broken(), None);
    let broken = Band::new("a.b", 3.5, 2.0..=3.0).broken().unwrap();
    assert_eq!(broken, "a.b is 3.5, expected 2 to 3");
    assert_eq!(
        Band::exactly("a.b", 3.5, 2.0).broken().unwrap(),
        "a.b is 3.5, expected 2"
    );
    assert!(Band::new("a.b", f64::NAN, 0.0..=1.0).broken().is_some());
}
