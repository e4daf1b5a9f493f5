use super::*;
use crate::Verdict;

fn core(config: &BreakerConfig) -> Core {
    let facts = Facts::new(Name::new("inventory".into()), config).unwrap();
    Core::new(Arc::new(facts))
}

fn no_clock() -> Moment {
    panic!("nobody needs to know the time")
}

/// Whoever asks the machine tells it the time: so this holds as well that a
/// closed breaker takes no lock.
#[test]
fn a_closed_breaker_neither_looks_at_the_clock_nor_asks_the_machine() {
    let core = core(&BreakerConfig::consecutive(3));
    for generation in 0..20 {
        core.is_shut(no_clock).unwrap();
        core.would_admit(no_clock).unwrap();
        let ticket = core.admit(no_clock).unwrap();
        assert_eq!(ticket.generation(), generation);
        core.record(ticket, &Verdict::success(), Moment::NEVER, no_clock);
        core.reset(core.facts.base);
    }
    assert!(!core.measures_time(), "no rule asks how long a call ran");
}
