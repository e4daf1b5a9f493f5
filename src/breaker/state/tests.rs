use super::*;
use crate::breaker::config::BreakerConfig;

const SECOND: u64 = 1_000_000_000;

fn settings(change: impl FnOnce(BreakerConfig) -> BreakerConfig) -> Recovery {
    let config = BreakerConfig::consecutive(1)
        .open_time(Duration::from_secs(10))
        .open_jitter(0.0)
        .no_ramp();
    change(config).check().unwrap().recovery
}

/// A machine that was opened at time 0.
fn opened(settings: Recovery) -> Machine {
    let mut machine = Machine::new(settings);
    machine.trip(0, 0, None, 0.0).unwrap();
    machine
}

fn admit(machine: &mut Machine, now: u64) -> Ticket {
    match machine.admit(now).0 {
        Admission::Admitted(ticket) => ticket,
        refused => panic!("refused at {now}: {refused:?}"),
    }
}

fn is_refused(machine: &mut Machine, now: u64) -> bool {
    !matches!(machine.admit(now).0, Admission::Admitted(_))
}

#[test]
fn it_opens_refuses_until_its_time_and_then_admits_exactly_the_probes() {
    let settings = settings(|config| config.probes(3));
    let mut machine = opened(settings);
    assert!(is_refused(&mut machine, 10 * SECOND - 1));
    let (first, told) = machine.admit(10 * SECOND);
    assert!(matches!(first, Admission::Admitted(_)));
    assert!(matches!(told, Some(Transition::HalfOpened)));
    for _ in 0..2 {
        let (_, told) = machine.admit(10 * SECOND);
        assert_eq!(told, None, "a transition is told once");
    }
    assert!(is_refused(&mut machine, 11 * SECOND));
}

#[test]
fn a_late_answer_of_an_older_period_changes_nothing_in_any_state() {
    let settings = settings(|config| config);
    let mut machine = Machine::new(settings);
    let old = admit(&mut machine, 0);
    machine.trip(old.generation(), 0, None, 0.0);
    assert_eq!(machine.trip(old.generation(), SECOND, None, 0.0), None);
    let probe = admit(&mut machine, 10 * SECOND);
    for outcome in [
        Heard::Success,
        Heard::Failure(None),
        Heard::Neutral,
        Heard::Dropped,
    ] {
        // As if an old ticket held a slot: it never did.
        let told = machine.heard(old, outcome, 11 * SECOND, 0.0);
        assert_eq!(told, None, "{outcome:?}");
        assert!(is_refused(&mut machine, 11 * SECOND), "{outcome:?}");
    }
    let told = machine.heard(probe, Heard::Success, 12 * SECOND, 0.0);
    assert!(matches!(told, Some(Transition::Closed)));
    let told = machine.heard(probe, Heard::Failure(None), 13 * SECOND, 0.0);
    assert_eq!(told, None, "reported twice");
}

#[test]
fn a_dropped_or_neutral_probe_gives_its_slot_back_once() {
    let settings = settings(|config| config);
    for outcome in [Heard::Dropped, Heard::Neutral] {
        let mut machine = opened(settings);
        let probe = admit(&mut machine, 10 * SECOND);
        machine.heard(probe, outcome, 11 * SECOND, 0.0);
        admit(&mut machine, 11 * SECOND);
        assert!(is_refused(&mut machine, 11 * SECOND), "{outcome:?}");
    }
}

#[test]
fn ten_neutral_answers_in_a_row_move_on_but_drops_never_do() {
    let settings = settings(|config| config);
    let mut machine = opened(settings);
    for _ in 0..100 {
        let probe = admit(&mut machine, 10 * SECOND);
        assert_eq!(machine.heard(probe, Heard::Dropped, 10 * SECOND, 0.0), None);
    }
    for answer in 1..=10 {
        let probe = admit(&mut machine, 10 * SECOND);
        let told = machine.heard(probe, Heard::Neutral, 10 * SECOND, 0.0);
        assert_eq!(told.is_some(), answer == 10, "answer {answer}");
    }
    assert_eq!(machine.state(10 * SECOND), BreakerState::Closed);
}

#[test]
fn a_success_between_neutral_answers_begins_their_count_anew() {
    let settings = settings(|config| config.probes(30).successes(30));
    let mut machine = opened(settings);
    let mut answer = |outcome| {
        let probe = admit(&mut machine, 10 * SECOND);
        machine.heard(probe, outcome, 10 * SECOND, 0.0)
    };
    for _ in 0..9 {
        assert_eq!(answer(Heard::Neutral), None);
    }
    assert_eq!(answer(Heard::Success), None);
    for _ in 0..9 {
        assert_eq!(answer(Heard::Neutral), None);
    }
    assert!(answer(Heard::Neutral).is_some());
}

#[test]
fn a_probe_past_its_lease_is_replaced_and_only_its_late_success_counts() {
    let settings = settings(|config| config.probe_lease(Duration::from_secs(60)));
    let (begun, over) = (10 * SECOND, 70 * SECOND);
    let late = |outcome| {
        let mut machine = opened(settings);
        let lost = admit(&mut machine, begun);
        assert!(is_refused(&mut machine, over - 1));
        let replacement = admit(&mut machine, over);
        assert_ne!(lost.generation(), replacement.generation());
        let told = machine.heard(lost, outcome, over, 0.0);
        (machine, told)
    };
    for outcome in [Heard::Failure(None), Heard::Neutral, Heard::Dropped] {
        let (mut machine, told) = late(outcome);
        assert_eq!(told, None, "{outcome:?}");
        assert!(
            is_refused(&mut machine, over),
            "{outcome:?}: slot given back twice"
        );
    }
    let (machine, told) = late(Heard::Success);
    assert!(matches!(told, Some(Transition::Closed)));
    assert_eq!(machine.state(over), BreakerState::Closed);
}

#[test]
fn a_late_success_does_not_count_once_half_open_was_left() {
    let settings = settings(|config| config.probe_lease(Duration::from_secs(60)));
    let mut machine = opened(settings);
    let lost = admit(&mut machine, 10 * SECOND);
    let second = admit(&mut machine, 70 * SECOND);
    machine.heard(second, Heard::Failure(None), 70 * SECOND, 0.0);
    let third = admit(&mut machine, 90 * SECOND);
    let told = machine.heard(lost, Heard::Success, 90 * SECOND, 0.0);
    assert_eq!(told, None);
    assert!(
        machine
            .heard(third, Heard::Success, 90 * SECOND, 0.0)
            .is_some()
    );
}

#[test]
fn every_admission_renews_the_lease_of_the_generation() {
    let settings = settings(|config| config.probes(2).probe_lease(Duration::from_secs(60)));
    let mut machine = opened(settings);
    admit(&mut machine, 10 * SECOND);
    admit(&mut machine, 50 * SECOND);
    assert!(is_refused(&mut machine, 110 * SECOND - 1));
    admit(&mut machine, 110 * SECOND);
}

#[test]
fn the_open_time_doubles_per_failed_recovery_up_to_the_cap_and_is_forgotten_slowly() {
    let settings = settings(|config| config.max_open_time(Duration::from_secs(60)));
    let mut machine = opened(settings);
    let mut now = 10 * SECOND;
    for expected in [20, 40, 60, 60] {
        let probe = admit(&mut machine, now);
        let told = machine.heard(probe, Heard::Failure(None), now, 0.0);
        let Some(Transition::Opened { open_for }) = told else {
            panic!("{told:?}");
        };
        assert_eq!(open_for, Duration::from_secs(expected));
        now += expected * SECOND;
    }
    let probe = admit(&mut machine, now);
    machine.heard(probe, Heard::Success, now, 0.0);
    // Four failed recoveries; three times sixty healthy seconds forgive three.
    now += 180 * SECOND;
    let told = machine.trip(machine.generation(), now, None, 0.0);
    let Some(Transition::Opened { open_for }) = told else {
        panic!("{told:?}");
    };
    assert_eq!(open_for, Duration::from_secs(20));
}

#[test]
fn jitter_only_lengthens_and_a_hint_is_a_lower_bound_with_a_cap_of_its_own() {
    let settings = settings(|config| config.open_jitter(0.25));
    let at = |hint, draw| open_time(0, hint, draw, &settings);
    assert_eq!(at(None, 0.0), Duration::from_secs(10));
    assert_eq!(at(None, 0.5), Duration::from_millis(11_250));
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
    let mut machine = opened(settings);
    assert!(is_refused(&mut machine, u64::MAX - 1));
    assert_eq!(open_time(u32::MAX, None, 1.0, &settings), Duration::MAX);
    let mut machine = Machine {
        generation: u32::MAX,
        ..Machine::new(settings)
    };
    assert!(machine.trip(u32::MAX, u64::MAX, None, 0.0).is_some());
    assert_eq!(machine.generation(), 0);
}

#[test]
fn an_open_breaker_that_is_due_reads_as_half_open_without_a_call() {
    let settings = settings(|config| config);
    let machine = opened(settings);
    assert_eq!(machine.state(10 * SECOND - 1), BreakerState::Open);
    assert_eq!(machine.state(10 * SECOND), BreakerState::HalfOpen);
}

fn recovering(settings: Recovery) -> Machine {
    let mut machine = opened(settings);
    let probe = admit(&mut machine, 10 * SECOND);
    let told = machine.heard(probe, Heard::Success, 10 * SECOND, 0.0);
    assert_eq!(
        told,
        Some(Transition::Recovering {
            ramp: Duration::from_secs(10)
        })
    );
    machine
}

#[test]
fn a_recovery_admits_a_share_and_closes_when_its_time_is_over() {
    let settings = settings(|config| config.ramp(Duration::from_secs(10)));
    let mut machine = recovering(settings);
    let passed = (0..1000)
        .filter(|_| !is_refused(&mut machine, 10 * SECOND))
        .count();
    assert!((104..=105).contains(&passed), "{passed} of a burst");
    assert_eq!(machine.state(20 * SECOND - 1), BreakerState::Recovering);
    assert_eq!(machine.state(20 * SECOND), BreakerState::Closed);
    let (admission, told) = machine.admit(20 * SECOND);
    assert!(matches!(admission, Admission::Admitted(ticket) if ticket.is_plain()));
    assert_eq!(told, Some(Transition::Closed));
}

#[test]
fn a_sample_that_fails_opens_again_for_longer_and_late_answers_of_it_are_void() {
    let settings = settings(|config| config.ramp(Duration::from_secs(10)));
    let mut machine = recovering(settings);
    // `consecutive(1)` makes a run of one a failing sample.
    let late = admit(&mut machine, 11 * SECOND);
    let failing = admit(&mut machine, 11 * SECOND);
    let told = machine.heard(failing, Heard::Failure(None), 12 * SECOND, 0.0);
    let open_for = Duration::from_secs(20);
    assert_eq!(told, Some(Transition::Opened { open_for }));
    for heard in [
        Heard::Success,
        Heard::Failure(None),
        Heard::Neutral,
        Heard::Dropped,
    ] {
        assert_eq!(machine.heard(late, heard, 12 * SECOND, 0.0), None);
    }
    assert!(is_refused(&mut machine, 32 * SECOND - 1));
}

#[test]
fn neutral_and_dropped_calls_of_a_recovery_are_no_sample() {
    let settings = settings(|config| config.ramp(Duration::from_secs(10)));
    let mut machine = recovering(settings);
    for heard in [Heard::Neutral, Heard::Dropped] {
        for _ in 0..4 {
            let ticket = admit(&mut machine, 19 * SECOND);
            assert_eq!(machine.heard(ticket, heard, 19 * SECOND, 0.0), None);
        }
    }
    assert_eq!(machine.state(19 * SECOND), BreakerState::Recovering);
}

#[test]
fn a_probe_that_answers_during_the_recovery_changes_nothing() {
    let settings = settings(|config| config.probes(2).ramp(Duration::from_secs(10)));
    let mut machine = opened(settings);
    let first = admit(&mut machine, 10 * SECOND);
    let second = admit(&mut machine, 10 * SECOND);
    assert!(
        machine
            .heard(first, Heard::Success, 10 * SECOND, 0.0)
            .is_some()
    );
    assert_eq!(
        machine.heard(second, Heard::Failure(None), 11 * SECOND, 0.0),
        None
    );
    assert_eq!(machine.state(11 * SECOND), BreakerState::Recovering);
}

#[test]
fn forced_open_holds_whatever_happens_until_it_is_reset() {
    let settings = settings(|config| config);
    let mut machine = opened(settings);
    let probe = admit(&mut machine, 10 * SECOND);
    let reason = Name::new("maintenance".into());
    assert_eq!(
        machine.force_open(reason),
        Transition::ForcedOpen { reason }
    );
    for heard in [
        Heard::Success,
        Heard::Failure(None),
        Heard::Neutral,
        Heard::Dropped,
    ] {
        assert_eq!(machine.heard(probe, heard, 11 * SECOND, 0.0), None);
    }
    for now in [11 * SECOND, u64::MAX] {
        assert_eq!(machine.admit(now), (Admission::Forced(reason), None));
    }
    assert_eq!(machine.reset(12 * SECOND), Transition::Closed);
    admit(&mut machine, 12 * SECOND);
}

#[test]
fn disabled_admits_everything_and_trips_at_nothing() {
    let settings = settings(|config| config);
    let mut machine = opened(settings);
    machine.disable();
    let ticket = admit(&mut machine, SECOND);
    assert_eq!(machine.trip(ticket.generation(), SECOND, None, 0.0), None);
    admit(&mut machine, SECOND);
    assert_eq!(machine.state(SECOND), BreakerState::Disabled);
}

#[test]
fn a_reset_forgets_failed_recoveries() {
    let settings = settings(|config| config);
    let mut machine = opened(settings);
    let probe = admit(&mut machine, 10 * SECOND);
    machine.heard(probe, Heard::Failure(None), 10 * SECOND, 0.0);
    assert_eq!(machine.failed_recoveries(10 * SECOND), 1);
    machine.reset(11 * SECOND);
    let told = machine.trip(machine.generation(), 11 * SECOND, None, 0.0);
    let open_for = Duration::from_secs(10);
    assert_eq!(told, Some(Transition::Opened { open_for }));
}
