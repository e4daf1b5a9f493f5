//! Every metric that is recorded stands in the documented table, with its
//! kind, its unit and its labels; every line of the table is recorded; and the
//! numbers are those of what happened.

#![cfg(all(feature = "metrics", feature = "keyed"))]
#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps in vain should fail"
)]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use metrics::Unit;
use metrics_util::MetricKind;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use steadfast::telemetry::Metrics;
use steadfast::{Backoff, BreakerConfig, Breakers, Error, ServiceBuilderExt, fallback};
use support::*;
use tokio_test::{assert_pending, task};
use tower::{Service, ServiceBuilder, ServiceExt};

const TABLE: &str = include_str!("../src/telemetry/metrics/table.md");
const LABELS: &str = include_str!("../src/telemetry/metrics/labels.md");

/// A line of the table.
struct Documented {
    kind: MetricKind,
    unit: Unit,
    labels: BTreeSet<&'static str>,
}

/// The texts between backquotes.
fn quoted(cell: &'static str) -> impl Iterator<Item = &'static str> {
    cell.split('`').skip(1).step_by(2)
}

fn documented() -> BTreeMap<&'static str, Documented> {
    let rows = TABLE.lines().filter(|row| row.starts_with("| `"));
    let rows = rows.map(|row| {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let kind = match cells[2] {
            "counter" => MetricKind::Counter,
            "gauge" => MetricKind::Gauge,
            "histogram" => MetricKind::Histogram,
            other => panic!("no kind: {other}"),
        };
        let unit = match cells[3] {
            "seconds" => Unit::Seconds,
            _ => Unit::Count,
        };
        let labels = quoted(cells[4]).collect();
        let name = quoted(cells[1]).next().unwrap();
        (name, Documented { kind, unit, labels })
    });
    rows.collect()
}

/// The documented values of a label; none where they are names or numbers.
fn values(label: &str, of: &str) -> BTreeSet<&'static str> {
    let about = match of {
        "steadfast_retries_total" => "`reason` of retries",
        "steadfast_retry_denials_total" => "`reason` of denials",
        "steadfast_breaker_refusals_total" => "`reason` of refusals",
        _ => "",
    };
    let mut rows = LABELS.lines().map(|row| row.split('|').map(str::trim));
    let values = rows.find_map(|mut cells| {
        let name = cells.nth(1)?;
        let is_it = name == about || name == format!("`{label}`");
        (is_it && (label == "reason") == (name == about)).then(|| cells.next().unwrap())
    });
    quoted(values.unwrap_or_else(|| panic!("no line for `{label}` of {of}"))).collect()
}

/// A value by name and labels, all but `dependency`.
type Seen = BTreeMap<(String, Vec<(String, String)>), (Option<Unit>, MetricKind, DebugValue)>;

fn seen(snapshotter: &Snapshotter) -> Seen {
    let all = snapshotter.snapshot().into_vec().into_iter();
    let all = all.map(|(key, unit, _, value)| {
        let (kind, key) = key.into_parts();
        let (name, labels) = key.into_parts();
        let labels = labels.iter().map(|label| {
            let (label, value) = (label.key(), label.value());
            (label.to_owned(), value.to_owned())
        });
        let mut labels: Vec<_> = labels.collect();
        labels.sort();
        ((name.as_str().to_owned(), labels), (unit, kind, value))
    });
    all.collect()
}

/// The sum of a metric's series that have these labels among theirs.
fn sum(seen: &Seen, name: &str, labels: &[(&str, &str)]) -> f64 {
    let has = |key: &[(String, String)]| {
        let mut all = labels.iter();
        all.all(|(k, v)| key.iter().any(|(label, value)| label == k && value == v))
    };
    let matching = seen
        .iter()
        .filter(|((known, key), _)| known == name && has(key));
    let values: Vec<f64> = matching
        .map(|(_, (.., value))| match value {
            DebugValue::Counter(count) => *count as f64,
            DebugValue::Gauge(value) => value.0,
            DebugValue::Histogram(values) => values.iter().map(|value| value.0).sum(),
        })
        .collect();
    assert!(!values.is_empty(), "no {name} with {labels:?}");
    values.iter().sum()
}

/// All that is recorded to this recorder.
fn recorded(names_keys: bool) -> (Arc<Metrics>, Snapshotter, impl Drop) {
    let recorder: &'static DebuggingRecorder = Box::leak(Box::default());
    let guard = metrics::set_default_local_recorder(recorder);
    let metrics = Metrics::new();
    let metrics = if names_keys {
        metrics.with_keys()
    } else {
        metrics
    };
    (Arc::new(metrics), recorder.snapshotter(), guard)
}

/// A bit of everything: successes, retries, refusals, fallbacks, drops.
async fn live(metrics: &Arc<Metrics>) {
    let config = plain(BreakerConfig::consecutive(2));
    let hosts = Breakers::<Text>::new("hosts", config)
        .unwrap()
        .naming_keys(|host| (*host).to_owned());
    let policy = named("inventory")
        .deadline(secs(30.0))
        .max_attempts(2)
        .backoff(Backoff::fixed(secs(1.0)))
        .retry_budget(budget(5.0))
        .breakers(hosts, |host: &Text| host)
        .observer(metrics.clone())
        .build()
        .unwrap();
    let inner = Inner::script([Step::Ok, Step::Err, Step::Ok, Step::Hang], Step::Err);
    let fails = |_: &Error| async { Err::<Text, _>(Fault("too")) };
    let client = ServiceBuilder::new()
        .fallback(fallback::with(fails).or(fallback::value("cached")))
        .resilience(policy)
        .service(inner);
    // A success, and one at the second attempt.
    for _ in 0..2 {
        assert_eq!(client.clone().oneshot("a").await.unwrap(), "ok");
    }
    let mut dropped = task::spawn(client.clone().oneshot("a"));
    assert_pending!(dropped.poll());
    drop(dropped);
    // Two failures, which open the breaker of `a`; then three refusals.
    for _ in 0..4 {
        assert_eq!(client.clone().oneshot("a").await.unwrap(), "cached");
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_is_recorded_stands_in_the_table_and_the_other_way_round() {
    let (metrics, snapshotter, _guard) = recorded(true);
    live(&metrics).await;
    let documented = documented();
    let mut missing: BTreeMap<_, _> = documented
        .iter()
        .map(|(name, row)| (*name, row.labels.clone()))
        .collect();
    for ((name, labels), (unit, kind, _)) in seen(&snapshotter) {
        let row = documented.get(&*name);
        let row = row.unwrap_or_else(|| panic!("{name} is not in the table"));
        assert_eq!(kind, row.kind, "kind of {name}");
        assert_eq!(unit, Some(row.unit), "unit of {name}");
        for (label, value) in &labels {
            assert!(row.labels.contains(&**label), "{name}: label {label}");
            if !matches!(&**label, "dependency" | "entry" | "key") {
                let known = values(label, &name);
                assert!(known.contains(&**value), "{name}: {label}={value}");
            }
            let missing = missing.get_mut(&*name).unwrap();
            missing.remove(&**label);
        }
        assert!(
            labels.iter().any(|(label, _)| label == "dependency"),
            "{name} of whom?"
        );
    }
    missing.retain(|name, labels| {
        let never = !seen_names(&snapshotter, name);
        never || !labels.is_empty()
    });
    assert!(
        missing.is_empty(),
        "not recorded, or without label: {missing:?}"
    );
}

fn seen_names(snapshotter: &Snapshotter, name: &str) -> bool {
    seen(snapshotter).keys().any(|(known, _)| known == name)
}

#[tokio::test(start_paused = true)]
async fn every_documented_value_of_a_label_is_a_series_from_the_start() {
    let (metrics, snapshotter, _guard) = recorded(false);
    let policy = named("inventory").breaker(bk()).observer(metrics);
    let _policy = policy.build().unwrap();
    let seen = seen(&snapshotter);
    for (name, label) in [
        ("steadfast_calls_total", "outcome"),
        ("steadfast_attempts_total", "verdict"),
        ("steadfast_retries_total", "reason"),
        ("steadfast_retry_denials_total", "reason"),
        ("steadfast_breaker_refusals_total", "reason"),
        ("steadfast_breaker_transitions_total", "state"),
    ] {
        for value in values(label, name) {
            assert_eq!(sum(&seen, name, &[(label, value)]), 0.0, "{name} {value}");
        }
    }
    assert_eq!(
        sum(&seen, "steadfast_breakers", &[("state", "closed")]),
        1.0
    );
    assert_eq!(sum(&seen, "steadfast_breakers", &[("state", "open")]), 0.0);
    assert!(seen.len() < 60, "{} series per policy", seen.len());
}

#[tokio::test(start_paused = true)]
async fn the_numbers_are_those_of_what_happened() {
    let (metrics, snapshotter, _guard) = recorded(false);
    live(&metrics).await;
    let seen = seen(&snapshotter);
    let of = |name: &str, labels: &[(&str, &str)]| sum(&seen, name, labels);

    let calls = |outcome| of("steadfast_calls_total", &[("outcome", outcome)]);
    assert_eq!(calls("success"), 2.0);
    assert_eq!(calls("dropped"), 1.0);
    // Both failures of the first call open it: its retry is not made.
    assert_eq!(calls("failed"), 1.0);
    assert_eq!(calls("refused"), 3.0);
    assert_eq!(of("steadfast_calls_total", &[]), 7.0);

    let attempts = |verdict| of("steadfast_attempts_total", &[("verdict", verdict)]);
    assert_eq!(attempts("success"), 2.0);
    assert_eq!(attempts("dropped"), 1.0);
    assert_eq!(attempts("transient"), 3.0);
    assert_eq!(of("steadfast_call_attempts", &[]), 6.0);

    let transient = &[("reason", "transient")];
    assert_eq!(of("steadfast_retries_total", transient), 2.0);
    assert_eq!(of("steadfast_backoff_seconds", &[]), 2.0);
    let exhausted = &[("reason", "attempts_exhausted")];
    assert_eq!(of("steadfast_retry_denials_total", exhausted), 1.0);
    assert_eq!(of("steadfast_retry_denials_total", &[]), 1.0);
    assert_eq!(of("steadfast_retry_budget_balance", &[]), 3.0);
    assert_eq!(of("steadfast_deadline_left_seconds", &[]), 7.0 * 30.0);

    let entry = |entry, result| {
        let labels = [("entry", entry), ("result", result)];
        of("steadfast_fallbacks_total", &labels)
    };
    assert_eq!(entry("0", "failed"), 4.0);
    assert_eq!(entry("1", "served"), 4.0);

    let hosts = ("dependency", "hosts");
    let open = of(
        "steadfast_breaker_refusals_total",
        &[hosts, ("reason", "open")],
    );
    assert_eq!(open, 3.0);
    let opened = of(
        "steadfast_breaker_transitions_total",
        &[hosts, ("state", "open")],
    );
    assert_eq!(opened, 1.0);
}

#[tokio::test(start_paused = true)]
async fn breakers_are_counted_by_state_and_the_sum_is_their_number() {
    let (metrics, snapshotter, _guard) = recorded(false);
    let config = plain(BreakerConfig::consecutive(1));
    let hosts: Breakers<u32> = Breakers::bounded("hosts", config, 20, secs(60.0)).unwrap();
    hosts.observe(metrics);
    // The recorder starts anew with each look at it.
    let mut totals = BTreeMap::new();
    let mut count = || {
        let seen = seen(&snapshotter);
        for state in ["closed", "open", "forced_open", "disabled"] {
            let change = sum(&seen, "steadfast_breakers", &[("state", state)]);
            *totals.entry(state).or_insert(0.0) += change;
        }
        totals.clone()
    };
    // The overflow breaker is one too.
    for host in 0..50 {
        let permit = hosts.get(&host).admit().unwrap();
        if host % 10 == 0 {
            permit.failure();
        }
    }
    let now = count();
    assert_eq!((now["open"], now["closed"]), (5.0, 16.0));
    hosts.get(&0).reset();
    hosts.get(&10).disable();
    hosts.get(&20).force_open("maintenance");
    let now = count();
    assert_eq!((now["open"], now["closed"]), (2.0, 17.0));
    assert_eq!((now["disabled"], now["forced_open"]), (1.0, 1.0));
    drop(hosts);
    assert!(count().values().all(|count| *count == 0.0));
}

#[tokio::test(start_paused = true)]
async fn keys_are_no_label_unless_asked_for() {
    for (wanted, expected) in [(false, false), (true, true)] {
        let (metrics, snapshotter, _guard) = recorded(wanted);
        live(&metrics).await;
        let keyed = |((_, labels), _): &(&(String, Vec<(String, String)>), _)| {
            labels
                .iter()
                .any(|(label, value)| label == "key" && value == "a")
        };
        assert_eq!(
            seen(&snapshotter).iter().any(|entry| keyed(&entry)),
            expected
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_breaker_of_a_named_key_is_counted_in_the_state_that_it_is_in() {
    let (metrics, snapshotter, _guard) = recorded(true);
    let hosts = Breakers::<Text>::new("hosts", plain(BreakerConfig::consecutive(1)))
        .unwrap()
        .naming_keys(|host| (*host).to_owned());
    let policy = named("inventory")
        .breakers(hosts.clone(), |host: &Text| host)
        .observer(metrics);
    let _policy = policy.build().unwrap();
    hosts.get(&"a").admit().unwrap().failure();
    let seen = seen(&snapshotter);
    for (state, count) in [("closed", 0.0), ("open", 1.0)] {
        let labels = [("key", "a"), ("state", state)];
        assert_eq!(sum(&seen, "steadfast_breakers", &labels), count, "{state}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_policy_without_the_observer_records_nothing() {
    let (_metrics, snapshotter, _guard) = recorded(false);
    let policy = named("unmeasured").breaker(bk()).build().unwrap();
    let mut client = stack(&policy, &Inner::always(Step::Ok));
    assert!(client.call("x").await.is_ok());
    assert!(seen(&snapshotter).is_empty());
}

#[tokio::test(start_paused = true)]
async fn parked_calls_are_counted_until_they_are_over_or_dropped() {
    let (metrics, snapshotter, _guard) = recorded(false);
    let policy = named("jobs")
        .breaker(plain(BreakerConfig::consecutive(1)))
        .observer(metrics)
        .build()
        .unwrap();
    let client = ServiceBuilder::new()
        .deferring_resilience(policy.clone(), steadfast::defer::DeferLayer::new())
        .service(Inner::always(Step::Ok));
    policy.breaker().unwrap().admit().unwrap().failure();
    let mut calls: Vec<_> = (0..3)
        .map(|_| task::spawn(Box::pin(client.clone().oneshot("job"))))
        .collect();
    for call in &mut calls {
        assert_pending!(call.poll());
    }
    // A snapshot takes what it shows: each is the change since the last.
    let change = || sum(&seen(&snapshotter), "steadfast_parked_calls", &[]);
    assert_eq!(change(), 3.0);
    drop(calls.pop());
    assert_eq!(change(), -1.0);
    policy.breaker().unwrap().reset();
    for call in calls {
        call.into_inner().await.unwrap();
    }
    assert_eq!(change(), -2.0);
}
