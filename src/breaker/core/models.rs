//! The core under three threads, in every interleaving.
//!
//! Whatever a model does, [`model`] checks at its end that each change of
//! state was told exactly once and that the door shows what the machine says.

mod by_hand;
mod first;
mod half_open;
mod late;
mod limit;
mod told;

use std::sync::Arc;

use self::told::Told;
use super::*;
use crate::Verdict;
use crate::sync::model::{check, together};

/// When an open breaker is due, in seconds.
const DUE: u64 = 10;

/// Opens at the first failure, for ten seconds, and closes at the first
/// success.
const fn config() -> BreakerConfig {
    BreakerConfig::consecutive(1)
        .open_time(Duration::from_secs(DUE))
        .open_jitter(0.0)
        .growth(1.0)
        .no_ramp()
}

/// Runs `body` on a new breaker, which gives back how many half-open
/// generations it had begun anew: these are no changes of state.
fn model(config: BreakerConfig, body: impl Fn(&Arc<Core>) -> u32 + Send + Sync + 'static) {
    let told = Told::default();
    let heard = told.clone();
    tracing::subscriber::with_default(told, || {
        check(move || {
            heard.forget();
            let facts = Facts::new(Name::new("modelled".into()), &config).unwrap();
            let core = Arc::new(Core::new(Arc::new(facts)));
            let renewed = body(&core);
            let kept = core.kept();
            let machine = kept.lock();
            let mut generations = heard.generations();
            generations.sort_unstable();
            let all = generations.len();
            generations.dedup();
            assert_eq!(all, generations.len(), "a change was told twice");
            let changes = (machine.generation() - renewed) as usize;
            assert_eq!(all, changes, "a change was not told");
            let shown = core.door.load(Ordering::Acquire);
            core.publish(kept, &machine);
            assert_eq!(shown, core.door.load(Ordering::Acquire), "the door");
        });
    });
}

fn at(core: &Core, seconds: u64) -> Moment {
    core.facts.base + Duration::from_secs(seconds)
}

fn admit(core: &Core, seconds: u64) -> Option<Ticket> {
    core.admit(|| at(core, seconds)).ok()
}

fn record(core: &Core, ticket: Ticket, verdict: &Verdict, seconds: u64) {
    core.record(ticket, verdict, Moment::NEVER, || at(core, seconds));
}

fn succeed(core: &Core, ticket: Ticket, seconds: u64) {
    record(core, ticket, &Verdict::success(), seconds);
}

fn fail(core: &Core, ticket: Ticket, seconds: u64) {
    record(core, ticket, &Verdict::transient(), seconds);
}

fn state(core: &Core, seconds: u64) -> BreakerState {
    core.state(at(core, seconds))
}

/// Opens a new breaker until [`DUE`].
fn open(core: &Core) {
    fail(core, admit(core, 0).unwrap(), 0);
    assert_eq!(state(core, 0), BreakerState::Open);
}
