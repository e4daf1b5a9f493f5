//! That a contender is what it is said to be, apart from any measuring.

use tokio::runtime::Runtime;

use crate::calls;
use crate::contender::{Contender, Refusable};
use crate::inner::{Inner, Script, answer};
use crate::peers::Peer;
use crate::settings::Rule;
use crate::single::trip;

pub fn holds<P: Peer>(runtime: &Runtime) -> Result<(), String> {
    if !P::IS_CHECKED {
        return Ok(());
    }
    let script = Script::new(|call| call == 0);
    if let Some(stack) = P::stack(Inner::scripted(script)) {
        retries(runtime, stack, script).map_err(|problem| format!("its stack: {problem}"))?;
    }
    let script = Script::new(|_| true);
    if let Some(stack) = P::refusing(Inner::scripted(script)) {
        trips(runtime, stack, script).map_err(|problem| format!("its stack: {problem}"))?;
    }
    let script = Script::new(|_| true);
    if let Some(breaker) = P::breaker(Inner::scripted(script), Rule::Half) {
        trips(runtime, breaker, script).map_err(|problem| format!("its breaker: {problem}"))?;
    }
    Ok(())
}

/// With the usual settings, hence after a real wait.
fn retries<C: Contender>(runtime: &Runtime, mut stack: C, script: &Script) -> Result<(), String> {
    calls::within(runtime, |cx| stack.ready(cx));
    let result = runtime.block_on(stack.call(7));
    let reached = script.calls();
    if reached != 2 {
        return Err(format!(
            "a call that fails once called the service {reached} times, not 2"
        ));
    }
    match result {
        Ok(answered) if answered == answer(7) => Ok(()),
        Ok(answered) => Err(format!("a retried call of 7 was answered with {answered}")),
        Err(_) => Err("a call that fails once was not answered after its retry".to_owned()),
    }
}

fn trips<C: Contender>(runtime: &Runtime, mut contender: C, script: &Script) -> Result<(), String> {
    calls::within(runtime, |cx| {
        if trip(&mut contender, cx)? == 0 {
            return Err("it refused the first call".to_owned());
        }
        let reached = script.calls();
        let refused = match calls::once(&mut contender, cx, 0) {
            Err(error) => error.is_refusal(),
            Ok(_) => false,
        };
        if !refused {
            return Err("it let a call through right after it opened".to_owned());
        }
        if script.calls() != reached {
            return Err("it called the service while open".to_owned());
        }
        Ok(())
    })
}
