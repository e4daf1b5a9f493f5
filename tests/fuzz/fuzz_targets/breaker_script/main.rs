//! Settings of a breaker and what happens to it, made of bytes, in paused time:
//! admissions, outcomes, drops, panics, waits to the nanosecond, and every
//! control.
//!
//! After each step all that can be seen of it is what the reference breaker says.
//! At the end time and healthy calls have closed it, with no call left in flight.

#![no_main]

#[path = "../../../breaker_model/mod.rs"]
mod breaker_model;
mod generate;

use libfuzzer_sys::fuzz_target;

use breaker_model::drive::{Seen, play};

fuzz_target!(|data: &[u8]| {
    let Ok((settings, steps)) = generate::case(data) else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    let played = runtime.block_on(play(settings, steps.clone(), &mut Seen::new()));
    if let Err(difference) = played {
        panic!("{difference}\nof {settings:#?}\n{steps:#?}");
    }
});
