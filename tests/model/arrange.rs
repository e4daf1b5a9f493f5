//! Puts calls where no two events meet at one instant, see the module above.

use super::policy::{Behaviour, Call, Class, Policy, Readiness, Try};
use super::run::run;
use super::{DROP_OFFSET, GRAIN, Ms};

pub const HOUR: Ms = 3_600_000;

/// Enough to fill every window that is generated, to trip what a success can
/// still trip, and to close that again.
pub const HEALTHY_CALLS: usize = 16;

/// Calls whose start is the gap to the one before, each moved to an offset of its
/// own.
pub fn apart(policy: &Policy, mut calls: Vec<Call>) -> Vec<Call> {
    let mut starts = 0;
    for (index, call) in calls.iter_mut().enumerate() {
        starts += call.starts;
        call.starts = starts + index as Ms;
        avoid_ties(policy, call);
    }
    calls
}

/// Calls whose start is the gap to the one before, all on the grain. Answers and
/// drops that come later have their offsets.
pub fn on_the_grain(mut calls: Vec<Call>) -> Vec<Call> {
    let mut now = 0;
    for (index, call) in calls.iter_mut().enumerate() {
        now += call.starts;
        call.starts = now;
        // No two of them end later at one instant.
        let own = index as Ms;
        call.dropped_after = call.dropped_after.map(|after| after + own);
        if let Behaviour::Answers {
            after: after @ 1.., ..
        } = &mut call.script[0].then
        {
            *after += own;
        }
    }
    calls
}

/// The calls, and when all of them are over a few that succeed at once, each so
/// late that every time of the breaker's has passed: they must find it closed.
pub fn and_healthy_calls(policy: &Policy, mut calls: Vec<Call>) -> Vec<Call> {
    let pause = policy.breaker.as_ref().map_or(GRAIN, |breaker| {
        breaker.max_open_time + breaker.max_hint_open + breaker.lease + GRAIN
    });
    let mut starts = run(policy, &calls)
        .iter()
        .map(|call| call.ended_at)
        .max()
        .unwrap_or(0);
    for _ in 0..HEALTHY_CALLS {
        starts += pause;
        calls.push(Call {
            starts,
            idempotent: true,
            copyable: true,
            wish: None,
            caller_has: None,
            dropped_after: None,
            script: vec![Try {
                ready: Readiness::After(0),
                then: Behaviour::Answers {
                    after: 0,
                    class: Class::Success,
                    as_error: false,
                },
            }],
        });
    }
    calls
}

fn avoid_ties(policy: &Policy, call: &mut Call) {
    let timeout = policy.attempt_timeout;
    for Try { ready, then } in &mut call.script {
        let mut waited = 0;
        if let Readiness::After(wait) | Readiness::Fails(wait) = ready {
            *wait += if Some(*wait) == timeout { GRAIN } else { 0 };
            waited = *wait;
        }
        if let Behaviour::Answers { after, .. } = then {
            let tie = Some(waited + *after) == timeout;
            *after += if tie { GRAIN } else { 0 };
        }
    }
    let endless = policy.deadline.is_none() && policy.attempt_timeout.is_none();
    if endless && call.caller_has.is_none() {
        call.dropped_after = call.dropped_after.or(Some(2 * HOUR + DROP_OFFSET));
    }
}
