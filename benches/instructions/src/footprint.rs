//! What is held, in bytes: by a call, by a key, and by a breaker that has been
//! open often.

use std::time::Duration;

use steadfast::{Breaker, BreakerConfig, Breakers, Window};
use tower::Service;

use crate::counting;
use crate::inner::Inner;
use crate::policy::{policy, stack};

pub fn print_sizes() {
    let bare = size_of_val(&Inner::ready().call(0));
    let stacked = size_of_val(&stack(&policy(), Inner::ready()).call(0));
    println!("inner {bare} call {stacked}");
}

/// What a key costs, its place in the registry included, by trip rule.
pub fn print_bytes_per_key(keys: u64) {
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
pub fn print_growth_over_cycles(cycles: u64) {
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
