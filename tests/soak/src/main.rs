//! A soak: mixed traffic on two threads, in real time, with cancellations, panics
//! of services, classifiers and observers, hangs, outages, deadlines, fallbacks,
//! parked calls, caps, and breakers that are steered meanwhile.
//!
//! ```sh
//! SOAK_SECONDS=600 cargo run --release --manifest-path tests/soak/Cargo.toml
//! ```
//!
//! Each round, a minute or a third of a shorter soak, ends with fair weather and
//! then with a quiet point, at which everything is counted: see `checks`. A line
//! each ten seconds tells how it goes. Exits with 1 if anything was wrong.

mod chance;
mod checks;
mod clients;
mod counting;
mod dependency;
mod judge;
mod ledger;
mod operator;
mod stacks;
mod traffic;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, interval_at, sleep, sleep_until};

use checks::Checks;
use clients::{Client, Counts};
use dependency::{Climate, Weather};
use traffic::{Order, Orders, caller};

const CALLERS: usize = 64;
const ROUND: Duration = Duration::from_secs(60);
/// How long fair weather may take to close every breaker.
const LONGEST_RECOVERY: Duration = Duration::from_secs(10);

/// What a round brings, in sixteenths of it.
const WEATHER: [(Weather, u32); 8] = [
    (Weather::Fair, 3),
    (Weather::Outage, 3),
    (Weather::Mixed, 2),
    (Weather::Hanging, 1),
    (Weather::Slow, 2),
    (Weather::Outage, 2),
    (Weather::Fair, 1),
    (Weather::Mixed, 2),
];

fn main() -> ExitCode {
    let seconds = std::env::var("SOAK_SECONDS").map_or(Ok(600), |seconds| seconds.parse());
    let Ok(seconds) = seconds else {
        eprintln!("SOAK_SECONDS is no number of seconds");
        return ExitCode::from(2);
    };
    chance::count_panics();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .expect("a runtime");
    let failures = runtime.block_on(soak(Duration::from_secs(seconds)));
    if failures == 0 {
        println!("passed");
        ExitCode::SUCCESS
    } else {
        println!("FAILED: {failures} quantities are wrong");
        ExitCode::FAILURE
    }
}

async fn soak(total: Duration) -> usize {
    let begun = Instant::now();
    let climate = Arc::<Climate>::default();
    let clients: Arc<[_]> = stacks::all(&climate).into();
    let mut checks = Checks::default();
    let round = ROUND.min(total / 3);
    while begun.elapsed() < total {
        traffic(begun, round, &clients, &climate).await;
        checks.quiet(&clients, &climate).await;
        println!(
            "{:>4} s quiet: {} bytes held, {} failures so far",
            begun.elapsed().as_secs(),
            counting::held_bytes(),
            checks.failures(),
        );
    }
    summary(&clients);
    checks.failures()
}

/// One round, after which nothing is under way.
async fn traffic(
    begun: Instant,
    round: Duration,
    clients: &Arc<[Arc<Client>]>,
    climate: &Arc<Climate>,
) {
    let orders = Arc::<Orders>::default();
    climate.let_chaos(true);
    let reporter = tokio::spawn(report(begun, Arc::clone(clients)));
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| tokio::spawn(caller(Arc::clone(clients), Arc::clone(&orders))))
        .collect();
    let chaos = round * 5 / 6;
    let now = Instant::now();
    let operator = tokio::spawn(operator::operate(Arc::clone(clients), now + chaos));
    let mut until = now;
    for (weather, sixteenths) in WEATHER {
        climate.turn(weather);
        until += chaos * sixteenths / 16;
        sleep_until(until).await;
    }
    operator.await.expect("an operator without a panic");

    climate.let_chaos(false);
    climate.turn(Weather::Fair);
    orders.give(Order::Heal);
    let latest = Instant::now() + LONGEST_RECOVERY;
    sleep(round / 6).await;
    while open_breakers(clients) > 0 && Instant::now() < latest {
        sleep(Duration::from_millis(50)).await;
    }
    orders.give(Order::Stop);
    for caller in callers {
        caller.await.expect("a caller without a panic");
    }
    reporter.abort();
    let _ = reporter.await;
}

fn open_breakers(clients: &[Arc<Client>]) -> usize {
    clients
        .iter()
        .map(|client| client.open_breakers().len())
        .sum()
}

async fn report(begun: Instant, clients: Arc<[Arc<Client>]>) {
    let ten = Duration::from_secs(10);
    let passed = u32::try_from(begun.elapsed().as_secs() / 10).unwrap_or(u32::MAX);
    let mut ticks = interval_at(begun + ten * (passed + 1), ten);
    loop {
        ticks.tick().await;
        let sum = |of: fn(&Counts) -> &AtomicU64| -> u64 {
            let counts = clients.iter().map(|client| of(&client.counts));
            counts.map(|counter| counter.load(Ordering::Relaxed)).sum()
        };
        let late = sum(|c| &c.timed_out) + sum(|c| &c.out_of_time);
        let ledgers = clients.iter().flat_map(|client| client.ledgers());
        let retries: u64 = ledgers
            .map(|(_, ledger)| ledger.retries.load(Ordering::Relaxed))
            .sum();
        println!(
            "{:>4} s: {} calls, {} answered, {} failed, {} refused, {late} timed out, \
             {} cancelled, {} panicked, {retries} retries, {} breakers open, {} bytes held",
            begun.elapsed().as_secs(),
            sum(|c| &c.begun),
            sum(|c| &c.answered),
            sum(|c| &c.failed),
            sum(|c| &c.refused),
            sum(|c| &c.cancelled),
            sum(|c| &c.panicked),
            open_breakers(&clients),
            counting::held_bytes(),
        );
    }
}

fn summary(clients: &[Arc<Client>]) {
    let at = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    for client in clients {
        let counts = &client.counts;
        println!(
            "{}: {} calls, {} answered, {} failed, {} refused, {} timed out, {} out of time, \
             {} cancelled, {} panicked; {} dropped unpolled",
            client.name,
            at(&counts.begun),
            at(&counts.answered),
            at(&counts.failed),
            at(&counts.refused),
            at(&counts.timed_out),
            at(&counts.out_of_time),
            at(&counts.cancelled),
            at(&counts.panicked),
            at(&counts.unpolled),
        );
        for (name, ledger) in client.ledgers() {
            println!(
                "    {name}: {} attempts, {} retries, {} breakers opened, {} parked",
                at(&ledger.attempts),
                at(&ledger.retries),
                at(&ledger.openings),
                at(&ledger.parked),
            );
        }
    }
    println!("{} planned panics", chance::planned_panics());
}
