//! Errors in the shape of Anthropic's.
//!
//! Source: the pages on errors and on rate limits on the provider's site, as of
//! November 2026. `error.type` says what it was. Spend comes in three forms:
//! as `billing_error`; as a `rate_limit_error` with
//! `error.details.error_code`, which no wait mends; and, for limits that one
//! has set oneself and for an empty balance, as an `invalid_request_error` that
//! only its message tells apart.

use super::found::Found;
use super::kind::ProviderErrorKind as Kind;

/// How the messages about spend begin that come as an invalid request.
const SPENT: [&str; 3] = [
    "You have reached your specified API usage limits",
    "You have reached your specified workspace API usage limits",
    "Your credit balance is too low",
];

pub(super) fn read(found: &Found) -> Option<Kind> {
    if found.detail_code.as_deref() == Some("enforced_spend_limit_reached") {
        return Some(Kind::Quota);
    }
    Some(match found.error_type.as_deref()? {
        "overloaded_error" => Kind::Overloaded,
        "rate_limit_error" => Kind::RateLimited,
        "billing_error" => Kind::Quota,
        "invalid_request_error" if is_spent(found) => Kind::Quota,
        "invalid_request_error" | "not_found_error" | "request_too_large" => Kind::InvalidRequest,
        "authentication_error" | "permission_error" => Kind::Auth,
        "timeout_error" => Kind::TimedOut,
        _ => return None,
    })
}

fn is_spent(found: &Found) -> bool {
    let message = found.message.as_deref().unwrap_or_default();
    SPENT.iter().any(|begins| message.starts_with(begins))
}
