//! Errors in the shape of Vertex AI's and of Google's other APIs.
//!
//! Source: "Generative AI on Vertex AI: API errors", and `google/rpc/code.proto`,
//! `google/rpc/error_details.proto` and `google/api/error_reason.proto`, as of
//! November 2026. `error.status` is the canonical code; `error.details` refine
//! it. A streaming method wraps its error in an array. A model of Anthropic's on
//! Vertex AI answers in that provider's shape.

use std::time::Duration;

use super::anthropic;
use super::found::Found;
use super::kind::ProviderErrorKind as Kind;
use crate::http::number::digits;

pub(super) fn read(found: &Found) -> Option<Kind> {
    let refined = found.reason.as_deref().and_then(by_reason);
    match (refined, found.status.as_deref()) {
        _ if found.block_reason.is_some() => Some(Kind::ContentFilter),
        // What a quota of a day forbids, or one of nothing, no backoff mends.
        (None | Some(Kind::RateLimited), Some("RESOURCE_EXHAUSTED")) if found.long_quota => {
            Some(Kind::Quota)
        }
        (Some(kind), _) => Some(kind),
        (None, Some(status)) => by_status(status),
        (None, None) => anthropic::read(found),
    }
}

fn by_status(status: &str) -> Option<Kind> {
    Some(match status {
        "RESOURCE_EXHAUSTED" => Kind::RateLimited,
        "UNAVAILABLE" => Kind::Overloaded,
        "PERMISSION_DENIED" | "UNAUTHENTICATED" => Kind::Auth,
        "INVALID_ARGUMENT" | "NOT_FOUND" | "OUT_OF_RANGE" => Kind::InvalidRequest,
        "DEADLINE_EXCEEDED" => Kind::TimedOut,
        _ => return None,
    })
}

/// `google.rpc.ErrorInfo.reason`, and the reasons for which a prompt is
/// blocked.
fn by_reason(reason: &str) -> Option<Kind> {
    Some(match reason {
        "BILLING_DISABLED" | "RESOURCE_QUOTA_EXCEEDED" => Kind::Quota,
        "RATE_LIMIT_EXCEEDED" => Kind::RateLimited,
        "SAFETY" | "PROHIBITED_CONTENT" | "BLOCKLIST" | "IMAGE_SAFETY" => Kind::ContentFilter,
        "ACCESS_TOKEN_EXPIRED"
        | "ACCESS_TOKEN_SCOPE_INSUFFICIENT"
        | "ACCESS_TOKEN_TYPE_UNSUPPORTED"
        | "ACCOUNT_STATE_INVALID"
        | "API_KEY_HTTP_REFERRER_BLOCKED"
        | "API_KEY_INVALID"
        | "API_KEY_IP_ADDRESS_BLOCKED"
        | "API_KEY_SERVICE_BLOCKED"
        | "CONSUMER_INVALID"
        | "CONSUMER_SUSPENDED"
        | "CREDENTIALS_MISSING"
        | "IAM_PERMISSION_DENIED"
        | "SERVICE_DISABLED"
        | "USER_PROJECT_DENIED" => Kind::Auth,
        _ => return None,
    })
}

/// `google.rpc.RetryInfo.retryDelay`.
pub(super) fn retry_delay(found: &Found) -> Option<Duration> {
    duration(found.retry_delay.as_deref()?)
}

/// The JSON form of `google.protobuf.Duration`: seconds with at most nine
/// decimals, and `s`. Negative is none; too many seconds stay many.
fn duration(text: &str) -> Option<Duration> {
    const PLACES: usize = 9;
    let number = text.strip_suffix('s')?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let seconds = digits(whole.as_bytes())?;
    let nanos = digits(fraction.as_bytes()).filter(|_| fraction.len() <= PLACES)?;
    let places = u32::try_from(PLACES - fraction.len()).ok()?;
    let nanos = Duration::from_nanos(nanos.saturating_mul(10_u64.pow(places)));
    Some(Duration::from_secs(seconds).saturating_add(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_is_read_in_its_one_form() {
        for (text, nanos) in [
            ("0s", 0),
            ("46s", 46_000_000_000),
            ("1.5s", 1_500_000_000),
            ("36617.723541104s", 36_617_723_541_104),
            ("0.000000001s", 1),
            ("0.100s", 100_000_000),
        ] {
            assert_eq!(duration(text), Some(Duration::from_nanos(nanos)), "{text}");
        }
        for text in [
            "",
            "s",
            "5",
            "5 s",
            "-5s",
            "+5s",
            "5m",
            ".5s",
            "5.s",
            "1e3s",
            "NaNs",
            "5ss",
            "0.0000000001s",
            "\u{665}s",
        ] {
            assert_eq!(duration(text), None, "{text:?}");
        }
        let endless = format!("{}.999999999s", "9".repeat(1000));
        assert_eq!(duration(&endless), Some(Duration::MAX));
    }
}
