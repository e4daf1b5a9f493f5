//! Probes: no more than configured, no slot lost, one decision.

use super::*;
use crate::breaker::ticket::TicketKind;
use crate::sync::model::Holders;

#[test]
fn one_probe_of_three_calls_at_the_door() {
    three_at_the_door(1);
}

#[test]
fn two_probes_of_three_calls_at_the_door() {
    three_at_the_door(2);
}

fn three_at_the_door(probes: u32) {
    model(config().probes(probes), move |core| {
        open(core);
        let ask = |core: &Core| admit(core, DUE);
        let (a, b, c) = together(core, ask, ask, ask);
        let admitted: Vec<Ticket> = [a, b, c].into_iter().flatten().collect();
        assert_eq!(admitted.len(), probes as usize);
        for probe in admitted {
            assert_eq!((probe.generation(), probe.kind()), (2, TicketKind::Probe));
            core.give_up(probe);
        }
        for _ in 0..probes {
            assert!(admit(core, DUE).is_some(), "a slot was lost");
        }
        assert_eq!(admit(core, DUE), None);
        0
    });
}

#[test]
fn a_dropped_probe_makes_room_for_one() {
    model(config(), |core| {
        open(core);
        let probe = admit(core, DUE).unwrap();
        let drop_it = move |core: &Core| core.give_up(probe);
        let ask = |core: &Core| admit(core, DUE);
        let ((), b, c) = together(core, drop_it, ask, ask);
        assert!(b.is_none() || c.is_none(), "two probes at once");
        for probe in [b, c].into_iter().flatten() {
            core.give_up(probe);
        }
        assert!(admit(core, DUE).is_some(), "the slot was lost");
        assert_eq!(admit(core, DUE), None);
        0
    });
}

#[test]
fn probes_that_come_and_go_are_never_two_at_once() {
    model(config(), |core| {
        open(core);
        let holders = Arc::new(Holders::default());
        let come_and_go = || {
            let holders = Arc::clone(&holders);
            move |core: &Core| {
                if let Some(probe) = admit(core, DUE) {
                    holders.come(1);
                    loom::thread::yield_now();
                    holders.go();
                    core.give_up(probe);
                }
            }
        };
        together(core, come_and_go(), come_and_go(), come_and_go());
        assert!(admit(core, DUE).is_some(), "the slot was lost");
        0
    });
}

#[test]
fn the_first_of_two_probes_decides() {
    model(config().probes(2), |core| {
        open(core);
        let [good, bad] = [(); 2].map(|()| admit(core, DUE).unwrap());
        let ((), (), third) = together(
            core,
            move |core| succeed(core, good, DUE),
            move |core| fail(core, bad, DUE),
            |core| admit(core, DUE),
        );
        let third = third.map(|ticket| (ticket.generation(), ticket.kind()));
        match state(core, DUE) {
            BreakerState::Closed => assert!(matches!(third, None | Some((3, TicketKind::Counted)))),
            BreakerState::Open => assert_eq!(third, None),
            other => panic!("{other:?}"),
        }
        assert_eq!(core.kept().lock().generation(), 3);
        0
    });
}

#[test]
fn a_probe_that_decides_while_others_ask_and_drop() {
    model(config().probes(2), |core| {
        open(core);
        let [good, dropped] = [(); 2].map(|()| admit(core, DUE).unwrap());
        let ((), (), third) = together(
            core,
            move |core| succeed(core, good, DUE),
            move |core| core.give_up(dropped),
            |core| admit(core, DUE),
        );
        if let Some(third) = third {
            let is_probe = third.kind() == TicketKind::Probe;
            assert_eq!(third.generation(), if is_probe { 2 } else { 3 });
        }
        assert_eq!(state(core, DUE), BreakerState::Closed);
        0
    });
}

#[test]
fn a_lost_probe_gives_no_slot_of_the_next_generation_back() {
    let lease = 60;
    model(
        config().probe_lease(Duration::from_secs(lease)),
        move |core| {
            open(core);
            let lost = admit(core, DUE).unwrap();
            let ask = move |core: &Core| admit(core, DUE + lease);
            let drop_it = move |core: &Core| core.give_up(lost);
            let ((), b, c) = together(core, drop_it, ask, ask);
            assert!(b.is_some() != c.is_some(), "one of the two: {b:?}, {c:?}");
            let next = b.or(c).unwrap();
            assert_eq!(ask(core), None);
            core.give_up(next);
            assert!(ask(core).is_some(), "the slot was lost");
            next.generation() - lost.generation()
        },
    );
}

#[test]
fn a_recovery_ends_once_and_hears_no_late_failure() {
    let ramp = 10;
    model(config().ramp(Duration::from_secs(ramp)), move |core| {
        open(core);
        succeed(core, admit(core, DUE).unwrap(), DUE);
        let sample = admit(core, DUE).unwrap();
        assert_eq!((sample.generation(), sample.kind()), (3, TicketKind::Share));
        let ask = move |core: &Core| admit(core, DUE + ramp);
        let fail_it = move |core: &Core| fail(core, sample, DUE + ramp);
        let ((), b, c) = together(core, fail_it, ask, ask);
        match state(core, DUE + ramp) {
            BreakerState::Closed => {
                let ticket = b.unwrap();
                assert_eq!(
                    (ticket.generation(), ticket.kind()),
                    (4, TicketKind::Counted)
                );
                assert_eq!(b, c);
            }
            BreakerState::Open => assert_eq!((b, c), (None, None)),
            other => panic!("{other:?}"),
        }
        assert_eq!(core.kept().lock().generation(), 4);
        0
    });
}
