//! What a breaker per key takes in memory, its place in the registry included.

use std::collections::HashMap;
use std::time::Duration;

use layered::Service as _;
use steadfast::{BreakerConfig, Breakers, Window};
use tokio::runtime::Runtime;

use crate::calls;
use crate::counting::Counts;
use crate::peers::{failsafe_breaker, recloser_breaker, seatbelt_per_key};
use crate::settings::{MIN_CALLS, Rule, WINDOW};

pub struct PerKey {
    pub contender: &'static str,
    pub bytes: u64,
}

/// Each of so many keys has its breaker, which has heard of a success.
///
/// failsafe and recloser have no registry: theirs is the standard library's map
/// without a lock, a bound or a way to forget a key.
pub fn bytes_per_key(keys: u64, runtime: &Runtime) -> Result<Vec<PerKey>, String> {
    let rate = BreakerConfig::failure_rate(0.5).min_calls(MIN_CALLS);
    let measured = [
        (
            "steadfast, consecutive failures",
            registry(keys, BreakerConfig::consecutive(5))?,
        ),
        (
            "steadfast, the last 100 calls",
            registry(keys, rate.clone().window(Window::count(100)))?,
        ),
        (
            "steadfast, time window",
            registry(keys, rate.window(Window::time(WINDOW)))?,
        ),
        ("seatbelt, time window", seatbelt(keys, runtime)?),
        (
            "failsafe in a HashMap, consecutive failures",
            map(
                keys,
                || failsafe_breaker(Rule::Half),
                |breaker| failsafe::CircuitBreaker::call(breaker, || Ok::<_, ()>(())).is_ok(),
            )?,
        ),
        (
            "recloser in a HashMap, the last 100 calls",
            map(
                keys,
                || recloser_breaker(Rule::Half),
                |breaker| breaker.call(|| Ok::<_, ()>(())).is_ok(),
            )?,
        ),
    ];
    Ok(measured
        .into_iter()
        .map(|(contender, held)| PerKey {
            contender,
            bytes: held / keys,
        })
        .collect())
}

fn registry(keys: u64, config: BreakerConfig) -> Result<u64, String> {
    let most = usize::try_from(keys).map_err(|error| error.to_string())?;
    let before = Counts::now();
    let breakers = Breakers::bounded("keys", config, most, Duration::from_secs(600))
        .map_err(|error| error.to_string())?;
    for key in 0..keys {
        let permit = breakers.get(&key).admit();
        permit.map_err(|error| error.to_string())?.success();
    }
    let held = Counts::now().held_since(before);
    if breakers.len() as u64 == keys && breakers.overflowed() == 0 {
        Ok(held)
    } else {
        let kept = breakers.len();
        Err(format!("the registry kept {kept} of {keys} keys"))
    }
}

fn seatbelt(keys: u64, runtime: &Runtime) -> Result<u64, String> {
    let _entered = runtime.enter();
    let before = Counts::now();
    let service = seatbelt_per_key();
    for key in 0..keys {
        let answered = calls::within(runtime, |cx| std::pin::pin!(service.execute(key)).poll(cx));
        if answered != std::task::Poll::Ready(Ok(crate::inner::answer(key))) {
            return Err(format!("seatbelt did not answer for key {key}"));
        }
    }
    Ok(Counts::now().held_since(before))
}

fn map<B>(keys: u64, new: impl Fn() -> B, succeed: impl Fn(&B) -> bool) -> Result<u64, String> {
    let before = Counts::now();
    let mut breakers = HashMap::new();
    for key in 0..keys {
        if !succeed(breakers.entry(key).or_insert_with(&new)) {
            return Err(format!("the breaker of key {key} refused"));
        }
    }
    let held = Counts::now().held_since(before);
    Ok(held)
}
