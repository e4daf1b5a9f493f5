//! The figures of the `outage` example follow from its inputs: each scenario is run with inputs of
//! its own and held against a plain model written here, which knows nothing of the library.

#[path = "../../examples/outage/main.rs"]
#[expect(dead_code, reason = "the program's own door is not used from here")]
mod outage;

mod amplification;
mod blips;
mod command_line;
mod eval_jobs;
mod fixture;
mod jitter;
mod latency;
mod live;
mod load_feedback;
mod pictures;
mod plain;
mod retry_storm;
mod slots;
mod storm_gate;
mod ten_second_outage;
