//! Calls of one thread, and what must have become of them.

use std::ops::Range;
use std::task::{Context, Poll};

use tokio::runtime::Runtime;

use crate::calls::{self, Batch};
use crate::contender::{Contender, Refusable};
use crate::inner::{Script, answer};
use crate::settings::FAILURES_PER_SUCCESS;
use crate::subject::{Measure, Measured};

/// Calls before anything is measured: enough for first-use allocations and to
/// fill a window of a hundred calls.
const WARM_UP: u64 = 256;

#[derive(Clone, Copy)]
pub enum Expected {
    /// Every call is answered by the service, `pending` at the first poll.
    Answers { pending: bool },
    /// Every call is refused, and none reaches the service.
    Refusals { script: &'static Script },
    /// Every call is answered, and calls the service twice.
    Retries { script: &'static Script },
    /// Every call reaches the service, and but for a few all fail.
    Failures { script: &'static Script },
}

impl Expected {
    /// Calls of the service so far, where they are counted.
    fn reached(self) -> u64 {
        match self {
            Self::Refusals { script } | Self::Retries { script } | Self::Failures { script } => {
                script.calls()
            }
            Self::Answers { .. } => 0,
        }
    }
}

pub struct Single<'r, C> {
    runtime: &'r Runtime,
    contender: C,
    expected: Expected,
}

impl<'r, C: Contender> Single<'r, C> {
    pub fn new(runtime: &'r Runtime, contender: C, expected: Expected) -> Self {
        Self {
            runtime,
            contender,
            expected,
        }
    }
}

impl<C: Contender> Measured for Single<'_, C> {
    fn prepare(&mut self) -> Result<(), String> {
        let Self {
            runtime,
            contender,
            expected,
        } = self;
        calls::within(runtime, |cx| {
            match expected {
                Expected::Answers { pending } => {
                    if calls::first_poll(contender, cx, 0).is_pending() != *pending {
                        return Err(format!("pending at the first poll is not {pending}"));
                    }
                }
                Expected::Refusals { .. } => {
                    trip(contender, cx)?;
                }
                Expected::Retries { .. } | Expected::Failures { .. } => {}
            }
            for request in 0..WARM_UP {
                expect(*expected, request, &calls::once(contender, cx, request))?;
            }
            Ok(())
        })
    }

    fn measure(&mut self, calls: u64) -> Result<Measure, String> {
        let Self {
            runtime,
            contender,
            expected,
        } = self;
        if let Expected::Failures { script } = expected {
            // Begins with a success: a time window may have run empty meanwhile.
            script.restart();
        }
        let before = expected.reached();
        let (batch, after, last) = calls::within(runtime, |cx| {
            let batch = calls::batch(contender, cx, calls);
            (batch, expected.reached(), calls::once(contender, cx, 0))
        });
        // A breaker that had opened or closed underway would show here.
        expect(*expected, 0, &last)?;
        hold(*expected, &batch, before..after)?;
        Ok(Measure {
            batch,
            one_thread: None,
        })
    }

    fn future_bytes(&mut self) -> usize {
        let _entered = self.runtime.enter();
        calls::future_bytes(&mut self.contender)
    }
}

/// Fails calls until one is refused; the number of calls it took. Each is given
/// up at its first wait, so that no backoff is slept.
pub fn trip<C: Contender>(contender: &mut C, cx: &mut Context<'_>) -> Result<u64, String> {
    // More than any of the breakers needs.
    const MOST: u64 = 1000;
    for call in 0..MOST {
        match calls::first_poll(contender, cx, call) {
            Poll::Ready(Err(error)) if error.is_refusal() => return Ok(call),
            Poll::Ready(Ok(_)) => return Err("a call of a failing service was answered".to_owned()),
            _ => {}
        }
    }
    Err(format!("{MOST} failing calls did not open the breaker"))
}

fn expect<E: Refusable>(
    expected: Expected,
    request: u64,
    result: &Result<u64, E>,
) -> Result<(), String> {
    let may_answer = !matches!(expected, Expected::Refusals { .. });
    match (expected, result) {
        (_, Ok(answered)) if may_answer && *answered == answer(request) => Ok(()),
        (Expected::Refusals { .. }, Err(error)) if error.is_refusal() => Ok(()),
        (Expected::Failures { .. }, Err(error)) if !error.is_refusal() => Ok(()),
        (_, Ok(answered)) => Err(format!("request {request} was answered with {answered}")),
        (_, Err(error)) if error.is_refusal() => Err(format!("request {request} was refused")),
        (_, Err(_)) => Err(format!("request {request} failed")),
    }
}

/// `reached` are the numbers of the service's calls.
fn hold(expected: Expected, batch: &Batch, reached: Range<u64>) -> Result<(), String> {
    let calls = batch.calls;
    let (answered, due) = match expected {
        Expected::Answers { .. } => (calls, 0),
        Expected::Retries { .. } => (calls, 2 * calls),
        Expected::Refusals { .. } => (0, 0),
        Expected::Failures { .. } => {
            let successes_before = |call: u64| call.div_ceil(FAILURES_PER_SUCCESS);
            let successes = successes_before(reached.end) - successes_before(reached.start);
            (successes, calls)
        }
    };
    if batch.answered != answered {
        let got = batch.answered;
        return Err(format!(
            "{got} of {calls} calls were answered, not {answered}"
        ));
    }
    let reached = reached.end - reached.start;
    if reached != due {
        return Err(format!(
            "{calls} calls called the service {reached} times, not {due}"
        ));
    }
    Ok(())
}
