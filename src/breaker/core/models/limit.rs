//! Calls in flight: never above the limit, and none at the end.

use super::*;
use crate::sync::model::Holders;

#[test]
fn calls_never_exceed_the_limit() {
    model(config().concurrency_limit(2), |core| {
        let holders = Arc::new(Holders::default());
        let call = |ends: fn(&Core, Ticket)| {
            let holders = Arc::clone(&holders);
            move |core: &Core| {
                if let Some(ticket) = admit(core, 0) {
                    holders.come(2);
                    loom::thread::yield_now();
                    holders.go();
                    ends(core, ticket);
                }
            }
        };
        let succeeds = |core: &Core, ticket| succeed(core, ticket, 0);
        together(core, call(succeeds), call(Core::give_up), call(succeeds));
        assert_eq!(core.kept().in_flight.now(), 0);
        0
    });
}

#[test]
fn a_call_refused_by_the_limit_uses_up_no_probe_and_one_refused_as_probe_no_place() {
    model(config().concurrency_limit(1).probes(2), |core| {
        open(core);
        let ask = |core: &Core| admit(core, DUE);
        let (a, b, c) = together(core, ask, ask, |core| {
            let ticket = admit(core, DUE);
            ticket.into_iter().for_each(|ticket| core.give_up(ticket));
            ticket
        });
        let held: Vec<Ticket> = [a, b].into_iter().flatten().collect();
        assert!(held.len() <= 1);
        assert!(c.is_some() || !held.is_empty());
        assert_eq!(core.kept().in_flight.now() as usize, held.len());
        held.into_iter().for_each(|ticket| core.give_up(ticket));
        assert_eq!(core.kept().in_flight.now(), 0);
        assert!(admit(core, DUE).is_some());
        0
    });
}

#[test]
fn a_limit_may_go_while_calls_run() {
    model(config().concurrency_limit(1), |core| {
        let call = |core: &Core| {
            if let Some(ticket) = admit(core, 0) {
                core.give_up(ticket);
            }
        };
        together(core, call, call, |core| {
            core.reconfigure(&config()).unwrap()
        });
        assert_eq!(core.kept().in_flight.now(), 0);
        0
    });
}
