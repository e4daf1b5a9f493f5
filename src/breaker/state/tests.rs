use super::*;
use crate::breaker::config::BreakerConfig;

const SECOND: u64 = 1_000_000_000;

fn settings(change: impl FnOnce(BreakerConfig) -> BreakerConfig) -> Recovery {
    let config = BreakerConfig::consecutive(1)
        .open_time(Duration::from_secs(10))
        .open_jitter(0.0);
    change(config).check().unwrap().recovery
}

/// A machine that was opened at time 0.
fn opened(settings: &Recovery) -> Machine {
    let mut machine = Machine::new();
    machine.trip(0, 0, None, 0.0, settings).unwrap();
    machine
}

fn admit(machine: &mut Machine, now: u64, settings: &Recovery) -> Ticket {
    match machine.admit(now, settings).0 {
        Admission::Admitted(ticket) => ticket,
        refused => panic!("refused at {now}: {refused:?}"),
    }
}

fn is_refused(machine: &mut Machine, now: u64, settings: &Recovery) -> bool {
    !matches!(machine.admit(now, settings).0, Admission::Admitted(_))
}

#[test]
fn it_opens_refuses_until_its_time_and_then_admits_exactly_the_probes() {
    let settings = settings(|config| config.probes(3));
    let mut machine = opened(&settings);
    assert!(is_refused(&mut machine, 10 * SECOND - 1, &settings));
    let (first, told) = machine.admit(10 * SECOND, &settings);
    assert!(matches!(first, Admission::Admitted(_)));
    assert!(matches!(told, Some(Transition::HalfOpened { .. })));
    for _ in 0..2 {
        let (_, told) = machine.admit(10 * SECOND, &settings);
        assert_eq!(told, None, "a transition is told once");
    }
    assert!(is_refused(&mut machine, 11 * SECOND, &settings));
}

#[test]
fn a_late_answer_of_an_older_period_changes_nothing_in_any_state() {
    let settings = settings(|config| config);
    let mut machine = Machine::new();
    let old = admit(&mut machine, 0, &settings);
    machine.trip(old.generation, 0, None, 0.0, &settings);
    assert_eq!(
        machine.trip(old.generation, SECOND, None, 0.0, &settings),
        None
    );
    let probe = admit(&mut machine, 10 * SECOND, &settings);
    for outcome in [
        ProbeOutcome::Success,
        ProbeOutcome::Failure(None),
        ProbeOutcome::Neutral,
        ProbeOutcome::Dropped,
    ] {
        // As if an old ticket held a slot: it never did.
        let told = machine.probed(old, outcome, 11 * SECOND, 0.0, &settings);
        assert_eq!(told, None, "{outcome:?}");
        assert!(
            is_refused(&mut machine, 11 * SECOND, &settings),
            "{outcome:?}"
        );
    }
    let told = machine.probed(probe, ProbeOutcome::Success, 12 * SECOND, 0.0, &settings);
    assert!(matches!(told, Some(Transition::Closed { .. })));
    let told = machine.probed(
        probe,
        ProbeOutcome::Failure(None),
        13 * SECOND,
        0.0,
        &settings,
    );
    assert_eq!(told, None, "reported twice");
}

#[test]
fn a_dropped_or_neutral_probe_gives_its_slot_back_once() {
    let settings = settings(|config| config);
    for outcome in [ProbeOutcome::Dropped, ProbeOutcome::Neutral] {
        let mut machine = opened(&settings);
        let probe = admit(&mut machine, 10 * SECOND, &settings);
        machine.probed(probe, outcome, 11 * SECOND, 0.0, &settings);
        admit(&mut machine, 11 * SECOND, &settings);
        assert!(
            is_refused(&mut machine, 11 * SECOND, &settings),
            "{outcome:?}"
        );
    }
}

#[test]
fn ten_neutral_answers_in_a_row_move_on_but_drops_never_do() {
    let settings = settings(|config| config);
    let mut machine = opened(&settings);
    for _ in 0..100 {
        let probe = admit(&mut machine, 10 * SECOND, &settings);
        assert_eq!(
            machine.probed(probe, ProbeOutcome::Dropped, 10 * SECOND, 0.0, &settings),
            None
        );
    }
    for answer in 1..=10 {
        let probe = admit(&mut machine, 10 * SECOND, &settings);
        let told = machine.probed(probe, ProbeOutcome::Neutral, 10 * SECOND, 0.0, &settings);
        assert_eq!(told.is_some(), answer == 10, "answer {answer}");
    }
    assert_eq!(machine.state(10 * SECOND), BreakerState::Closed);
}

#[test]
fn a_success_between_neutral_answers_begins_their_count_anew() {
    let settings = settings(|config| config.probes(30).successes(30));
    let mut machine = opened(&settings);
    let mut answer = |outcome| {
        let probe = admit(&mut machine, 10 * SECOND, &settings);
        machine.probed(probe, outcome, 10 * SECOND, 0.0, &settings)
    };
    for _ in 0..9 {
        assert_eq!(answer(ProbeOutcome::Neutral), None);
    }
    assert_eq!(answer(ProbeOutcome::Success), None);
    for _ in 0..9 {
        assert_eq!(answer(ProbeOutcome::Neutral), None);
    }
    assert!(answer(ProbeOutcome::Neutral).is_some());
}

#[test]
fn a_probe_past_its_lease_is_replaced_and_only_its_late_success_counts() {
    let settings = settings(|config| config.probe_lease(Duration::from_secs(60)));
    let (begun, over) = (10 * SECOND, 70 * SECOND);
    let late = |outcome| {
        let mut machine = opened(&settings);
        let lost = admit(&mut machine, begun, &settings);
        assert!(is_refused(&mut machine, over - 1, &settings));
        let replacement = admit(&mut machine, over, &settings);
        assert_ne!(lost.generation, replacement.generation);
        let told = machine.probed(lost, outcome, over, 0.0, &settings);
        (machine, told)
    };
    for outcome in [
        ProbeOutcome::Failure(None),
        ProbeOutcome::Neutral,
        ProbeOutcome::Dropped,
    ] {
        let (mut machine, told) = late(outcome);
        assert_eq!(told, None, "{outcome:?}");
        assert!(
            is_refused(&mut machine, over, &settings),
            "{outcome:?}: slot given back twice"
        );
    }
    let (machine, told) = late(ProbeOutcome::Success);
    assert!(matches!(told, Some(Transition::Closed { .. })));
    assert_eq!(machine.state(over), BreakerState::Closed);
}

#[test]
fn a_late_success_does_not_count_once_half_open_was_left() {
    let settings = settings(|config| config.probe_lease(Duration::from_secs(60)));
    let mut machine = opened(&settings);
    let lost = admit(&mut machine, 10 * SECOND, &settings);
    let second = admit(&mut machine, 70 * SECOND, &settings);
    machine.probed(
        second,
        ProbeOutcome::Failure(None),
        70 * SECOND,
        0.0,
        &settings,
    );
    let third = admit(&mut machine, 90 * SECOND, &settings);
    let told = machine.probed(lost, ProbeOutcome::Success, 90 * SECOND, 0.0, &settings);
    assert_eq!(told, None);
    assert!(
        machine
            .probed(third, ProbeOutcome::Success, 90 * SECOND, 0.0, &settings)
            .is_some()
    );
}

#[test]
fn every_admission_renews_the_lease_of_the_generation() {
    let settings = settings(|config| config.probes(2).probe_lease(Duration::from_secs(60)));
    let mut machine = opened(&settings);
    admit(&mut machine, 10 * SECOND, &settings);
    admit(&mut machine, 50 * SECOND, &settings);
    assert!(is_refused(&mut machine, 110 * SECOND - 1, &settings));
    admit(&mut machine, 110 * SECOND, &settings);
}

#[test]
fn the_open_time_doubles_per_failed_recovery_up_to_the_cap_and_is_forgotten_slowly() {
    let settings = settings(|config| config.max_open_time(Duration::from_secs(60)));
    let mut machine = opened(&settings);
    let mut now = 10 * SECOND;
    for expected in [20, 40, 60, 60] {
        let probe = admit(&mut machine, now, &settings);
        let told = machine.probed(probe, ProbeOutcome::Failure(None), now, 0.0, &settings);
        let Some(Transition::Opened { open_for, .. }) = told else {
            panic!("{told:?}");
        };
        assert_eq!(open_for, Duration::from_secs(expected));
        now += expected * SECOND;
    }
    let probe = admit(&mut machine, now, &settings);
    machine.probed(probe, ProbeOutcome::Success, now, 0.0, &settings);
    // Four failed recoveries; three times sixty healthy seconds forgive three.
    now += 180 * SECOND;
    let told = machine.trip(machine.generation(), now, None, 0.0, &settings);
    let Some(Transition::Opened { open_for, .. }) = told else {
        panic!("{told:?}");
    };
    assert_eq!(open_for, Duration::from_secs(20));
}

#[test]
fn jitter_only_lengthens_and_a_hint_is_a_lower_bound_with_a_cap_of_its_own() {
    let settings = settings(|config| config.open_jitter(0.25));
    let at = |hint, draw| open_time(0, hint, draw, &settings);
    assert_eq!(at(None, 0.0), Duration::from_secs(10));
    assert_eq!(at(None, 1.0), Duration::from_millis(12_500));
    assert_eq!(
        at(Some(Duration::from_secs(3)), 0.0),
        Duration::from_secs(10)
    );
    assert_eq!(
        at(Some(Duration::from_secs(30)), 0.0),
        Duration::from_secs(30)
    );
    assert_eq!(at(Some(Duration::MAX), 0.0), Duration::from_secs(300));
}

#[test]
fn extreme_settings_neither_panic_nor_wrap() {
    let settings = settings(|config| {
        config
            .open_time(Duration::MAX)
            .max_open_time(Duration::MAX)
            .growth(f64::MAX)
            .open_jitter(10.0)
            .probe_lease(Duration::MAX)
    });
    let mut machine = opened(&settings);
    assert!(is_refused(&mut machine, u64::MAX - 1, &settings));
    assert_eq!(open_time(u32::MAX, None, 1.0, &settings), Duration::MAX);
    let mut machine = Machine {
        generation: u32::MAX,
        ..Machine::new()
    };
    assert!(
        machine
            .trip(u32::MAX, u64::MAX, None, 0.0, &settings)
            .is_some()
    );
    assert_eq!(machine.generation(), 0);
}

#[test]
fn an_open_breaker_that_is_due_reads_as_half_open_without_a_call() {
    let settings = settings(|config| config);
    let machine = opened(&settings);
    assert_eq!(machine.state(10 * SECOND - 1), BreakerState::Open);
    assert_eq!(machine.state(10 * SECOND), BreakerState::HalfOpen);
}
