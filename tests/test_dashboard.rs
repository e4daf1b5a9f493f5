//! The dashboard and the guide ask only for what is recorded: names, labels and
//! label values of the documented table.

#![cfg(feature = "serde")]
#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps in vain should fail"
)]

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

const TABLE: &str = include_str!("../src/telemetry/metrics/table.md");
const LABELS: &str = include_str!("../src/telemetry/metrics/labels.md");
const GUIDE: &str = include_str!("../src/guide/what_to_alert_on.md");
const DASHBOARD: &str = include_str!("../examples/gateway/dashboard.json");

struct Row {
    is_histogram: bool,
    labels: BTreeSet<&'static str>,
}

fn quoted(cell: &'static str) -> impl Iterator<Item = &'static str> {
    cell.split('`').skip(1).step_by(2)
}

fn table() -> BTreeMap<&'static str, Row> {
    let rows = TABLE.lines().filter(|row| row.starts_with("| `"));
    let rows = rows.map(|row| {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let row = Row {
            is_histogram: cells[2] == "histogram",
            labels: quoted(cells[4]).collect(),
        };
        (quoted(cells[1]).next().unwrap(), row)
    });
    rows.collect()
}

/// All values that any label may have.
fn values() -> BTreeSet<&'static str> {
    let cells = LABELS.lines().filter_map(|row| row.split('|').nth(2));
    cells.flat_map(quoted).collect()
}

/// The names in a text that begin as ours do, each with what follows it.
fn names(text: &str) -> Vec<(&str, &str)> {
    let begins = text.match_indices("steadfast_").map(|(at, _)| at);
    let found = begins.map(|at| {
        let rest = &text[at..];
        let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
        rest.split_at(rest.find(|c| !is_name(c)).unwrap_or(rest.len()))
    });
    found.collect()
}

/// The table's name behind a name in a query: histograms have three.
fn recorded<'a>(name: &'a str, table: &BTreeMap<&str, Row>) -> &'a str {
    let parts = ["_bucket", "_sum", "_count"];
    let base = parts.iter().find_map(|part| name.strip_suffix(part));
    match base {
        Some(base) if table.get(base).is_some_and(|row| row.is_histogram) => base,
        _ => name,
    }
}

/// Asserts that each selector of these queries can select something.
fn check(text: &str) -> BTreeSet<String> {
    let (table, values) = (table(), values());
    let mut seen = BTreeSet::new();
    for (name, rest) in names(text) {
        let name = recorded(name, &table);
        let row = table.get(name);
        let row = row.unwrap_or_else(|| panic!("{name} is not recorded"));
        seen.insert(name.to_owned());
        let Some(selector) = rest.strip_prefix('{') else {
            continue;
        };
        let selector = selector.split('}').next().unwrap();
        for condition in selector.split(',') {
            let at = condition.find(['=', '!']).unwrap();
            let (label, value) = condition.split_at(at);
            assert!(row.labels.contains(label.trim()), "{name}: {condition}");
            let value = value.trim_start_matches(['=', '!', '~']).trim_matches('"');
            for value in value.split('|').filter(|value| !value.starts_with('$')) {
                let is_number = value.parse::<u32>().is_ok();
                assert!(is_number || values.contains(value), "{name}: {condition}");
            }
        }
    }
    seen
}

fn dashboard() -> Value {
    serde_json::from_str(DASHBOARD).unwrap()
}

fn queries(dashboard: &Value) -> Vec<&str> {
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    targets
        .map(|target| target["expr"].as_str().unwrap())
        .collect()
}

#[test]
fn the_dashboard_asks_for_what_is_recorded_and_for_all_of_it() {
    let dashboard = dashboard();
    let queries = queries(&dashboard);
    assert!(!queries.is_empty());
    let seen = check(&queries.join("\n"));
    let all: BTreeSet<String> = table().into_keys().map(str::to_owned).collect();
    assert_eq!(seen, all);
}

#[test]
fn queries_group_by_labels_that_are_there() {
    let labels: BTreeSet<_> = table().into_values().flat_map(|row| row.labels).collect();
    let dashboard = dashboard();
    let mut groups = 0;
    for text in queries(&dashboard).into_iter().chain([GUIDE]) {
        for (at, _) in text.match_indices("by (") {
            let group = text[at + 4..].split(')').next().unwrap();
            for label in group.split(',').map(str::trim) {
                groups += 1;
                assert!(label == "le" || labels.contains(label), "by ({group})");
            }
        }
    }
    assert!(groups > 20);
}

#[test]
fn the_variable_lists_the_dependencies_of_what_is_recorded() {
    let dashboard = dashboard();
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let dependency = variables.iter().find(|one| one["name"] == "dependency");
    let query = dependency.unwrap()["query"]["query"].as_str().unwrap();
    let seen = check(query);
    assert!(seen.contains("steadfast_calls_total") && seen.contains("steadfast_breakers"));
}

#[test]
fn panels_neither_overlap_nor_leave_the_grid() {
    let dashboard = dashboard();
    let panels = dashboard["panels"].as_array().unwrap();
    let place = |panel: &Value| {
        let number = |name: &str| panel["gridPos"][name].as_u64().unwrap();
        (number("x"), number("y"), number("w"), number("h"))
    };
    for (i, one) in panels.iter().enumerate() {
        let (x, y, w, h) = place(one);
        assert!(x + w <= 24, "{}", one["title"]);
        for other in &panels[i + 1..] {
            let (x2, y2, w2, h2) = place(other);
            let apart = x + w <= x2 || x2 + w2 <= x || y + h <= y2 || y2 + h2 <= y;
            assert!(apart, "{} and {}", one["title"], other["title"]);
        }
    }
}

#[test]
fn the_guide_speaks_of_what_is_recorded() {
    let seen = check(GUIDE);
    assert!(seen.len() > 6, "{seen:?}");
}
