//! What every scenario is to the command line, and the list of them.

use std::time::Duration;

use tower::BoxError;

use super::amplification::Amplification;
use super::blips::Blips;
use super::eval_jobs::EvalJobs;
use super::fixture::Fixture;
use super::inputs::Input;
use super::jitter::Jitter;
use super::latency::Latency;
use super::live::Live;
use super::load_feedback::LoadFeedback;
use super::report::Report;
use super::retry_storm::RetryStorm;
use super::slots::Slots;
use super::ten_second_outage::TenSecondOutage;

/// One story with its inputs.
pub(crate) trait Scenario {
    /// The name on the command line and the key in the JSON.
    fn name(&self) -> &'static str;

    /// What it shows, in a few words.
    fn summary(&self) -> &'static str;

    /// Everything that `--set` can change.
    fn inputs(&mut self) -> Vec<Input<'_>>;

    /// Refuses inputs that make no sense or would take for ever, naming key and value.
    ///
    /// # Errors
    ///
    /// The complaint, beginning with the key.
    fn check(&self) -> Result<(), String>;

    /// Runs it with its present inputs.
    ///
    /// # Errors
    ///
    /// Whatever kept it from coming to its figures.
    fn run(&self, seed: u64) -> Result<Report, BoxError>;
}

/// Every scenario with its default inputs, in the order in which they run.
pub(crate) fn all() -> Vec<Box<dyn Scenario>> {
    vec![
        Box::new(Amplification::default()),
        Box::new(TenSecondOutage::default()),
        Box::new(EvalJobs::default()),
        Box::new(Fixture::default()),
        Box::new(Latency::default()),
        Box::new(Slots::default()),
        Box::new(Blips::default()),
        Box::new(Jitter::default()),
        Box::new(LoadFeedback::default()),
        Box::new(RetryStorm::default()),
        Box::new(Live::default()),
    ]
}

/// For [`Scenario::check`]: the value of `key` must be above zero.
pub(crate) fn above_zero(key: &str, value: f64) -> Result<(), String> {
    if value > 0.0 {
        return Ok(());
    }
    Err(format!("{key}={value}: must be above zero"))
}

/// For [`Scenario::check`]: the value of `key` must not exceed `most`.
pub(crate) fn at_most(key: &str, value: f64, most: f64) -> Result<(), String> {
    if value <= most {
        return Ok(());
    }
    Err(format!("{key}={value}: must be at most {most}"))
}

/// For [`Scenario::check`]: as [`above_zero`], for a time in seconds.
pub(crate) fn some_time(key: &str, value: Duration) -> Result<(), String> {
    above_zero(key, value.as_secs_f64())
}

/// For [`Scenario::check`]: a time that must end with a second.
pub(crate) fn whole_seconds(key: &str, value: Duration) -> Result<(), String> {
    if value.subsec_nanos() == 0 {
        return Ok(());
    }
    let seconds = value.as_secs_f64();
    Err(format!("{key}={seconds}: must be whole seconds"))
}

/// The published figure where the inputs are the published ones, else a dash.
pub(crate) fn reference(applies: bool, text: &str) -> String {
    String::from(if applies { text } else { "-" })
}
