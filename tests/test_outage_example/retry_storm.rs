//! The storm against a plain queue with plain retries, and what follows from its inputs.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use super::outage::arrangement::Arrangement;
use super::outage::retry_storm::{RetryStorm, Storm};
use super::plain::{at_least_one, millis};

/// What the plain model knows of retries.
struct PlainRetries {
    attempts: u32,
    /// Tokens, for each client.
    balances: Option<Vec<f64>>,
    refilled: Vec<f64>,
}

impl PlainRetries {
    fn new(attempts: u32, budget: bool, clients: usize) -> Self {
        Self {
            attempts,
            balances: budget.then(|| vec![10.0; clients]),
            refilled: vec![0.0; clients],
        }
    }

    fn earns(&mut self, client: usize) {
        if let Some(balances) = &mut self.balances {
            balances[client] = (balances[client] + 0.1).min(10.0);
        }
    }

    /// A try after one without an answer costs two tokens; a tenth trickles in per second.
    fn pays(&mut self, client: usize, now: f64) -> bool {
        let Some(balances) = &mut self.balances else {
            return true;
        };
        let balance = &mut balances[client];
        let trickle = 0.1 * (now - self.refilled[client]);
        self.refilled[client] = now;
        *balance = balance.max((*balance + trickle).min(2.0));
        let enough = *balance >= 2.0;
        if enough {
            *balance -= 2.0;
        }
        enough
    }
}

/// The first second after the dip that recovered, counted from its end.
fn plain_storm(inputs: &RetryStorm, mut retries: PlainRetries) -> Option<f64> {
    let dip_begins = millis(inputs.dip_begins) as f64;
    let dip_ends = dip_begins + millis(inputs.dip_length) as f64;
    let length = dip_ends as u64 + millis(inputs.give_up);
    let clients = u64::from(inputs.clients.get());
    let timeout = millis(inputs.attempt_timeout) as f64;
    let turn = 1_000.0 / inputs.rate;
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut uniform = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 11) as f64 / (1_u64 << 53) as f64
    };
    // In microseconds, so that they can be sorted: when, what, who, since when, which attempt.
    let mut due = BinaryHeap::new();
    for client in 0..clients {
        for number in 0..(length as f64 / turn) as u64 {
            let arrival = ((number as f64 + uniform()) * turn * 1_000.0) as u64;
            due.push(Reverse((arrival, true, client, arrival, 0_u32)));
        }
    }
    let mut free = 0.0_f64;
    let mut seconds = vec![(0_u32, 0_u32); length as usize / 1_000 + 1];
    while let Some(Reverse((micros, sent, client, arrival, attempt))) = due.pop() {
        let now = micros as f64 / 1_000.0;
        let who = client as usize;
        let second = &mut seconds[arrival as usize / 1_000_000];
        if !sent {
            // An answer that came in time.
            second.1 += 1;
            retries.earns(who);
            continue;
        }
        second.0 += u32::from(attempt == 0);
        // Served a little at a time, at whatever speed the server has at that moment.
        let mut at = free.max(now);
        let mut left = 1.0;
        while left > 0.0 {
            let (speed, until) = if at < dip_begins {
                (inputs.capacity, dip_begins)
            } else if at < dip_ends {
                (inputs.capacity * inputs.dip_share, dip_ends)
            } else {
                (inputs.capacity, f64::INFINITY)
            };
            let needs = left * 1_000.0 / speed;
            let takes = needs.min(until - at);
            left = if needs > takes {
                left - takes * speed / 1_000.0
            } else {
                0.0
            };
            at += takes;
        }
        free = at;
        if at - now < timeout {
            due.push(Reverse(((at * 1_000.0) as u64, false, client, arrival, 0)));
        } else if attempt + 1 < retries.attempts && retries.pays(who, (now + timeout) / 1_000.0) {
            let wait = uniform() * 100.0 * f64::from(1 << attempt);
            let again = ((now + timeout + wait) * 1_000.0) as u64;
            due.push(Reverse((again, true, client, arrival, attempt + 1)));
        }
    }
    let recovered = (dip_ends as usize / 1_000..length as usize / 1_000)
        .find(|&second| f64::from(seconds[second].1) >= 0.97 * f64::from(seconds[second].0));
    let after = |second: usize| second as f64 - dip_ends / 1_000.0;
    recovered.map(after)
}

/// Fewer clients with the same share of a smaller server, so that several can be tried.
fn small() -> RetryStorm {
    RetryStorm {
        clients: at_least_one(25),
        rate: 4.0,
        capacity: 110.0,
        give_up: Duration::from_secs(120),
        ..RetryStorm::default()
    }
}

fn measured(inputs: &RetryStorm, arrangement: Arrangement) -> Storm {
    let storm = inputs.measure(arrangement, Duration::ZERO, 3);
    storm.expect("figures")
}

fn variants() -> [RetryStorm; 6] {
    [
        small(),
        RetryStorm {
            dip_length: Duration::from_secs(4),
            ..small()
        },
        RetryStorm {
            capacity: 130.0,
            ..small()
        },
        RetryStorm {
            dip_share: 0.0,
            ..small()
        },
        RetryStorm {
            attempt_timeout: Duration::from_millis(400),
            attempts: at_least_one(2),
            ..small()
        },
        RetryStorm {
            rate: 2.5,
            dip_begins: Duration::from_secs(2),
            ..small()
        },
    ]
}

/// How far ours may be from the plain model's: each has its own randomness.
fn near(ours: Option<f64>, plain: Option<f64>, inputs: &RetryStorm) {
    let near = match (ours, plain) {
        (Some(ours), Some(plain)) => (ours - plain).abs() <= 2.0 + 0.1 * plain,
        (ours, plain) => ours == plain,
    };
    assert!(near, "{ours:?}, plain {plain:?}: {inputs:?}");
}

#[test]
fn without_a_breaker_it_goes_as_in_a_plain_queue() {
    for inputs in variants() {
        for (arrangement, attempts, budget) in [
            (Arrangement::NoRetries, 1, false),
            (Arrangement::RetriesAlone, inputs.attempts.get(), false),
            (Arrangement::BudgetOnly, inputs.attempts.get(), true),
        ] {
            let clients = inputs.clients.get() as usize;
            let plain = PlainRetries::new(attempts, budget, clients);
            let recovered = plain_storm(&inputs, plain);
            near(
                measured(&inputs, arrangement).recovered_s,
                recovered,
                &inputs,
            );
        }
    }
}

#[test]
fn without_retries_the_queue_drains_at_the_rate_that_is_spare() {
    for inputs in variants() {
        let traffic = f64::from(inputs.clients.get()) * inputs.rate;
        let queue =
            (traffic - inputs.capacity * inputs.dip_share) * inputs.dip_length.as_secs_f64();
        let bearable = inputs.capacity * inputs.attempt_timeout.as_secs_f64();
        let drained = ((queue - bearable) / (inputs.capacity - traffic)).max(0.0);
        let ours = measured(&inputs, Arrangement::NoRetries).recovered_s;
        near(ours, Some(drained.ceil()), &inputs);
    }
}

#[test]
fn retries_alone_recover_once_the_server_can_bear_them_all() {
    let strong = RetryStorm {
        capacity: 350.0,
        dip_share: 0.1,
        ..small()
    };
    let recovered = |inputs| measured(inputs, Arrangement::RetriesAlone).recovered_s;
    assert!(recovered(&strong).is_some());
    assert_eq!(recovered(&small()), None);
}

#[test]
fn a_breaker_is_back_long_before_the_queue_would_have_drained() {
    for arrangement in [Arrangement::BreakerOnly, Arrangement::Steadfast] {
        let storm = measured(&small(), arrangement);
        let recovered = storm.recovered_s.expect("a recovery");
        assert!(recovered < 45.0, "{storm:?}");
        assert!(storm.attempts_per_request < 1.0, "{storm:?}");
    }
}

#[test]
fn a_dip_of_which_nobody_takes_notice_needs_no_recovery() {
    let inputs = RetryStorm {
        dip_share: 1.0,
        ..small()
    };
    for arrangement in Arrangement::ALL {
        let storm = measured(&inputs, arrangement);
        assert_eq!(storm.recovered_s, Some(0.0), "{arrangement:?}");
        let answered = |second: &super::outage::fleet::Second| second.answered_share() == 1.0;
        assert!(storm.course.seconds.iter().all(answered), "{arrangement:?}");
    }
}

#[test]
fn the_same_seed_sends_the_same_and_another_seed_something_else() {
    let sends = |seed| {
        let storm = small().measure(Arrangement::BudgetOnly, Duration::ZERO, seed);
        storm.expect("figures").sends
    };
    assert_eq!(sends(1), sends(1));
    assert_ne!(sends(1), sends(2));
}
