use std::time::UNIX_EPOCH;

use http::{HeaderName, HeaderValue};

use super::*;

/// Sun 29 Nov 2026 12:00:00 UTC.
fn present() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_795_953_600)
}

fn read(lines: &[(&str, &str)]) -> Hints {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
        headers.append(name, value);
    }
    Hints::read(&headers, present())
}

/// The wait in milliseconds.
fn wait(lines: &[(&str, &str)]) -> Option<u128> {
    read(lines).wait().map(|wait| wait.as_millis())
}

#[test]
fn a05_seconds_are_digits_and_nothing_else() {
    for (value, seconds) in [
        ("120", Some(120)),
        ("00005", Some(5)),
        (" 7 ", Some(7)),
        ("\t7", Some(7)),
        ("0", Some(0)),
        ("121", Some(121)),
        ("18446744073709551615", Some(u64::MAX)),
        ("99999999999999999999", Some(u64::MAX)),
        ("+120", None),
        ("-1", None),
        ("1.5", None),
        ("NaN", None),
        ("inf", None),
        ("1e3", None),
        ("0x10", None),
        ("", None),
        ("5, 10", None),
    ] {
        let expected = seconds.map(Duration::from_secs);
        assert_eq!(
            read(&[("retry-after", value)]).wait(),
            expected,
            "{value:?}"
        );
    }
    let mut headers = HeaderMap::new();
    headers.insert(RETRY_AFTER, HeaderValue::from_bytes(b"\xff\xfe").unwrap());
    assert_eq!(Hints::read(&headers, present()), Hints::default());
}

#[test]
fn a05_dates_are_read_in_all_three_forms() {
    const DAY: u64 = 86_400;
    for (value, seconds) in [
        ("Sun, 29 Nov 2026 12:00:30 GMT", Some(30)),
        ("Sunday, 29-Nov-26 12:00:30 GMT", Some(30)),
        ("Sun Nov 29 12:00:30 2026", Some(30)),
        ("Tue Dec  1 12:00:00 2026", Some(2 * DAY)),
        ("Sun, 06 Nov 1994 08:49:37 GMT", Some(0)),
        ("Sunday, 06-Nov-94 08:49:37 GMT", Some(0)),
        ("Friday, 29-Nov-75 12:00:30 GMT", Some(17_897 * DAY + 30)),
        ("Fri, 31 Dec 9999 23:59:59 GMT", Some(251_606_347_199)),
        ("Mon, 29 Nov 2026 12:00:30 GMT", None),
        ("Sun, 31 Feb 2026 12:00:00 GMT", None),
        ("Sun, 29 Nov 2026 12:00:30 +0000", None),
    ] {
        let expected = seconds.map(Duration::from_secs);
        assert_eq!(
            read(&[("retry-after", value)]).wait(),
            expected,
            "{value:?}"
        );
    }
}

#[test]
fn a05_of_two_lines_the_longer_wait_counts() {
    for lines in [["5", "10"], ["10", "5"]] {
        let lines = lines.map(|value| ("retry-after", value));
        assert_eq!(wait(&lines), Some(10_000));
    }
    assert_eq!(
        wait(&[("retry-after", "soon"), ("retry-after", "5")]),
        Some(5000)
    );
    assert_eq!(
        wait(&[("retry-after-ms", "7"), ("retry-after-ms", "9.5")]),
        Some(9)
    );
}

#[test]
fn a_date_is_measured_by_the_clock_that_wrote_it() {
    let at = ("retry-after", "Sun, 29 Nov 2026 12:00:30 GMT");
    // The server's clock is an hour late, then ten minutes early.
    assert_eq!(
        wait(&[("date", "Sun, 29 Nov 2026 11:00:30 GMT"), at]),
        Some(3_600_000)
    );
    assert_eq!(
        wait(&[("date", "Sun, 29 Nov 2026 12:10:00 GMT"), at]),
        Some(0)
    );
    assert_eq!(
        wait(&[("date", "Sunday, 29-Nov-26 12:00:20 GMT"), at]),
        Some(10_000)
    );
    assert_eq!(wait(&[("date", "today"), at]), Some(30_000));
    // Seconds need no clock.
    let late = ("date", "Sun, 29 Nov 2026 11:00:00 GMT");
    assert_eq!(wait(&[late, ("retry-after", "5")]), Some(5000));
}

#[test]
fn a_clock_before_its_epoch_or_after_the_calendar_harms_nothing() {
    let mut headers = HeaderMap::new();
    let date = HeaderValue::from_static("Sunday, 06-Nov-94 08:49:37 GMT");
    headers.insert(RETRY_AFTER, date);
    let before = UNIX_EPOCH - Duration::from_secs(1_000_000);
    let long = Hints::read(&headers, before).wait().unwrap();
    assert!(long > Duration::from_secs(24 * 365 * 86_400), "{long:?}");
    let after = UNIX_EPOCH + Duration::from_secs(300_000_000_000);
    assert_eq!(Hints::read(&headers, after), Hints::default());
}

#[test]
fn milliseconds_are_more_precise_than_seconds() {
    let seconds = ("retry-after", "2");
    let azure = ("x-ms-retry-after-ms", "1800");
    let openai = ("retry-after-ms", "1500.5");
    let grpc = ("grpc-retry-pushback-ms", "1200");
    assert_eq!(wait(&[seconds]), Some(2000));
    assert_eq!(wait(&[seconds, azure]), Some(1800));
    assert_eq!(wait(&[seconds, azure, openai]), Some(1500));
    assert_eq!(wait(&[seconds, azure, openai, grpc]), Some(1200));
}

#[test]
fn what_cannot_be_read_leaves_the_word_to_the_next() {
    let seconds = ("retry-after", "2");
    for value in ["", "-5", "NaN", "1e3", "inf", "12ms", "."] {
        assert_eq!(wait(&[seconds, ("retry-after-ms", value)]), Some(2000));
        assert_eq!(wait(&[seconds, ("x-ms-retry-after-ms", value)]), Some(2000));
    }
}

#[test]
fn a_pushback_is_a_wait_or_forbids() {
    let hints = read(&[("grpc-retry-pushback-ms", "0")]);
    assert_eq!((hints.wait(), hints.again()), (Some(Duration::ZERO), None));
    let hints = read(&[("grpc-retry-pushback-ms", "2147483647")]);
    assert_eq!(hints.wait(), Some(Duration::from_millis(2_147_483_647)));
    for value in [
        "-1",
        "",
        "+5",
        "1.5",
        "soon",
        "2147483648",
        "99999999999999999999",
    ] {
        let hints = read(&[
            ("grpc-retry-pushback-ms", value),
            ("x-should-retry", "true"),
        ]);
        assert_eq!(
            (hints.wait(), hints.again()),
            (None, Some(false)),
            "{value:?}"
        );
    }
    let twice = read(&[("grpc-retry-pushback-ms", "5"); 2]);
    assert_eq!((twice.wait(), twice.again()), (None, Some(false)));
    // Forbidden, and still good to know for whoever comes later.
    let hints = read(&[("grpc-retry-pushback-ms", "-1"), ("retry-after", "5")]);
    assert_eq!(hints.wait(), Some(Duration::from_secs(5)));
}

#[test]
fn whoever_forbids_a_further_try_wins() {
    let again = |values: &[&str]| {
        let lines: Vec<_> = values
            .iter()
            .map(|value| ("x-should-retry", *value))
            .collect();
        read(&lines).again()
    };
    assert_eq!(again(&[]), None);
    assert_eq!(again(&["true"]), Some(true));
    assert_eq!(again(&[" False "]), Some(false));
    assert_eq!(again(&["no"]), None);
    assert_eq!(again(&["no", "true"]), Some(true));
    assert_eq!(again(&["true", "false"]), Some(false));
    assert_eq!(again(&["false", "true"]), Some(false));
}
