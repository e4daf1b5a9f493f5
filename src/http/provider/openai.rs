//! Errors in the shape of OpenAI's, which Azure and many others share.
//!
//! Source: the guides to error codes and to spend limits on
//! developers.openai.com, and Azure's on content filters, as of November 2026.
//! `error.code` says what it was, `error.type` only of what family; all of
//! billing has the type `insufficient_quota`.

use super::found::Found;
use super::kind::ProviderErrorKind as Kind;

pub(super) fn read(found: &Found) -> Option<Kind> {
    let words = [
        &found.code,
        &found.inner_code,
        &found.error_type,
        &found.outer_code,
        &found.outer_type,
    ];
    let mut kinds = words.into_iter().flatten().filter_map(|word| kind(word));
    let first = kinds.next()?;
    // The family of a code that is shared: a quota that is spent may come with
    // the code of a mere rate.
    let spent = first == Kind::RateLimited && kinds.any(|kind| kind == Kind::Quota);
    Some(if spent { Kind::Quota } else { first })
}

fn kind(word: &str) -> Option<Kind> {
    Some(match word {
        "insufficient_quota"
        | "billing_hard_limit_reached"
        | "billing_not_active"
        | "credit_balance_exhausted"
        | "organization_spend_limit_exceeded"
        | "organization_usage_limit_exceeded"
        | "project_spend_limit_exceeded" => Kind::Quota,
        "rate_limit_exceeded"
        | "rate_limit_error"
        | "slow_down"
        | "requests"
        | "tokens"
        | "too_many_requests"
        | "RateLimitReached" => Kind::RateLimited,
        "server_is_overloaded" | "service_unavailable_error" | "engine_overloaded" => {
            Kind::Overloaded
        }
        "content_filter"
        | "content_policy_violation"
        | "moderation_blocked"
        | "invalid_prompt"
        | "ResponsibleAIPolicyViolation" => Kind::ContentFilter,
        "invalid_api_key"
        | "invalid_organization"
        | "account_deactivated"
        | "authentication_error"
        | "permission_error"
        | "unsupported_country_region_territory" => Kind::Auth,
        "invalid_request_error"
        | "context_length_exceeded"
        | "string_above_max_length"
        | "model_not_found"
        | "DeploymentNotFound"
        | "unsupported_parameter"
        | "unsupported_value" => Kind::InvalidRequest,
        _ => return None,
    })
}
