//! steadfast and its peers on the same work, in one process and in turn.
//!
//! ```sh
//! cargo run --release --manifest-path benches/peers/Cargo.toml            # one table, about a minute
//! cargo run --release --manifest-path benches/peers/Cargo.toml -- --json  # the same as one JSON object
//! benches/peers/instructions                                              # exact instructions per call
//! ```
//!
//! # The work
//!
//! Everybody wraps the same service, which does next to nothing, with what they
//! have of: a deadline of 30 s, three attempts with jittered backoff and a retry
//! budget, a circuit breaker, 10 s for each attempt. The modules under `peers`
//! say what each of them has and has not. steadfast has all of it, its breaker
//! with a failure rate over ten seconds; a peer with several trip rules is given
//! its cheapest.
//!
//! | workload | what is called |
//! |---|---|
//! | `ready` | a stack whose service answers at the first poll |
//! | `pending` | a stack whose service answers at the second poll: a timer is needed |
//! | `refused` | a stack whose breaker is open |
//! | `one-retry` | a stack whose service fails every other attempt; retries do not wait |
//! | `breaker-success`, `breaker-failure` | the breaker alone, closed |
//! | `threads-ready`, `threads-pending` | two threads, each with a clone of one stack, and one runtime's timers |
//!
//! At the end a breaker for each of 100,000 keys, in bytes.
//!
//! # The figures
//!
//! In every round each contender makes as many calls as fit into half a
//! millisecond; the next round begins with another contender. A time is the
//! median over the rounds, a ratio the median of the ratios within each round,
//! which a slow moment of the machine moves less than the times. `bare` is the
//! service without any of it. `to 1 thread` is how many times more calls per
//! second two threads make than one. Errors are a byte, so that copies of the
//! `Result` do not cover the rest. A `–` is what a contender cannot do. Rounds in
//! which one of two threads was put off its core do not count; with too few left
//! the program says so.
//!
//! Calls are polled again in place after `Pending`, outside of tokio's
//! cooperative budget: as the first thing that a task does, but without the
//! scheduler's own time. Allocations are counted per thread, by plain additions.
//!
//! # What is checked
//!
//! A figure is only worth something if the contender did the work. Before the
//! rounds every stack must answer a call that fails once, after a real wait and
//! exactly two calls of the service; every breaker must admit at first, open
//! under failures, and refuse without a call of the service. In the rounds every
//! call must end as the workload says, and the service must have been called as
//! often as it says. Otherwise the program ends with the contender, the
//! workload and what went wrong.

mod arguments;
mod calls;
mod check;
mod contender;
mod counting;
mod inner;
mod keys;
mod peers;
mod report;
mod rounds;
mod settings;
mod single;
mod subject;
mod threads;
mod workload;

use std::process::ExitCode;

use arguments::{Command, USAGE};
use report::Report;
use subject::{SUBJECTS, Subject};
use tokio::runtime::Runtime;
use workload::Workload;

fn main() -> ExitCode {
    let command = match arguments::parse(std::env::args().skip(1)) {
        Ok(command) => command,
        Err(problem) => {
            eprintln!("{problem}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let done = match command {
        Command::Compare { json, rounds, keys } => compare(json, rounds, keys),
        Command::Only {
            subject,
            workload,
            calls,
        } => only(subject, workload, calls),
        Command::List => {
            list();
            Ok(())
        }
        Command::Help => {
            println!("{USAGE}");
            Ok(())
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

fn compare(json: bool, rounds: u32, keys: u64) -> Result<(), String> {
    let runtime = runtime();
    let progress = |at: &str| eprintln!("{at}");
    let rows = rounds::run(rounds, &runtime, progress)?;
    progress(&format!("{keys} keys each"));
    let per_key = keys::bytes_per_key(keys, &runtime)?;
    let report = Report {
        rounds,
        rows,
        keys,
        per_key,
    };
    if let Some(doubt) = report.doubt() {
        progress(&doubt);
    }
    if json {
        println!("{}", report.json());
    } else {
        print!("{}", report.table());
    }
    Ok(())
}

fn only(subject: &Subject, workload: Workload, calls: u64) -> Result<(), String> {
    let (name, runtime) = (subject.name, runtime());
    let named = |problem: String| format!("{name} on {}: {problem}", workload.name());
    let mut measured = subject
        .on(workload, &runtime)
        .ok_or_else(|| named("it cannot do that".to_owned()))?;
    measured.prepare().map_err(named)?;
    let batch = measured.measure(calls).map_err(named)?.batch;
    println!("calls {} allocations {}", batch.calls, batch.allocations);
    Ok(())
}

fn list() {
    let runtime = runtime();
    for workload in Workload::ALL {
        for subject in &SUBJECTS {
            if !workload.is_threaded() && subject.on(workload, &runtime).is_some() {
                println!("{} {}", workload.name(), subject.name);
            }
        }
    }
}

/// It is never parked while calls are measured.
fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime")
}
