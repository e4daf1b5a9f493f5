//! The breaker alone, through its handle: one admission and its outcome, by
//! trip rule and size of the window.

mod support;

use std::time::Duration;

use criterion::Criterion;
use steadfast::{Breaker, BreakerConfig};

use support::rules::{CONSECUTIVE, ONE_SUCCESS_IN, TIME, count, outcome};

fn main() {
    support::run(&[outcomes, refused]);
}

fn outcomes(c: &mut Criterion) {
    for (name, is_failure) in [
        ("breaker/success", none as fn(u64) -> bool),
        ("breaker/success, 0.1 % failures", one_in_a_thousand),
        ("breaker/failure", nearly_all),
    ] {
        let mut group = c.benchmark_group(name);
        for (rule, config) in rules() {
            let breaker = Breaker::new("alone", config).expect("valid settings");
            let mut number = 0;
            group.bench_function(rule, |b| {
                b.iter(|| {
                    number += 1;
                    assert!(outcome(&breaker, is_failure(number)));
                });
            });
        }
    }
}

fn refused(c: &mut Criterion) {
    let breaker = Breaker::new("alone", CONSECUTIVE.open_time(Duration::from_secs(3600)));
    let breaker = breaker.expect("valid settings");
    while outcome(&breaker, true) {}
    c.bench_function("breaker/refused", |b| {
        b.iter(|| assert!(breaker.admit().is_err()));
    });
}

fn rules() -> [(&'static str, BreakerConfig); 7] {
    [
        ("consecutive", CONSECUTIVE),
        ("count of 20", count(20)),
        ("count of 100", count(100)),
        ("count of 1,000", count(1000)),
        ("time", TIME),
        ("time, or the last", TIME.last_failed(ONE_SUCCESS_IN as u32)),
        (
            "time, or slow",
            TIME.slow_calls(Duration::from_secs(1), 1.0),
        ),
    ]
}

fn none(_: u64) -> bool {
    false
}

fn one_in_a_thousand(number: u64) -> bool {
    number % 1000 == 0
}

fn nearly_all(number: u64) -> bool {
    number % ONE_SUCCESS_IN != 0
}
