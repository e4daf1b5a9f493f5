//! The names, as the table of the docs has them.

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

pub(super) const CALLS: &str = "steadfast_calls_total";
pub(super) const DURATION: &str = "steadfast_call_duration_seconds";
pub(super) const CALL_ATTEMPTS: &str = "steadfast_call_attempts";
pub(super) const AMPLIFICATION: &str = "steadfast_amplification_ratio";
pub(super) const ATTEMPTS: &str = "steadfast_attempts_total";
pub(super) const RETRIES: &str = "steadfast_retries_total";
pub(super) const DENIALS: &str = "steadfast_retry_denials_total";
pub(super) const BACKOFF: &str = "steadfast_backoff_seconds";
pub(super) const BALANCE: &str = "steadfast_retry_budget_balance";
pub(super) const DEADLINE_LEFT: &str = "steadfast_deadline_left_seconds";
pub(super) const PARKED: &str = "steadfast_parked_calls";
pub(super) const FALLBACKS: &str = "steadfast_fallbacks_total";
pub(super) const REFUSALS: &str = "steadfast_breaker_refusals_total";
pub(super) const TRANSITIONS: &str = "steadfast_breaker_transitions_total";
pub(super) const BREAKERS: &str = "steadfast_breakers";

/// Tells the recorder of units and meanings.
pub(super) fn describe() {
    for (name, text) in [
        (CALLS, "Calls that have ended"),
        (ATTEMPTS, "Attempts that have ended"),
        (RETRIES, "Retries that were granted"),
        (DENIALS, "Failures that would have been tried again"),
        (FALLBACKS, "Answers and failures of fallback entries"),
        (REFUSALS, "Calls that a breaker turned away"),
        (TRANSITIONS, "Changes of state, by the state entered"),
    ] {
        describe_counter!(name, Unit::Count, text);
    }
    for (name, text) in [
        (AMPLIFICATION, "Attempts per call, a moving average"),
        (BALANCE, "Retry budget after the last call, in tokens"),
        (PARKED, "Calls that are put off now"),
        (BREAKERS, "Breakers that are in this state"),
    ] {
        describe_gauge!(name, Unit::Count, text);
    }
    for (name, text) in [
        (DURATION, "From the call to its end"),
        (BACKOFF, "How long each retry was to wait"),
        (DEADLINE_LEFT, "What calls had until their deadline"),
    ] {
        describe_histogram!(name, Unit::Seconds, text);
    }
    describe_histogram!(CALL_ATTEMPTS, Unit::Count, "Attempts per call");
}
