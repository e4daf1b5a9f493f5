//! Runs one workload a given number of times, for an instruction counter to
//! look at: `steadfast-instructions WORKLOAD CALLS`.
//!
//! Two runs that differ only in `CALLS` differ in instructions by exactly what
//! the additional calls cost; start-up cancels out. The program itself counts
//! allocations, prints the size of the call's future, and with `keys CALLS` the
//! bytes that each of so many keyed breakers takes, and with `cycles CALLS` what a
//! breaker holds more of after so many openings.
//!
//! The call is polled again in place after `Pending`, not handed back to the
//! runtime: what is measured is the stack and its timer, not tokio's scheduler.

mod counting;
mod inner;

use std::future::{Future, poll_fn};
use std::hint::black_box;
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

use steadfast::{
    Backoff, Breaker, BreakerConfig, Breakers, Policy, RetryBudget, ServiceBuilderExt, Window,
};
use tower::{Service, ServiceBuilder};

use inner::Inner;

const WORKLOADS: &str =
    "bare, bare-pending, ready, ready-after-failure, pending, refused, size, keys, cycles";
/// Calls made before anything is counted: first-use allocations (thread
/// locals, the timer wheel) are not a cost per call.
const WARM_UP: u64 = 64;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let workload = arguments.next().unwrap_or_else(|| usage());
    let calls: u64 = match arguments.next().map(|n| n.parse()) {
        Some(Ok(calls)) => calls,
        None if workload == "size" => 0,
        _ => usage(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");

    match workload.as_str() {
        "bare" => runtime.block_on(repeat(Inner::ready(), calls)),
        "bare-pending" => runtime.block_on(repeat(Inner::pending_once(), calls)),
        "ready" => {
            let policy = policy();
            runtime.block_on(repeat(stack(&policy, Inner::ready()), calls));
        }
        "ready-after-failure" => {
            let policy = policy();
            runtime.block_on(async {
                fail(&policy, 1);
                repeat(stack(&policy, Inner::ready()), calls).await;
            });
        }
        "pending" => {
            let policy = policy();
            runtime.block_on(repeat(stack(&policy, Inner::pending_once()), calls));
        }
        "refused" => {
            let policy = policy();
            runtime.block_on(async {
                fail(&policy, 20);
                repeat(stack(&policy, Inner::out_of_reach()), calls).await;
            });
        }
        "keys" => print_bytes_per_key(calls),
        "cycles" => print_growth_over_cycles(calls),
        "size" => runtime.block_on(async { print_sizes(&policy()) }),
        _ => usage(),
    }
}

fn usage() -> ! {
    eprintln!("usage: steadfast-instructions WORKLOAD CALLS, with WORKLOAD one of {WORKLOADS}");
    std::process::exit(2);
}

/// Everything switched on. The open time outlasts any run under an emulator.
fn policy() -> Policy {
    let hour = Duration::from_secs(3600);
    Policy::builder("inventory")
        .deadline(Duration::from_secs(30))
        .attempt_timeout(Duration::from_secs(10))
        .max_attempts(3)
        .backoff(Backoff::full_jitter(
            Duration::from_millis(100),
            Duration::from_secs(20),
        ))
        .retry_budget(RetryBudget::ratio(0.1))
        .breaker(
            BreakerConfig::failure_rate(0.5)
                .window(Window::time(Duration::from_secs(10)))
                .min_calls(20)
                .open_time(hour)
                .max_open_time(hour),
        )
        .build()
        .expect("a valid policy")
}

fn stack(
    policy: &Policy,
    inner: Inner,
) -> impl Service<u64, Response = u64, Error = steadfast::Error> + Clone {
    ServiceBuilder::new()
        .resilience(policy.clone())
        .service(inner)
}

/// Tells the breaker of failures without a call: no backoff is slept.
fn fail(policy: &Policy, times: u32) {
    let breaker = policy.breaker().expect("the policy has a breaker");
    for _ in 0..times {
        breaker.admit().expect("closed so far").failure();
    }
}

async fn repeat<S: Service<u64>>(mut service: S, calls: u64) {
    let mut answered = 0_u64;
    let mut allocations = 0;
    // All calls within one poll of the runtime's: what is counted is the stack,
    // not the scheduler.
    poll_fn(|cx| {
        for request in 0..WARM_UP {
            call_once(&mut service, cx, request);
        }
        let before = counting::allocations();
        for request in 0..calls {
            answered += u64::from(call_once(&mut service, cx, black_box(request)));
        }
        allocations = counting::allocations() - before;
        Poll::Ready(())
    })
    .await;
    println!("calls {calls} answered {answered} allocations {allocations}");
}

/// Whether the call was answered.
#[inline(never)]
fn call_once<S: Service<u64>>(service: &mut S, cx: &mut Context<'_>, request: u64) -> bool {
    while service.poll_ready(cx).is_pending() {}
    let mut call = pin!(service.call(request));
    loop {
        // Looked at where it lies: a copy of it would cost as much as a stage.
        match &call.as_mut().poll(cx) {
            Poll::Ready(result) => return black_box(result).is_ok(),
            Poll::Pending => {}
        }
    }
}

/// What a key costs, its place in the registry included, by trip rule.
fn print_bytes_per_key(keys: u64) {
    let rate = BreakerConfig::failure_rate(0.5);
    for (rule, config) in [
        ("consecutive", BreakerConfig::consecutive(5)),
        ("count-of-20", rate.clone().window(Window::count(20))),
        ("count-of-100", rate.clone().window(Window::count(100))),
        ("time", rate.clone()),
        ("default", BreakerConfig::default()),
    ] {
        let most = usize::try_from(keys).expect("keys fit into memory");
        let idle = Duration::from_secs(600);
        let before = counting::held_bytes();
        let breakers = Breakers::bounded("keys", config, most, idle).expect("valid settings");
        for key in 0..keys {
            let permit = breakers.get(&key).admit().expect("closed");
            permit.success();
        }
        assert_eq!(breakers.len(), most);
        let held = counting::held_bytes() - before;
        println!("rule {rule} bytes {}", held / keys);
    }
}

/// What a breaker holds more of after so many openings and closings: nothing.
fn print_growth_over_cycles(cycles: u64) {
    let config = BreakerConfig::default()
        .open_time(Duration::from_nanos(1))
        .open_jitter(0.0)
        .growth(1.0)
        .no_ramp();
    let breaker = Breaker::new("cycles", config).expect("valid settings");
    let cycle = || {
        for _ in 0..5 {
            breaker.admit().expect("closed").failure();
        }
        // The open time is over by the next reading of the clock, or nearly.
        let probe = loop {
            if let Ok(permit) = breaker.admit() {
                break permit;
            }
        };
        probe.success();
    };
    cycle();
    let before = counting::held_bytes();
    for _ in 0..cycles {
        cycle();
    }
    println!("cycles {cycles} bytes {}", counting::held_bytes() - before);
}

fn print_sizes(policy: &Policy) {
    let bare = size_of_val(&Inner::ready().call(0));
    let stacked = size_of_val(&stack(policy, Inner::ready()).call(0));
    println!("inner {bare} call {stacked}");
}
