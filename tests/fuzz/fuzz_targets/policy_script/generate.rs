//! A policy and calls, read off the bytes one after another. Where they end, what
//! is left takes its simplest value.

use libfuzzer_sys::arbitrary::{Result, Unstructured};

use crate::model::arrange::{self, HOUR};
use crate::model::policy::*;
use crate::model::{DEADLINE_OFFSET, DROP_OFFSET, GRAIN, MOST_CALLS, Ms};

pub fn case(data: &[u8]) -> Result<(Policy, Vec<Call>)> {
    let u = &mut Unstructured::new(data);
    let (policy, calls) = if u.ratio(1, 4)? {
        let policy = Policy::of_a_breaker(breaker(u)?);
        let calls = phases(u, call_on_the_grain)?;
        (policy, arrange::on_the_grain(calls))
    } else {
        let policy = policy(u)?;
        let calls = phases(u, |u| call(u, policy.max_attempts))?;
        let calls = arrange::apart(&policy, calls);
        (policy, calls)
    };
    let calls = arrange::and_healthy_calls(&policy, calls);
    Ok((policy, calls))
}

fn grains(u: &mut Unstructured<'_>, from: Ms, to: Ms) -> Result<Ms> {
    Ok(u.int_in_range(from..=to)? * GRAIN)
}

fn option<T>(
    u: &mut Unstructured<'_>,
    some: impl FnOnce(&mut Unstructured<'_>) -> Result<T>,
) -> Result<Option<T>> {
    let is_some = u.ratio(1, 2)?;
    is_some.then(|| some(u)).transpose()
}

// ---- settings ----------------------------------------------------------------

fn policy(u: &mut Unstructured<'_>) -> Result<Policy> {
    let max_attempts = u.int_in_range(1..=5)?;
    let backoff = match u.int_in_range(0..=2)? {
        0 => Backoff::None,
        1 => Backoff::Fixed(grains(u, 1, 30)?),
        _ => {
            let base = grains(u, 1, 10)?;
            let cap = base * u.int_in_range(1..=20)?;
            let factor = u.int_in_range(1..=3)?;
            Backoff::Exponential { base, cap, factor }
        }
    };
    let deadline = option(u, |u| Ok(grains(u, 1, 150)? + DEADLINE_OFFSET))?;
    let attempt_timeout = option(u, |u| grains(u, 1, 40))?;
    let least = [
        1,
        0,
        DEADLINE_OFFSET,
        DEADLINE_OFFSET + GRAIN,
        DEADLINE_OFFSET + 9 * GRAIN,
    ];
    Ok(Policy {
        max_attempts,
        backoff,
        deadline,
        attempt_timeout,
        largest_hint: grains(u, 4, 300)?,
        min_useful: *u.choose(&least)?,
        budget: option(u, budget)?,
        breaker: option(u, breaker)?.map(|b| b.with_lease_for(attempt_timeout, deadline)),
    })
}

fn budget(u: &mut Unstructured<'_>) -> Result<Budget> {
    if u.ratio(1, 5)? {
        return Ok(Budget::Concurrent {
            percent: u.int_in_range(0..=100)?,
            min: u.int_in_range(1..=3)?,
        });
    }
    let ratio = match u.int_in_range(0..=16)? {
        16 => u.int_in_range(0..=1_500_000)?,
        tenths => tenths * (TOKEN / 10),
    };
    let cap = u.int_in_range(TOKEN..=12 * TOKEN)?;
    Ok(Budget::Ratio {
        ratio,
        cap,
        opening: cap / 100 * u.int_in_range(0..=100)?,
        // Thousands, so that every millisecond brings a whole number.
        refill: match u.int_in_range(0..=2)? {
            0 => Refill::Trickle(0),
            1 => Refill::Trickle(u.int_in_range(1..=2000)? * 1000),
            _ => Refill::Floor(u.int_in_range(1..=2000)? * 1000),
        },
    })
}

fn breaker(u: &mut Unstructured<'_>) -> Result<Breaker> {
    let rules = u.int_in_range(0..=2)?;
    let consecutive = u.int_in_range(1..=5)?;
    let open_time = grains(u, 1, 80)?;
    let probes = u.int_in_range(1..=3)?;
    Ok(Breaker {
        consecutive: (rules != 1).then_some(consecutive),
        rate: (rules != 0).then(|| rate(u)).transpose()?,
        open_time,
        growth: u.int_in_range(1..=2)?,
        max_open_time: open_time * u.int_in_range(1..=8)?,
        max_hint_open: *u.choose(&[0, 20 * GRAIN, 2000 * GRAIN])?,
        probes,
        successes: u.int_in_range(1..=probes)?,
        lease: grains(u, 1, 200)?,
        abandoned_after: option(u, |u| Ok(grains(u, 1, 40)? + DROP_OFFSET))?,
    })
}

fn rate(u: &mut Unstructured<'_>) -> Result<Rate> {
    let percent = u.int_in_range(1..=100)?;
    let (window, most) = if u.ratio(1, 2)? {
        let calls = u.int_in_range(1..=10)?;
        (Window::Count(calls), calls)
    } else {
        (Window::Time(10 * grains(u, 1, 10)?), 8)
    };
    Ok(Rate {
        percent,
        window,
        min_calls: u.int_in_range(1..=most)?,
        last_failed: option(u, |u| u.int_in_range(1..=most.min(5)))?,
    })
}

// ---- calls -------------------------------------------------------------------

/// Until the bytes end, the same call several times each: what counts failures
/// wants several.
fn phases(
    u: &mut Unstructured<'_>,
    call: impl Fn(&mut Unstructured<'_>) -> Result<Call>,
) -> Result<Vec<Call>> {
    let mut calls = Vec::new();
    while calls.len() < MOST_CALLS && !u.is_empty() {
        let times = u.int_in_range(1..=6)?;
        let call = call(u)?;
        calls.extend(std::iter::repeat_n(call, times));
    }
    calls.truncate(MOST_CALLS);
    Ok(calls)
}

fn call(u: &mut Unstructured<'_>, attempts: u32) -> Result<Call> {
    let gap = u.int_in_range(0..=81)?;
    let special: u8 = u.arbitrary()?;
    let is = |bit: u8| special & 1 << bit != 0;
    let script: Result<_> = (0..attempts).map(|_| attempt(u)).collect();
    Ok(Call {
        starts: if gap > 80 { HOUR } else { gap * GRAIN },
        idempotent: !(is(0) && is(1)),
        copyable: !(is(2) && is(3)),
        wish: match special >> 4 & 7 {
            6 => Some(Wish::NoRetries),
            7 => Some(Wish::NotIdempotent),
            _ => None,
        },
        script: script?,
        caller_has: match u.int_in_range(0..=255)? {
            0..=127 => None,
            128 => Some(0),
            n => Some((n - 129) / 2 * GRAIN + DEADLINE_OFFSET),
        },
        dropped_after: match u.int_in_range(0..=255)? {
            0..=127 => None,
            n => Some((n - 128) / 2 * GRAIN + DROP_OFFSET),
        },
    })
}

fn call_on_the_grain(u: &mut Unstructured<'_>) -> Result<Call> {
    let gap = grains(u, 1, 12)?;
    let patience = grains(u, 0, 90)? + DROP_OFFSET;
    let after = match u.int_in_range(0..=255)? {
        0..=191 => 0,
        n => (n - 192) * GRAIN + DEADLINE_OFFSET,
    };
    let class = class(u)?;
    let answers = Behaviour::Answers {
        after,
        class,
        as_error: true,
    };
    let hangs = u.ratio(1, 12)?;
    Ok(Call {
        starts: gap,
        idempotent: true,
        copyable: true,
        wish: None,
        caller_has: None,
        dropped_after: Some(patience),
        script: vec![Try {
            ready: Readiness::After(0),
            then: if hangs { Behaviour::Hangs } else { answers },
        }],
    })
}

fn attempt(u: &mut Unstructured<'_>) -> Result<Try> {
    let ready = match u.int_in_range(0..=63)? {
        0..=53 => Readiness::After(0),
        54..=59 => Readiness::After(grains(u, 1, 40)?),
        60 | 61 => Readiness::Fails(grains(u, 0, 2)?),
        _ => Readiness::Never,
    };
    let then = match u.int_in_range(0..=255)? {
        n @ 0..=239_u64 => Behaviour::Answers {
            after: n.saturating_sub(120) / 2 * GRAIN,
            class: class(u)?,
            as_error: n % 2 == 0,
        },
        _ => Behaviour::Hangs,
    };
    Ok(Try { ready, then })
}

fn class(u: &mut Unstructured<'_>) -> Result<Class> {
    Ok(match u.int_in_range(0..=11)? {
        0..=2 => Class::Success,
        3 => Class::Terminal,
        4 | 5 => Class::Transient,
        6 => Class::Unreachable,
        7 | 8 => Class::Ambiguous,
        9 => Class::Overloaded(hint(u)?),
        10 => Class::Throttled(hint(u)?),
        _ => Class::Blocked,
    })
}

fn hint(u: &mut Unstructured<'_>) -> Result<Option<Ms>> {
    option(u, |u| grains(u, 1, 400))
}
