use std::time::UNIX_EPOCH;

use http::{HeaderName, HeaderValue};
use proptest::prelude::*;

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

/// Values near to what is read, and all kinds of bytes.
fn any_value() -> impl Strategy<Value = Vec<u8>> {
    let bytes = prop::collection::vec(any::<u8>(), 0..40);
    let near = "[+-]?[0-9]{1,25}([.][0-9]{0,10})?|true|false|\
        (Sun|Sunday|Mon), ?[0-9]{2}[ -](Nov|Feb)[ -]([0-9]{2}){1,2} [0-9]{2}:00:00 GMT|\
        Sun Nov [ 0-9][0-9] 12:00:00 [0-9]{4}";
    prop_oneof![bytes, near.prop_map(String::into_bytes)]
}

fn any_headers() -> impl Strategy<Value = HeaderMap> {
    let names = prop::sample::select(vec![
        "retry-after",
        "date",
        "retry-after-ms",
        "x-ms-retry-after-ms",
        "x-should-retry",
        "grpc-retry-pushback-ms",
    ]);
    prop::collection::vec((names, any_value()), 0..6).prop_map(|lines| {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            if let Ok(value) = HeaderValue::from_bytes(&value) {
                headers.append(name, value);
            }
        }
        headers
    })
}

/// Up to a few ten thousand years from the epoch, either way.
fn any_present() -> impl Strategy<Value = SystemTime> {
    (any::<bool>(), 0..1_u64 << 40).prop_map(|(before, seconds)| {
        let away = Duration::from_secs(seconds);
        if before {
            UNIX_EPOCH - away
        } else {
            UNIX_EPOCH + away
        }
    })
}

proptest! {
    #[test]
    fn whatever_is_said_more_lines_never_shorten_the_wait(
        mut headers in any_headers(),
        now in any_present(),
    ) {
        let hints = Hints::read(&headers, now);
        headers.append(RETRY_AFTER, HeaderValue::from_static("7"));
        headers.append("x-should-retry", HeaderValue::from_static("false"));
        let more = Hints::read(&headers, now);
        prop_assert!(more.wait().is_some() && more.wait() >= hints.wait());
        prop_assert_eq!(more.again(), Some(false));
    }

    #[test]
    fn a_number_of_seconds_is_never_read_as_less(digits in "[0-9]{1,38}") {
        let number: u128 = digits.parse().unwrap();
        let seconds = u64::try_from(number).unwrap_or(u64::MAX);
        let expected = Some(Duration::from_secs(seconds));
        prop_assert_eq!(read(&[("retry-after", &digits)]).wait(), expected);
    }

    #[test]
    fn a_date_is_read_to_the_second(
        seconds in 0..253_402_300_800_u64,
        sent in 0..253_402_300_800_u64,
    ) {
        let [date, sent] = [seconds, sent].map(|at| UNIX_EPOCH + Duration::from_secs(at));
        let text = httpdate::fmt_http_date(date);
        let wait = date.duration_since(present()).unwrap_or_default();
        prop_assert_eq!(read(&[("retry-after", &text)]).wait(), Some(wait));
        let by_its_clock = [("retry-after", &*text), ("date", &httpdate::fmt_http_date(sent))];
        let wait = date.duration_since(sent).unwrap_or_default();
        prop_assert_eq!(read(&by_its_clock).wait(), Some(wait));
    }
}
