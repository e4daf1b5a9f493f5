//! Options, keys, JSON, tables and exit codes.

use serde_json::Value;
use tower::BoxError;

use super::outage;
use super::outage::cli::{Chosen, Options};
use super::outage::inputs::Input;
use super::outage::report::{Band, Report, Table};
use super::outage::scenario::Scenario;

/// Exit code, stdout and stderr of the program with these arguments.
fn program(arguments: &str) -> (u8, String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    // The user's own picture is not to be replaced by one of a test.
    let out_of_the_way = ["--out", env!("CARGO_TARGET_TMPDIR")];
    let arguments = out_of_the_way
        .into_iter()
        .chain(arguments.split_whitespace());
    let arguments = arguments.map(str::to_owned);
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
     --set load_feedback.clients=99 --set load_feedback.full=120 --set load_feedback.give_up=40 \
     --set retry_storm.clients=20 --set retry_storm.capacity=110 --set retry_storm.give_up=100 \
     --set live.warm_up=0.1 --set live.outage=0.3 --set live.open_time=0.1 \
     --set latency.requests=300 --set slots.calls=1000 --set slots.watched=10 --set blips.days=0.05";

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
        "latency",
        "slots",
        "blips",
        "jitter",
        "load_feedback",
        "retry_storm",
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
        ["without", "with", "deferred", "recovery_peak_per_second"]
    );
    assert_eq!(
        keys(&eval_jobs["deferred"]),
        [
            "failed_sends",
            "successes",
            "given_up",
            "peak_per_second",
            "last_done_s",
        ]
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
        keys(&json["latency"]),
        [
            "healthy_p99_s",
            "retry_only_p50_s",
            "retry_only_p99_s",
            "full_path_share",
            "full_path_share_correlated",
            "sends_after_caller_left",
            "steadfast_p50_s",
            "steadfast_p99_s",
            "steadfast_sends_after_caller_left",
            "availability",
            "served_by_secondary",
        ]
    );
    assert_eq!(
        keys(&json["slots"]),
        [
            "healthy_per_s",
            "outage_per_s",
            "unrelated_refused",
            "steadfast_per_s",
            "steadfast_unrelated_refused",
        ]
    );
    assert_eq!(
        keys(&json["blips"]),
        ["raw_error_rate", "user_error_rate", "breaker_opened"]
    );
    let kinds = json["jitter"].as_array().unwrap().iter().map(|row| {
        assert_eq!(keys(row), ["kind", "peak_per_10ms", "mean_completion_ms"]);
        row["kind"].as_str().unwrap()
    });
    assert_eq!(kinds.collect::<Vec<_>>(), ["none", "±10 %", "full"]);
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
    assert_eq!(
        keys(&json["load_feedback"]),
        ["retries_alone_s", "budget_s", "breaker_s", "steadfast_s"]
    );
    assert_eq!(
        keys(&json["retry_storm"]),
        [
            "no_retries_s",
            "retries_alone_s",
            "budget_only_s",
            "breaker_only_s",
            "steadfast_s",
            "steadfast_attempts_per_request",
        ]
    );
    // Only what never happened is null.
    assert_eq!(out.matches("null").count(), 2, "{out}");
    for scenario in ["load_feedback", "retry_storm"] {
        assert!(json[scenario]["retries_alone_s"].is_null(), "{out}");
    }
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
        "open_time=0.35",
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
        ("--set live.rate=5000", &["live.rate=5000", "10 to 1000"]),
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
        (
            "--set latency.rejects=1.2",
            &["latency.rejects=1.2", "at most 1"],
        ),
        (
            "--set slots.watched=86400",
            &["slots.watched=86400", "500000 calls"],
        ),
        (
            "--set blips.rate=1000",
            &["blips.rate=1000", "5000000 requests"],
        ),
        (
            "--set jitter.cap=0.01",
            &["jitter.cap=0.01", "below backoff"],
        ),
        (
            "--set jitter.clients=100000 --set jitter.capacity=1",
            &["jitter.capacity=1", "10000000 attempts"],
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

/// A scenario with one figure, which is no longer what it was, or with none.
struct Astray {
    comes_to_figures: bool,
}

impl Scenario for Astray {
    fn name(&self) -> &'static str {
        "astray"
    }

    fn summary(&self) -> &'static str {
        "a figure that has moved"
    }

    fn inputs(&mut self) -> Vec<Input<'_>> {
        Vec::new()
    }

    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    fn run(&self, _seed: u64) -> Result<Report, BoxError> {
        if !self.comes_to_figures {
            return Err("the ground is wet".into());
        }
        Ok(Report {
            table: Table::new(["figure"]).render(),
            charts: Vec::new(),
            meaning: String::from("It has moved."),
            json: Value::from(7),
            bands: vec![Band::exactly("astray.figure", 7.0, 6.0)],
        })
    }
}

/// Exit code, stdout and stderr of a run of [`Astray`].
fn astray(comes_to_figures: bool, as_published: bool) -> (u8, String, String) {
    let chosen = Chosen {
        scenario: Box::new(Astray { comes_to_figures }),
        as_published,
    };
    let options = Options {
        scenarios: vec![chosen],
        seed: 1,
        json: true,
        html: false,
        directory: env!("CARGO_TARGET_TMPDIR").into(),
    };
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = outage::tell(options, &mut out, &mut err).expect("memory takes it all");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (code, text(out), text(err))
}

#[test]
fn a_figure_that_leaves_its_band_ends_the_program_with_one() {
    let (code, out, err) = astray(true, true);
    assert_eq!(code, 1);
    assert_eq!(out, "{\"seed\":1,\"astray\":7}\n");
    assert_eq!(err, "astray.figure is 7, expected 6\n");
    let (code, _, err) = astray(true, false);
    assert_eq!((code, err.as_str()), (0, ""));
}

#[test]
fn a_scenario_without_figures_is_named_and_has_no_key() {
    let (code, out, err) = astray(false, false);
    assert_eq!(code, 1);
    assert_eq!(out, "{\"seed\":1}\n");
    assert_eq!(err, "astray came to no figures: the ground is wet\n");
}
