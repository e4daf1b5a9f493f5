//! What a healthy week's failures come to, against plain products.

use std::time::Duration;

use super::outage::blips::Blips;
use super::plain::{at_least_one, is_near};

#[test]
fn what_a_user_sees_failed_twice() {
    for (blips, second, attempts, seed) in [
        (0.004_1, 0.97, 3, 1),
        (0.02, 0.5, 2, 2),
        (0.01, 0.97, 4, 3),
        (0.05, 1.0, 2, 4),
        (0.003, 0.5, 4, 5),
    ] {
        let inputs = Blips {
            days: 0.3,
            blips,
            second,
            attempts: at_least_one(attempts),
            ..Blips::default()
        };
        let figures = inputs.measure(seed).unwrap();
        assert_eq!(figures.requests, 25_920);
        assert!(
            is_near(figures.raw_error_rate(), blips, figures.requests),
            "{figures:?}"
        );
        let twice = blips * (1.0 - second);
        assert!(
            is_near(figures.user_error_rate(), twice, figures.requests),
            "{figures:?} {twice}"
        );
        assert_eq!(figures.breaker_opened, 0, "{figures:?}");
    }
}

/// The default breaker opens when the last five attempts all failed. Three attempts of one request
/// are not five; five are, when no other request succeeds between them.
#[test]
fn a_request_that_may_fail_five_times_opens_the_breaker_alone() {
    let opened = |attempts| {
        let inputs = Blips {
            days: 0.3,
            blips: 0.001,
            second: 0.0,
            attempts: at_least_one(attempts),
            ..Blips::default()
        };
        inputs.measure(7).unwrap().breaker_opened
    };
    assert_eq!(opened(3), 0);
    assert!(opened(6) > 0);
}

#[test]
fn without_retries_users_see_every_blip() {
    let inputs = Blips {
        days: 0.3,
        attempts: at_least_one(1),
        ..Blips::default()
    };
    let figures = inputs.measure(1).unwrap();
    assert!(figures.raw_errors > 0);
    assert_eq!(figures.user_errors, figures.raw_errors);
}

/// Every opening of the default breaker is counted, and none twice: 5 s, doubled to 60 s, each up to
/// a quarter longer, and then the next arrival is the probe.
#[test]
fn a_day_without_any_success_opens_the_breaker_as_often_as_its_open_times_fit() {
    let inputs = Blips {
        days: 0.5,
        blips: 1.0,
        second: 0.0,
        ..Blips::default()
    };
    let opened = inputs.measure(1).unwrap().breaker_opened;
    let longest = |open: f64| open * 1.25 + 1.0 / inputs.rate;
    let fits = |lasts: &dyn Fn(f64) -> f64| {
        let (mut now, mut open, mut count) = (0.0, 5.0, 0_u64);
        while now < inputs.days * 86_400.0 {
            now += lasts(open);
            open = f64::min(open * 2.0, 60.0);
            count += 1;
        }
        count
    };
    let (least, most) = (fits(&longest), fits(&|open| open));
    assert!(
        (least - 1..=most).contains(&opened),
        "{opened}, expected {least} to {most}"
    );
}

#[test]
fn faster_traffic_overlaps_and_is_counted_all_the_same() {
    let inputs = Blips {
        days: Duration::from_secs(120).as_secs_f64() / 86_400.0,
        rate: 200.0,
        blips: 0.02,
        second: 0.5,
        ..Blips::default()
    };
    let figures = inputs.measure(6).unwrap();
    assert!(figures.requests.abs_diff(24_000) <= 1, "{figures:?}");
    let (raw, user) = (figures.raw_error_rate(), figures.user_error_rate());
    assert!(is_near(raw, 0.02, figures.requests), "{figures:?}");
    assert!(is_near(user, 0.01, figures.requests), "{figures:?}");
}
