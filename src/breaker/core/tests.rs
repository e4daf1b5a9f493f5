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

/// Which would keep the breaker for as long as one of this period.
#[cfg(feature = "keyed")]
#[test]
fn a_failure_of_an_earlier_period_is_not_noted() {
    let core = core(&BreakerConfig::consecutive(3));
    let (now, idle) = (core.facts.base, Duration::from_secs(1));
    let [earlier, late] = [(); 2].map(|()| core.admit(no_clock).unwrap());
    core.record(earlier, &Verdict::transient(), now, || now);
    assert!(!core.is_forgettable(now, idle));
    let later = now.after(Span::new(Some(2 * idle)));
    core.reset(later);
    core.record(late, &Verdict::transient(), now, || later);
    assert!(core.is_forgettable(later, idle));
}

#[cfg(feature = "keyed")]
#[test]
fn a_probe_that_fails_is_noted_as_any_other_failure() {
    let core = core(&BreakerConfig::consecutive(1));
    let (now, idle) = (core.facts.base, Duration::from_secs(1));
    let later = now.after(Span::new(Some(Duration::from_secs(3600))));
    for at in [now, later] {
        let ticket = core.admit(|| at).unwrap();
        core.record(ticket, &Verdict::transient(), now, || at);
    }
    core.reset(later);
    assert!(!core.is_forgettable(later, idle));
}
