//! The first who have something to remember: what is kept is made once, and what
//! stands at the door is what it says.

use super::*;

/// All of it: a failure that opens the breaker, one that comes too late for it,
/// and a look.
#[test]
fn two_failures_at_once_make_what_is_kept_once_and_open_once() {
    model(config(), |core| {
        let ticket = admit(core, 0).unwrap();
        let fail = move |core: &Core| fail(core, ticket, 0);
        let ((), (), seen) = together(core, fail, fail, |core| state(core, 0));
        assert!(matches!(seen, BreakerState::Closed | BreakerState::Open));
        assert_eq!(state(core, 0), BreakerState::Open);
        assert_eq!(core.kept().lock().generation(), 1);
        0
    });
}

/// A failure is held against the old rules or the new, and the new ones stay.
#[test]
fn rules_that_come_with_the_first_failure_stay() {
    let two = || BreakerConfig::consecutive(2).open_time(Duration::from_secs(DUE));
    model(two(), move |core| {
        let ticket = admit(core, 0).unwrap();
        let fail_it = move |core: &Core| fail(core, ticket, 0);
        let ask = |core: &Core| core.thresholds().run_reached(1);
        together(core, fail_it, ask, |core| core.reconfigure(&two()).unwrap());
        assert_eq!(state(core, 0), BreakerState::Closed);
        core.reconfigure(&config()).unwrap();
        assert_eq!(core.rules().consecutive, Some(1));
        fail(core, ticket, 0);
        assert_eq!(state(core, 0), BreakerState::Open);
        0
    });
}

/// Whoever passes the door before the limit comes is not counted under it, and
/// a breaker that opens meanwhile stays open, with the limit behind the door.
#[test]
fn a_limit_may_come_while_a_call_opens_the_breaker() {
    model(config(), |core| {
        let call = |core: &Core| {
            if let Some(ticket) = admit(core, 0) {
                core.give_up(ticket);
            }
        };
        let failing = |core: &Core| {
            if let Some(ticket) = admit(core, 0) {
                fail(core, ticket, 0);
            }
        };
        let limited = config().concurrency_limit(1);
        together(core, call, failing, |core| {
            core.reconfigure(&limited).unwrap()
        });
        assert_eq!(core.kept().in_flight.now(), 0);
        if state(core, 0) == BreakerState::Open {
            succeed(core, admit(core, DUE).unwrap(), DUE);
        }
        let first = admit(core, DUE).unwrap();
        assert_eq!(admit(core, DUE), None, "the limit is one");
        core.give_up(first);
        assert!(admit(core, DUE).is_some());
        0
    });
}
