//! Load that feeds on itself against a plain search for the load at which it stays.

use std::time::Duration;

use super::outage::arrangement::Arrangement;
use super::outage::load_feedback::LoadFeedback;
use super::plain::at_least_one;

/// Fewer clients with a dependency that is as much smaller.
fn small() -> LoadFeedback {
    LoadFeedback {
        clients: at_least_one(100),
        full: 125.0,
        give_up: Duration::from_secs(40),
        ..LoadFeedback::default()
    }
}

/// The share of attempts that fail once things have settled, from the worst on: each share makes a
/// load, and each load a share.
fn settled(inputs: &LoadFeedback) -> f64 {
    let requests = f64::from(inputs.clients.get()) * inputs.rate * inputs.latency.as_secs_f64();
    let mut failing = 1.0_f64;
    for _ in 0..1_000 {
        let attempts: f64 = (0..inputs.attempts.get())
            .map(|n| failing.powi(n as i32))
            .sum();
        failing = (requests * attempts / inputs.full)
            .powf(inputs.steepness)
            .min(1.0);
    }
    failing
}

#[test]
fn retries_alone_recover_exactly_if_no_load_holds_itself_up() {
    let mut held_up = 0;
    for (full, attempts, steepness) in [
        (125.0, 3, 4.0),
        (125.0, 2, 4.0),
        (90.0, 2, 4.0),
        (250.0, 3, 4.0),
        (140.0, 4, 6.0),
        (125.0, 1, 4.0),
    ] {
        let inputs = LoadFeedback {
            full,
            attempts: at_least_one(attempts),
            steepness,
            ..small()
        };
        let recovered = inputs
            .measure(Arrangement::RetriesAlone, 5)
            .expect("figures");
        let holds_itself_up = settled(&inputs) > 0.9;
        held_up += u32::from(holds_itself_up);
        assert_eq!(
            recovered.is_none(),
            holds_itself_up,
            "{inputs:?}: {recovered:?}"
        );
    }
    assert_eq!(held_up, 3);
}

#[test]
fn every_part_of_the_stack_breaks_the_circle() {
    let inputs = small();
    let recovery = |arrangement| inputs.measure(arrangement, 5).expect("figures");
    assert_eq!(recovery(Arrangement::RetriesAlone), None);
    assert!(recovery(Arrangement::BudgetOnly).is_some_and(|s| s <= 5.0));
    assert!(recovery(Arrangement::BreakerOnly).is_some_and(|s| s <= 45.0));
    assert!(recovery(Arrangement::Steadfast).is_some_and(|s| s <= 45.0));
}

#[test]
fn an_outage_of_no_length_leaves_nothing_to_recover_from() {
    let inputs = LoadFeedback {
        outage_length: Duration::ZERO,
        ..small()
    };
    for arrangement in Arrangement::ALL {
        let recovered = inputs.measure(arrangement, 5).expect("figures");
        assert_eq!(recovered, Some(0.0), "{arrangement:?}");
    }
}
