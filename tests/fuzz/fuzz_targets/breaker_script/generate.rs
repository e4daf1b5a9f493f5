//! Settings and steps, read off the bytes one after another. Where they end, what
//! is left takes its simplest value.

use libfuzzer_sys::arbitrary::{Result, Unstructured};

use crate::breaker_model::MS;
use crate::breaker_model::reference::Told;
use crate::breaker_model::settings::{Settings, Window};
use crate::breaker_model::steps::{Calls, Change, Step, Wait};

const MOST_STEPS: usize = 100;
const DAY: u64 = 86_400_000 * MS;

pub fn case(data: &[u8]) -> Result<(Settings, Vec<Step>)> {
    let u = &mut Unstructured::new(data);
    let settings = settings(u)?;
    let mut steps = Vec::new();
    while steps.len() < MOST_STEPS && !u.is_empty() {
        steps.push(step(u)?);
    }
    Ok((settings, steps))
}

fn option<T>(
    u: &mut Unstructured<'_>,
    some: impl FnOnce(&mut Unstructured<'_>) -> Result<T>,
) -> Result<Option<T>> {
    let is_some = u.ratio(1, 2)?;
    is_some.then(|| some(u)).transpose()
}

/// From a millisecond to minutes. Few digits, so that times meet each other.
fn span(u: &mut Unstructured<'_>) -> Result<u64> {
    let digit: u64 = u.int_in_range(1..=9)?;
    Ok(digit * 10_u64.pow(u.int_in_range(0..=5)?) * MS)
}

fn settings(u: &mut Unstructured<'_>) -> Result<Settings> {
    let rules = u.int_in_range(0..=2)?;
    let consecutive = u.int_in_range(1..=5)?;
    let rate = u.int_in_range(1..=100)?;
    let (window, most) = match u.int_in_range(0..=6)? {
        0 => (Window::Time(10 * MS), 6),
        1 => (Window::Time(100 * MS), 6),
        2 => (Window::Time(1000 * MS), 6),
        3 => (Window::Time(10_000_007), 6),
        4 => (Window::Time(60_000 * MS), 6),
        _ => {
            let calls = u.int_in_range(1..=12)?;
            (Window::Count(calls), calls)
        }
    };
    let open_time = span(u)?;
    let probes = u.int_in_range(1..=3)?;
    Ok(Settings {
        consecutive: (rules != 1).then_some(consecutive),
        rate: (rules != 0).then_some(rate),
        window,
        min_calls: option(u, |u| u.int_in_range(1..=most.min(6)))?,
        last_failed: option(u, |u| u.int_in_range(1..=most.min(4)))?,
        slow: option(u, |u| Ok((span(u)?, u.int_in_range(1..=100)?)))?,
        open_time,
        growth: *u.choose(&[(1, 1), (2, 1), (3, 1), (3, 2)])?,
        max_open_time: open_time * u.int_in_range(1..=8)?,
        max_hint_open: span(u)?,
        probes,
        successes: u.int_in_range(1..=probes)?,
        lease: span(u)?,
        ramp: option(u, span)?.unwrap_or(0),
        ramp_from: f64::from(u.int_in_range(0_u8..=64)?) / 64.0,
        concurrency_limit: option(u, |u| u.int_in_range(1..=10))?,
    })
}

fn step(u: &mut Unstructured<'_>) -> Result<Step> {
    Ok(match u.int_in_range(0..=31)? {
        0..=5 => Step::Start,
        6..=10 => Step::Finish(index(u)?, told(u)?),
        11 | 12 => Step::Drop(index(u)?),
        13 => Step::Panic(index(u)?),
        14..=17 => Step::Calls(calls(u)?),
        18 => Step::Heal,
        19 => Step::Probe(calls(u)?),
        20 => Step::Slow(off(u)?, told(u)?),
        21..=26 => Step::Wait(wait(u)?),
        27 => Step::ForceOpen(u.choose(&["drill", "moving to another data centre"])?),
        28 => Step::Disable,
        29 => Step::Reset,
        30 => Step::Reconfigure(Change::Others(settings(u)?)),
        _ => Step::Reconfigure(match u.ratio(1, 4)? {
            true => Change::NoProbes,
            false => Change::All(settings(u)?),
        }),
    })
}

fn index(u: &mut Unstructured<'_>) -> Result<usize> {
    u.int_in_range(0..=255)
}

/// A nanosecond too early, just then, or a nanosecond too late.
fn off(u: &mut Unstructured<'_>) -> Result<i64> {
    u.int_in_range(-1..=1)
}

fn calls(u: &mut Unstructured<'_>) -> Result<Calls> {
    Ok(Calls {
        calls: u.int_in_range(1..=25)?,
        one_in: u.int_in_range(1..=12)?,
        told: told(u)?,
        rest: told(u)?,
    })
}

fn told(u: &mut Unstructured<'_>) -> Result<Told> {
    Ok(match u.int_in_range(0..=15)? {
        0..=4 => Told::Success,
        5..=10 => Told::Failure(None),
        11 | 12 => Told::Failure(Some(span(u)?)),
        13 | 14 => Told::Neutral,
        _ => Told::Nothing,
    })
}

fn wait(u: &mut Unstructured<'_>) -> Result<Wait> {
    Ok(match u.int_in_range(0..=7)? {
        0 => Wait::UntilOver(0, 0),
        1 | 2 => Wait::UntilOver(index(u)?, off(u)?),
        3 => Wait::UntilSlow(index(u)?, off(u)?),
        4 => Wait::Nanos(span(u)?),
        5 => Wait::Nanos(u.int_in_range(0..=1000 * MS)?),
        6 => Wait::Slots(match u.int_in_range(0..=13)? {
            // The counts of a slot carry so many bits of its number.
            rounds @ 12..=13 => (rounds - 11) * 5 * 65_536,
            slots => slots,
        }),
        _ => Wait::Nanos(u.int_in_range(0..=365)? * DAY),
    })
}
