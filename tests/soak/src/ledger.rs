//! What observers hear, counted.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use steadfast::telemetry::{CallOutcome, Event, Observer};
use steadfast::{Health, Verdict};

use crate::chance::panic_once_in;
use crate::dependency::Climate;

const TOKEN: u64 = 1_000_000;

tokio::task_local! {
    /// What this task's call has paid for an attempt that has not ended yet.
    pub static PAID: Cell<Option<u64>>;
}

pub struct Ledger {
    ended: [AtomicU64; 7],
    /// By the ends of calls, and by their own.
    pub attempts_of_calls: AtomicU64,
    pub attempts: AtomicU64,
    pub retries: AtomicU64,
    pub parked: AtomicU64,
    pub unparked: AtomicU64,
    /// The fewest that were still parked when one left, since it was last asked.
    fewest_parked: AtomicU64,
    pub openings: AtomicU64,
    pub breakers_added: AtomicU64,
    pub breakers_removed: AtomicU64,
    /// Into the retry budget, and millionths of tokens out of it.
    pub deposits: AtomicU64,
    pub spent: AtomicU64,
}

impl Ledger {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            ended: Default::default(),
            attempts_of_calls: AtomicU64::new(0),
            attempts: AtomicU64::new(0),
            retries: AtomicU64::new(0),
            parked: AtomicU64::new(0),
            unparked: AtomicU64::new(0),
            fewest_parked: AtomicU64::new(u64::MAX),
            openings: AtomicU64::new(0),
            breakers_added: AtomicU64::new(0),
            breakers_removed: AtomicU64::new(0),
            deposits: AtomicU64::new(0),
            spent: AtomicU64::new(0),
        })
    }

    /// How many were left when the last parked call of a round left; `None` for a
    /// round without any.
    pub fn left_parked(&self) -> Option<u64> {
        let fewest = self.fewest_parked.swap(u64::MAX, Ordering::Relaxed);
        (fewest != u64::MAX).then_some(fewest)
    }

    pub fn ended(&self, outcome: CallOutcome) -> u64 {
        self.ended[index(outcome)].load(Ordering::Relaxed)
    }

    pub fn all_ended(&self) -> u64 {
        self.ended.iter().map(|n| n.load(Ordering::Relaxed)).sum()
    }
}

fn index(outcome: CallOutcome) -> usize {
    match outcome {
        CallOutcome::Success => 0,
        CallOutcome::Answered => 1,
        CallOutcome::Failed => 2,
        CallOutcome::TimedOut => 3,
        CallOutcome::DeadlineExceeded => 4,
        CallOutcome::Refused => 5,
        CallOutcome::Dropped => 6,
        other => panic!("nobody counts {other:?}"),
    }
}

fn add(counter: &AtomicU64, number: u64) {
    counter.fetch_add(number, Ordering::Relaxed);
}

/// What a retry after such a verdict costs.
fn price(verdict: &Verdict) -> u64 {
    let never_ready = verdict.reason() == "not ready within the attempt timeout".into();
    if verdict.as_str() == "ambiguous" || never_ready {
        2 * TOKEN
    } else {
        TOKEN
    }
}

impl Observer for Ledger {
    fn on_event(&self, event: &Event<'_>) {
        match event {
            Event::CallEnded {
                outcome, attempts, ..
            } => {
                add(&self.ended[index(*outcome)], 1);
                add(&self.attempts_of_calls, u64::from(*attempts));
                // Paid for an attempt that never came, so it was given back.
                let back = PAID.try_with(Cell::take).ok().flatten();
                self.spent.fetch_sub(back.unwrap_or(0), Ordering::Relaxed);
            }
            Event::AttemptEnded { verdict, .. } => {
                add(&self.attempts, 1);
                let deposits = verdict.is_some_and(|verdict| verdict.health() == Health::Ok);
                add(&self.deposits, u64::from(deposits));
                let _ = PAID.try_with(Cell::take);
            }
            Event::Retry { verdict, .. } => {
                add(&self.retries, 1);
                add(&self.spent, price(verdict));
                let _ = PAID.try_with(|paid| paid.set(Some(price(verdict))));
            }
            Event::Parked { .. } => add(&self.parked, 1),
            Event::Unparked { parked, .. } => {
                add(&self.unparked, 1);
                self.fewest_parked
                    .fetch_min(*parked as u64, Ordering::Relaxed);
            }
            Event::BreakerOpened { .. } => add(&self.openings, 1),
            Event::BreakerAdded { .. } => add(&self.breakers_added, 1),
            Event::BreakerRemoved { .. } => add(&self.breakers_removed, 1),
            _ => {}
        }
    }
}

/// Panics now and then, whatever it hears.
pub struct Unreliable {
    climate: Arc<Climate>,
}

impl Unreliable {
    pub fn new(climate: &Arc<Climate>) -> Arc<Self> {
        let climate = Arc::clone(climate);
        Arc::new(Self { climate })
    }
}

impl Observer for Unreliable {
    fn on_event(&self, _: &Event<'_>) {
        if self.climate.is_chaos() {
            panic_once_in(500);
        }
    }
}
