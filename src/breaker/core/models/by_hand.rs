//! Control by hand, while calls run.

use super::*;

#[test]
fn three_hands_make_three_changes_and_the_last_is_the_one_that_is_watched() {
    model(config(), |core| {
        let watch = core.watch();
        together(
            core,
            |core| core.force_open(Name::new("maintenance".into()), at(core, 0)),
            |core| core.disable(at(core, 0)),
            |core| core.reset(at(core, 0)),
        );
        assert_eq!(core.kept().lock().generation(), 3);
        assert_eq!(*watch.borrow(), 3);
        0
    });
}

#[test]
fn what_is_forced_open_stays_so_whatever_comes_in() {
    model(config(), |core| {
        let ticket = admit(core, 0).unwrap();
        let ((), (), third) = together(
            core,
            |core| core.force_open(Name::new("maintenance".into()), at(core, 0)),
            move |core| fail(core, ticket, 0),
            |core| admit(core, 0),
        );
        assert!(third.is_none_or(|ticket| ticket.generation() == 0));
        assert_eq!(state(core, DUE), BreakerState::ForcedOpen);
        assert_eq!(admit(core, DUE), None);
        0
    });
}
