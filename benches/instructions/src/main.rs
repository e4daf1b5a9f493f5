//! Runs one workload a given number of times, for an instruction counter to
//! look at: `steadfast-instructions WORKLOAD CALLS`.
//!
//! Two runs that differ only in `CALLS` differ in instructions by exactly what
//! the additional calls cost; start-up cancels out. The program itself counts
//! allocations, prints the size of the call's future, and with `keys CALLS` the
//! bytes that each of so many keyed breakers takes, and with `cycles CALLS` what a
//! breaker holds more of after so many openings. `list` names the workloads
//! whose calls are counted.

mod breaker;
#[path = "../../support/call.rs"]
mod call;
mod counting;
mod footprint;
#[path = "../../support/inner.rs"]
mod inner;
mod observed;
#[path = "../../support/policy.rs"]
mod policy;
mod repeat;
#[path = "../../support/rules.rs"]
mod rules;
mod stack;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let workload = arguments.next().unwrap_or_else(|| usage());
    let calls: u64 = match arguments.next().map(|n| n.parse()) {
        Some(Ok(calls)) => calls,
        None if ["list", "size"].contains(&workload.as_str()) => 0,
        _ => usage(),
    };
    match workload.as_str() {
        "list" => workloads().for_each(|(name, _)| println!("{name}")),
        "size" => footprint::print_sizes(),
        "keys" => footprint::print_bytes_per_key(calls),
        "cycles" => footprint::print_growth_over_cycles(calls),
        _ => match workloads().find(|(name, _)| *name == workload) {
            Some((_, run)) => run(calls),
            None => usage(),
        },
    }
}

/// A name, and what makes so many calls.
type Workload = (&'static str, fn(u64));

fn workloads() -> impl Iterator<Item = &'static Workload> {
    stack::WORKLOADS
        .iter()
        .chain(observed::WORKLOADS)
        .chain(breaker::WORKLOADS)
}

fn usage() -> ! {
    eprintln!(
        "usage: steadfast-instructions list | size | keys CALLS | cycles CALLS | WORKLOAD CALLS"
    );
    std::process::exit(2);
}
