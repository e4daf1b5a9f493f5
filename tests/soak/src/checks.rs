//! What must hold when nothing is under way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use steadfast::telemetry::CallOutcome;
use tokio::runtime::Handle;
use tokio::time::sleep;

use crate::chance::unplanned_panics;
use crate::clients::{Client, Counts, FALLBACK_PLACES, Shape, Tokens};
use crate::counting::held_bytes;
use crate::dependency::{Climate, Request, Weather};
use crate::ledger::Ledger;

/// Tables and queues keep the room that they once needed, and not all of them
/// have needed most of it in the first round.
const TABLES: i64 = 64 * 1024;

/// The quantities that are wrong, each with what it should be and what it is.
#[derive(Default)]
pub struct Checks {
    failures: Vec<String>,
    /// Bytes held at the first quiet point.
    first_held: Option<i64>,
}

impl Checks {
    fn equal(&mut self, what: &str, before: u64, after: u64) {
        if before != after {
            let failure = format!("{what}: {before} before, {after} after");
            println!("FAILED  {failure}");
            self.failures.push(failure);
        }
    }

    pub fn failures(&self) -> usize {
        self.failures.len()
    }

    /// Everything, at a quiet point.
    pub async fn quiet(&mut self, clients: &[Arc<Client>], climate: &Climate) {
        self.equal("live tasks", 0, live_tasks().await);
        self.equal("panics that nobody planned", 0, unplanned_panics());
        for client in clients {
            self.client(client);
            self.places_of_the_fallback(client, climate).await;
        }
        self.equal("live tasks after the last checks", 0, live_tasks().await);
        let held = held_bytes();
        let first = *self.first_held.get_or_insert(held);
        if held > first + TABLES {
            let failure = format!("held bytes: {first} before, {held} after");
            println!("FAILED  {failure}");
            self.failures.push(failure);
        }
    }

    fn client(&mut self, client: &Client) {
        let name = client.name;
        let snapshot = (client.look)();
        let at = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        for dependency in [Some(&client.dependency), client.secondary.as_ref()] {
            let in_flight = dependency.map_or(0, |one| at(&one.in_flight));
            self.equal(&format!("{name}: requests at the dependency"), 0, in_flight);
        }
        let in_flight = snapshot.calls_in_flight() as u64;
        self.equal(&format!("{name}: calls in flight"), 0, in_flight);
        for breaker in snapshot.breakers() {
            let key = breaker.key().unwrap_or("its breaker");
            let places = u64::from(breaker.in_flight());
            self.equal(
                &format!("{name}: places taken under the limit of {key}"),
                0,
                places,
            );
        }
        for stuck in client.open_breakers() {
            self.equal(&format!("{name}: {stuck}, not closed"), 0, 1);
        }
        self.calls(client);
        self.tokens(client, snapshot.budget_balance().unwrap_or(0.0));

        let ledger = &client.ledger;
        let parked = at(&ledger.parked);
        self.equal(
            &format!("{name}: parked, unparked"),
            parked,
            at(&ledger.unparked),
        );
        if let Some(left) = ledger.left_parked() {
            self.equal(&format!("{name}: places taken by parked calls"), 0, left);
        }
        if client.handles.is_none() {
            let known = at(&ledger.breakers_added) - at(&ledger.breakers_removed);
            let mut there = snapshot.breakers().len() as u64;
            // The overflow breaker is told of, but shown only once it was needed.
            there += u64::from(snapshot.breakers().iter().all(|one| one.key().is_some()));
            self.equal(&format!("{name}: breakers told of, there"), known, there);
        }
    }

    fn calls(&mut self, client: &Client) {
        let (name, ledger, counts) = (client.name, &client.ledger, &client.counts);
        let at = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let begun = at(&counts.begun);
        let over = all_over(counts);
        self.equal(&format!("{name}: calls begun, over"), begun, over);
        if !matches!(client.shape, Shape::Deferring) {
            let told = ledger.all_ended();
            self.equal(
                &format!("{name}: calls begun, told to observers"),
                begun,
                told,
            );
        }
        if matches!(client.shape, Shape::Same) {
            let answers = [CallOutcome::Success, CallOutcome::Answered];
            let answered = answers.map(|outcome| ledger.ended(outcome)).iter().sum();
            let dropped = at(&counts.cancelled) + at(&counts.panicked);
            for (what, seen, told) in [
                ("answered", at(&counts.answered), answered),
                (
                    "failed",
                    at(&counts.failed),
                    ledger.ended(CallOutcome::Failed),
                ),
                (
                    "timed out",
                    at(&counts.timed_out),
                    ledger.ended(CallOutcome::TimedOut),
                ),
                (
                    "out of time",
                    at(&counts.out_of_time),
                    ledger.ended(CallOutcome::DeadlineExceeded),
                ),
                (
                    "refused",
                    at(&counts.refused),
                    ledger.ended(CallOutcome::Refused),
                ),
                ("dropped", dropped, ledger.ended(CallOutcome::Dropped)),
            ] {
                self.equal(&format!("{name}: {what}, told to observers"), seen, told);
            }
        }
        for (name, ledger) in client.ledgers() {
            self.attempts(name, ledger);
        }
        let asked = at(&client.dependency.asked);
        match &client.shape {
            // Some found no room under a cap once the dependency was ready.
            Shape::Nesting(inside) => {
                let outer = at(&ledger.attempts);
                self.equal("nesting: attempts, calls inside", outer, inside.all_ended());
            }
            _ => {
                let attempts = at(&ledger.attempts);
                self.equal(
                    &format!("{name}: attempts, at the dependency"),
                    attempts,
                    asked,
                );
            }
        }
    }

    fn attempts(&mut self, name: &str, ledger: &Ledger) {
        let of_calls = ledger.attempts_of_calls.load(Ordering::Relaxed);
        let attempts = ledger.attempts.load(Ordering::Relaxed);
        self.equal(
            &format!("{name}: attempts of calls, by themselves"),
            of_calls,
            attempts,
        );
    }

    fn tokens(&mut self, client: &Client, balance: f64) {
        let name = client.name;
        let micros = |tokens: f64| (tokens * 1e6).round() as u64;
        match client.tokens {
            Tokens::Within(cap) => {
                let outside = u64::from(!(0.0..=cap).contains(&balance));
                self.equal(
                    &format!("{name}: a balance of {balance}, outside its bounds"),
                    0,
                    outside,
                );
            }
            Tokens::Room(room) => {
                let what = format!("{name}: millionths of retries that there is room for");
                self.equal(&what, micros(room), micros(balance));
            }
            Tokens::Exactly { opening, ratio } => {
                let deposits = client.ledger.deposits.load(Ordering::Relaxed);
                let spent = client.ledger.spent.load(Ordering::Relaxed);
                let due = micros(opening) + deposits * micros(ratio) - spent;
                self.equal(
                    &format!("{name}: millionths of tokens"),
                    due,
                    micros(balance),
                );
            }
        }
    }

    /// Whether the fallback's first entry still takes as many calls as it may.
    async fn places_of_the_fallback(&mut self, client: &Arc<Client>, climate: &Climate) {
        let (Some(secondary), Some(handles)) = (&client.secondary, &client.handles) else {
            return;
        };
        climate.turn(Weather::Hanging);
        handles.breaker.force_open("counting the fallback's places");
        let calls: Vec<_> = (0..FALLBACK_PLACES + 3)
            .map(|key| {
                let key = u32::try_from(key).expect("a few");
                let request = Request {
                    key,
                    copyable: true,
                    idempotent: true,
                    body: Vec::new(),
                };
                tokio::spawn(client.call(request))
            })
            .collect();
        sleep(Duration::from_millis(150)).await;
        let taken = secondary.in_flight.load(Ordering::Relaxed);
        for call in calls {
            call.abort();
            let _ = call.await;
        }
        handles.breaker.reset();
        climate.turn(Weather::Fair);
        self.equal("covered: places of the fallback", FALLBACK_PLACES, taken);
        // Those calls were nobody's.
        let begun = FALLBACK_PLACES + 3;
        client.counts.begun.fetch_add(begun, Ordering::Relaxed);
        client.counts.cancelled.fetch_add(begun, Ordering::Relaxed);
    }
}

fn all_over(counts: &Counts) -> u64 {
    [
        &counts.answered,
        &counts.failed,
        &counts.timed_out,
        &counts.out_of_time,
        &counts.refused,
        &counts.cancelled,
        &counts.panicked,
    ]
    .iter()
    .map(|counter| counter.load(Ordering::Relaxed))
    .sum()
}

/// Those that are done leave a moment after whoever waited for them knows it.
async fn live_tasks() -> u64 {
    for _ in 0..100 {
        if Handle::current().metrics().num_alive_tasks() == 0 {
            return 0;
        }
        sleep(Duration::from_millis(10)).await;
    }
    Handle::current().metrics().num_alive_tasks() as u64
}
