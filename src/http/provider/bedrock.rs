//! Errors in the shape of Amazon Bedrock's.
//!
//! Source: "Troubleshooting Amazon Bedrock API Error Codes" in its user guide
//! and the errors of `InvokeModel` in its reference, as of November 2026; where
//! the code stands is Smithy's AWS restJson1 protocol ("Operation error
//! serialization"): in `x-amzn-errortype`, or as `code` or `__type` of the
//! body, with a namespace before `#` and a URL after `:` to be cut off.

use ::http::HeaderMap;

use super::found::Found;
use super::kind::ProviderErrorKind as Kind;

pub(super) fn read(headers: &HeaderMap, found: &Found) -> Option<Kind> {
    let code = by_header(headers)
        .or(found.outer_code.as_deref())
        .or(found.shape.as_deref())?;
    Some(match bare(code) {
        "ThrottlingException" | "Throttling" | "TooManyRequestsException" => Kind::RateLimited,
        // The model is being loaded: not begun, and no rate of ours.
        "ServiceUnavailableException" | "ServiceUnavailable" | "ModelNotReadyException" => {
            Kind::Overloaded
        }
        "ServiceQuotaExceededException" => Kind::Quota,
        "ModelTimeoutException" => Kind::TimedOut,
        // What the model itself answered goes with it.
        "ModelErrorException" | "ModelStreamErrorException" => match found.original_status {
            Some(400..=499) => Kind::InvalidRequest,
            _ => Kind::Failed,
        },
        "ValidationException" | "ValidationError" | "ResourceNotFoundException" => {
            Kind::InvalidRequest
        }
        "AccessDeniedException"
        | "ExpiredTokenException"
        | "ExpiredToken"
        | "FTUFormNotFilled"
        | "IncompleteSignature"
        | "InvalidClientTokenId"
        | "InvalidSignatureException"
        | "MissingAuthenticationToken"
        | "NotAuthorized"
        | "OptInRequired"
        | "RequestExpired"
        | "SignatureDoesNotMatch"
        | "UnrecognizedClientException" => Kind::Auth,
        _ => return None,
    })
}

/// The code where it stands in a header; an empty one says nothing.
pub(super) fn by_header(headers: &HeaderMap) -> Option<&str> {
    let header = headers.get("x-amzn-errortype")?;
    header.to_str().ok().filter(|code| !bare(code).is_empty())
}

/// The name alone.
fn bare(code: &str) -> &str {
    let code = code.split(':').next().unwrap_or(code);
    let code = code.split_once('#').map_or(code, |(_, name)| name);
    code.trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_freed_of_namespace_and_url() {
        for code in [
            "FooError",
            " FooError ",
            "FooError:http://internal.example/coral/",
            "com.example#FooError",
            "com.example#FooError:http://internal.example/coral#x",
        ] {
            assert_eq!(bare(code), "FooError");
        }
        for code in ["", ":", "#", "#:"] {
            assert_eq!(bare(code), "");
        }
    }
}
