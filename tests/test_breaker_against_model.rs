//! Random settings and random events at the public `Breaker`, in paused time,
//! against the slow reference breaker in `breaker_model/`.
//!
//! `PROPTEST_CASES` sets the number of cases.

mod breaker_model;
#[path = "breaker_model/generate.rs"]
mod generate;

use std::cell::RefCell;

use proptest::test_runner::{Config, FileFailurePersistence, TestCaseError, TestRunner};

use breaker_model::drive::{Seen, play};
use generate::case;

const CASES: u32 = 1024;
const REGRESSIONS: &str = "tests/test_breaker_against_model.regressions";

/// What so many cases must have come across, or the comparison proves little.
const WANTED: [&str; 15] = [
    "Closed",
    "Open",
    "HalfOpen",
    "Recovering",
    "ForcedOpen",
    "Disabled",
    "admitted",
    "open",
    "half_open",
    "recovering",
    "forced_open",
    "concurrency_limit",
    "reconfigured",
    "not reconfigured",
    "several failed recoveries",
];

#[test]
fn the_breaker_does_what_the_reference_says() {
    let mut config = Config {
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(REGRESSIONS))),
        ..Config::default()
    };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = CASES;
    }
    let cases = config.cases;
    let seen = RefCell::new(Seen::new());
    let mut runner = TestRunner::new(config);
    let result = runner.run(&case(), |(settings, steps)| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()?;
        let played = runtime.block_on(play(settings, steps, &mut seen.borrow_mut()));
        played.map_err(TestCaseError::fail)
    });
    if let Err(error) = result {
        panic!("{error}\n{runner}");
    }
    println!("{cases} cases: {:?}", seen.borrow());
    if cases >= CASES {
        for wanted in WANTED {
            assert!(seen.borrow().contains_key(wanted), "never seen: {wanted}");
        }
    }
}
