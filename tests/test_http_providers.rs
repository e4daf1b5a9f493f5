//! The errors of model providers, on bodies written for these tests.

#![cfg(all(feature = "http", feature = "test-util"))]
#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps in vain should fail"
)]

mod support;

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::channel::Channel;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use proptest::prelude::*;
use steadfast::http::{HttpClassifier, LookLayer, Provider, ProviderErrorKind};
use steadfast::test_util::{ScriptedService, Step};
use steadfast::{
    Again, CallReport, Error, Health, PolicyBuilder, Reason, ServedBy, ServiceBuilderExt, Stopped,
    Verdict, Work, fallback,
};
use support::{Clock, bare, budget, secs};
use tower::{ServiceBuilder, ServiceExt, service_fn};

use Provider::{Anthropic, Bedrock, OpenAi, Vertex};
use ProviderErrorKind::{
    Auth, ContentFilter, Failed, InvalidRequest, Overloaded, Quota, RateLimited, TimedOut,
};

const ALL: [Provider; 4] = [OpenAi, Anthropic, Bedrock, Vertex];

fn read(provider: Provider, status: u16, body: impl AsRef<[u8]>) -> Option<ProviderErrorKind> {
    let status = StatusCode::from_u16(status).unwrap();
    let error = provider.read(status, &HeaderMap::new(), body.as_ref());
    error.map(|error| error.kind())
}

fn aws(code: &str) -> HeaderMap {
    HeaderMap::from_iter([(
        http::HeaderName::from_static("x-amzn-errortype"),
        HeaderValue::from_str(code).unwrap(),
    )])
}

// ---- what the codes mean -------------------------------------------------------------

#[test]
fn openai_tells_by_code_and_then_by_type() {
    for (status, code, kind, expected) in [
        (429, "rate_limit_exceeded", "requests", Some(RateLimited)),
        (429, "slow_down", "rate_limit_error", Some(RateLimited)),
        (503, "slow_down", "rate_limit_error", Some(Overloaded)),
        (
            503,
            "server_is_overloaded",
            "service_unavailable_error",
            Some(Overloaded),
        ),
        (429, "insufficient_quota", "insufficient_quota", Some(Quota)),
        (
            429,
            "credit_balance_exhausted",
            "insufficient_quota",
            Some(Quota),
        ),
        (
            429,
            "project_spend_limit_exceeded",
            "insufficient_quota",
            Some(Quota),
        ),
        (
            429,
            "organization_spend_limit_exceeded",
            "insufficient_quota",
            Some(Quota),
        ),
        (
            429,
            "rate_limit_exceeded",
            "insufficient_quota",
            Some(Quota),
        ),
        (429, "a_code_of_tomorrow", "insufficient_quota", Some(Quota)),
        (
            400,
            "billing_hard_limit_reached",
            "invalid_request_error",
            Some(Quota),
        ),
        (
            400,
            "content_policy_violation",
            "invalid_request_error",
            Some(ContentFilter),
        ),
        (400, "content_filter", "", Some(ContentFilter)),
        (
            400,
            "context_length_exceeded",
            "invalid_request_error",
            Some(InvalidRequest),
        ),
        (
            404,
            "model_not_found",
            "invalid_request_error",
            Some(InvalidRequest),
        ),
        (
            400,
            "a_code_of_tomorrow",
            "invalid_request_error",
            Some(InvalidRequest),
        ),
        (401, "invalid_api_key", "invalid_request_error", Some(Auth)),
        (401, "a_code_of_tomorrow", "invalid_request_error", None),
        (500, "a_code_of_tomorrow", "server_error", None),
    ] {
        let body = format!(
            r#"{{"error":{{"message":"no","type":"{kind}","param":null,"code":"{code}"}}}}"#
        );
        assert_eq!(read(OpenAi, status, &body), expected, "{status} {body}");
    }
    let azure =
        r#"{"error":{"code":"filtered","innererror":{"code":"ResponsibleAIPolicyViolation"}}}"#;
    assert_eq!(read(OpenAi, 400, azure), Some(ContentFilter));
    let without_code = r#"{"error":{"type":"insufficient_quota","code":null}}"#;
    assert_eq!(read(OpenAi, 429, without_code), Some(Quota));
    let flat = r#"{"object":"error","type":"invalid_request_error","code":400}"#;
    assert_eq!(read(OpenAi, 400, flat), Some(InvalidRequest));
}

#[test]
fn anthropic_tells_by_type_and_spend_by_detail_or_message() {
    for (status, kind, rest, expected) in [
        (529, "overloaded_error", "", Some(Overloaded)),
        (429, "rate_limit_error", "", Some(RateLimited)),
        (
            429,
            "rate_limit_error",
            r#","details":{"error_code":"enforced_spend_limit_reached"}"#,
            Some(Quota),
        ),
        (402, "billing_error", "", Some(Quota)),
        (400, "invalid_request_error", "", Some(InvalidRequest)),
        (
            400,
            "invalid_request_error",
            r#","message":"You have reached your specified API usage limits, says the test.""#,
            Some(Quota),
        ),
        (
            400,
            "invalid_request_error",
            r#","message":"a text that quotes: Your credit balance is too low""#,
            Some(InvalidRequest),
        ),
        (404, "not_found_error", "", Some(InvalidRequest)),
        (413, "request_too_large", "", Some(InvalidRequest)),
        (401, "authentication_error", "", Some(Auth)),
        (403, "permission_error", "", Some(Auth)),
        (504, "timeout_error", "", Some(TimedOut)),
        (500, "api_error", "", None),
    ] {
        let body = format!(r#"{{"type":"error","error":{{"type":"{kind}"{rest}}}}}"#);
        assert_eq!(read(Anthropic, status, &body), expected, "{status} {body}");
    }
}

#[test]
fn bedrock_tells_by_header_and_else_by_body() {
    for (status, code, expected) in [
        (429, "ThrottlingException", Some(RateLimited)),
        (503, "ServiceUnavailableException", Some(Overloaded)),
        (429, "ModelNotReadyException", Some(Overloaded)),
        (408, "ModelTimeoutException", Some(TimedOut)),
        (424, "ModelErrorException", Some(Failed)),
        (400, "ServiceQuotaExceededException", Some(Quota)),
        (400, "ValidationException", Some(InvalidRequest)),
        (404, "ResourceNotFoundException", Some(InvalidRequest)),
        (403, "AccessDeniedException", Some(Auth)),
        (403, "ExpiredTokenException", Some(Auth)),
        (500, "InternalServerException", None),
        (400, "SomethingOfTomorrow", None),
    ] {
        let http = StatusCode::from_u16(status).unwrap();
        for header in [code.to_owned(), format!("ns#{code}:http://internal/")] {
            let error = Bedrock.read(http, &aws(&header), b"");
            assert_eq!(error.map(|error| error.kind()), expected, "{header}");
        }
        for body in [
            format!(r#"{{"__type":"com.amazon.test#{code}","message":"no"}}"#),
            format!(r#"{{"code":"{code}"}}"#),
        ] {
            assert_eq!(read(Bedrock, status, &body), expected, "{body}");
        }
    }
    let wrong_body = br#"{"code":"ValidationException"}"#;
    let header = aws("ThrottlingException");
    let error = Bedrock.read(StatusCode::TOO_MANY_REQUESTS, &header, wrong_body);
    assert_eq!(error.unwrap().kind(), RateLimited);
}

#[test]
fn bedrock_passes_on_what_the_model_itself_answered() {
    for (original, expected) in [
        ("400", InvalidRequest),
        ("\"422\"", InvalidRequest),
        ("500", Failed),
        ("-400", Failed),
        ("null", Failed),
    ] {
        let body = format!(r#"{{"originalStatusCode":{original}}}"#);
        let status = StatusCode::FAILED_DEPENDENCY;
        let error = Bedrock.read(status, &aws("ModelErrorException"), body.as_bytes());
        assert_eq!(error.unwrap().kind(), expected, "{body}");
    }
}

#[test]
fn vertex_tells_by_status_and_details_also_within_an_array() {
    let quota = |id: &str, value: &str| {
        format!(
            r#""details":[{{"@type":"type.googleapis.com/google.rpc.QuotaFailure",
            "violations":[{{"quotaId":"PerMinute"}},{{"quotaId":"{id}","quotaValue":"{value}"}}]}}]"#
        )
    };
    let reason = |reason: &str| format!(r#""details":[{{"domain":"x"}},{{"reason":"{reason}"}}]"#);
    for (code, status, rest, expected) in [
        (429, "RESOURCE_EXHAUSTED", String::new(), Some(RateLimited)),
        (
            429,
            "RESOURCE_EXHAUSTED",
            quota("TestPerMinute", "5"),
            Some(RateLimited),
        ),
        (
            429,
            "RESOURCE_EXHAUSTED",
            quota("TestPerDayPerModel", "20"),
            Some(Quota),
        ),
        (
            429,
            "RESOURCE_EXHAUSTED",
            quota("TestPerMinute", "0"),
            Some(Quota),
        ),
        (
            429,
            "RESOURCE_EXHAUSTED",
            reason("RATE_LIMIT_EXCEEDED"),
            Some(RateLimited),
        ),
        (
            403,
            "PERMISSION_DENIED",
            reason("BILLING_DISABLED"),
            Some(Quota),
        ),
        (403, "PERMISSION_DENIED", String::new(), Some(Auth)),
        (401, "UNAUTHENTICATED", String::new(), Some(Auth)),
        (
            400,
            "INVALID_ARGUMENT",
            reason("API_KEY_INVALID"),
            Some(Auth),
        ),
        (
            400,
            "INVALID_ARGUMENT",
            reason("SAFETY"),
            Some(ContentFilter),
        ),
        (400, "INVALID_ARGUMENT", String::new(), Some(InvalidRequest)),
        (404, "NOT_FOUND", String::new(), Some(InvalidRequest)),
        (503, "UNAVAILABLE", String::new(), Some(Overloaded)),
        (504, "DEADLINE_EXCEEDED", String::new(), Some(TimedOut)),
        (500, "INTERNAL", String::new(), None),
    ] {
        let comma = if rest.is_empty() { "" } else { "," };
        let body = format!(r#"{{"error":{{"code":{code},"status":"{status}"{comma}{rest}}}}}"#);
        assert_eq!(read(Vertex, code, &body), expected, "{body}");
        let array = format!("[{body}\n]");
        assert_eq!(read(Vertex, code, &array), expected, "{array}");
    }
    let blocked = r#"{"promptFeedback":{"blockReason":"OTHER"}}"#;
    assert_eq!(read(Vertex, 400, blocked), Some(ContentFilter));
    let anthropic = r#"{"type":"error","error":{"type":"overloaded_error"}}"#;
    assert_eq!(read(Vertex, 529, anthropic), Some(Overloaded));
}

#[test]
fn vertex_asks_in_the_body_for_a_wait_and_the_longer_wish_counts() {
    let body = br#"{"error":{"status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":"46.5s"}]}}"#;
    let error = Vertex.read(StatusCode::TOO_MANY_REQUESTS, &HeaderMap::new(), body);
    let error = error.unwrap();
    assert_eq!(error.wait(), Some(secs(46.5)));
    for (header, wait) in [(None, 46.5), (Some(50.0), 50.0), (Some(3.0), 46.5)] {
        let verdict = error.verdict(header.map(secs));
        assert_eq!(verdict.hint(), Some(secs(wait)));
    }
}

// ---- bodies that are not what they should be -------------------------------------------

#[test]
fn a_body_in_another_shape_says_nothing() {
    for provider in ALL {
        for body in [
            "",
            "null",
            "0",
            "[]",
            "{}",
            "<html><h1>429 Too Many Requests</h1> insufficient_quota</html>",
            "insufficient_quota",
            "data: {\"error\":{\"code\":\"insufficient_quota\"}}",
            r#"{"error":"insufficient_quota"}"#,
            r#"{"error":["overloaded_error","ThrottlingException"]}"#,
            r#"{"error":{"error":{"type":"overloaded_error","code":"insufficient_quota"}}}"#,
            r#"{"error":{"type":429,"code":429,"status":429}}"#,
            r#"{"choices":[{"message":{"content":"{\"error\":{\"type\":\"overloaded_error\"}}"}}]}"#,
        ] {
            for status in [400, 429, 500, 529] {
                assert_eq!(read(provider, status, body), None, "{provider:?} {body}");
            }
        }
        let bytes = b"\xff\xfe{\"error\":{\"type\":\"overloaded_error\"}}";
        assert_eq!(read(provider, 529, bytes), None);
    }
}

#[test]
fn the_code_of_another_provider_says_nothing() {
    for (body, of) in [
        (r#"{"__type":"AccessDeniedException"}"#, Bedrock),
        (r#"{"error":{"status":"PERMISSION_DENIED"}}"#, Vertex),
        (
            r#"{"error":{"code":"project_spend_limit_exceeded"}}"#,
            OpenAi,
        ),
    ] {
        for provider in ALL {
            assert_eq!(
                read(provider, 403, body).is_some(),
                provider == of,
                "{body}"
            );
        }
    }
}

#[test]
fn an_answer_that_is_no_error_is_never_read_as_one() {
    let body = r#"{"__type":"ThrottlingException","error":{"type":"overloaded_error",
        "code":"insufficient_quota","status":"UNAVAILABLE"}}"#;
    for provider in ALL {
        for status in [100, 200, 204, 302, 399] {
            assert_eq!(read(provider, status, body), None, "{provider:?} {status}");
        }
        assert!(read(provider, 400, body).is_some(), "{provider:?}");
    }
    let error = Bedrock.read(StatusCode::OK, &aws("ThrottlingException"), b"");
    assert_eq!(error, None);
}

#[test]
fn a_server_error_is_never_the_callers_mistake() {
    for status in [500, 502, 503, 529] {
        for code in [
            "content_filter",
            "invalid_request_error",
            "context_length_exceeded",
        ] {
            let body = format!(r#"{{"error":{{"code":"{code}"}}}}"#);
            assert_eq!(read(OpenAi, status, body), None, "{status} {code}");
        }
    }
}

/// Whole error bodies and what they mean.
fn samples() -> [(Provider, u16, &'static str, ProviderErrorKind); 8] {
    [
        (
            OpenAi,
            429,
            r#"{"error":{"message":"spent","type":"insufficient_quota","param":null,"code":"x"}}"#,
            Quota,
        ),
        (
            OpenAi,
            429,
            r#"{"error":{"message":"slower","code":"rate_limit_exceeded","type":"tokens"}}"#,
            RateLimited,
        ),
        (
            OpenAi,
            400,
            r#"{"error":{"code":"content_filter","innererror":{"code":"y"},"status":400}}"#,
            ContentFilter,
        ),
        (
            Anthropic,
            429,
            r#"{"error":{"type":"rate_limit_error","details":{"error_code":"enforced_spend_limit_reached"}}}"#,
            Quota,
        ),
        (
            Anthropic,
            400,
            r#"{"error":{"type":"invalid_request_error","message":"Your credit balance is too low: test"}}"#,
            Quota,
        ),
        (
            Bedrock,
            429,
            r#"{"message":"no","__type":"ThrottlingException"}"#,
            RateLimited,
        ),
        (
            Vertex,
            429,
            r#"[{"error":{"status":"RESOURCE_EXHAUSTED","details":[{"violations":[{"quotaId":"XPerDay"}]}]}}]"#,
            Quota,
        ),
        (
            Vertex,
            400,
            r#"{"error":{"status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}"#,
            Auth,
        ),
    ]
}

#[test]
fn a_body_cut_anywhere_means_the_same_or_nothing() {
    for (provider, status, body, expected) in samples() {
        assert_eq!(read(provider, status, body), Some(expected), "{body}");
        for cut in 0..body.len() {
            let kind = read(provider, status, &body[..cut]);
            assert!(
                kind.is_none_or(|kind| kind == expected),
                "{kind:?} of {}",
                &body[..cut]
            );
        }
    }
    // What nothing behind the break could change is read.
    let cut = r#"{"error":{"code":"insufficient_quota","message":"a long"#;
    assert_eq!(read(OpenAi, 429, cut), Some(Quota));
    let cut = r#"{"type":"error","error":{"type":"overloaded_error","mess"#;
    assert_eq!(read(Anthropic, 529, cut), Some(Overloaded));
}

#[test]
fn huge_numbers_deep_nesting_and_large_bodies_do_no_harm() {
    let nines = "9".repeat(10_000);
    let deep = "[".repeat(100_000);
    let objects = r#"{"error":"#.repeat(20_000);
    let details = r#"{"details":"#.repeat(20_000);
    for provider in ALL {
        for body in [
            format!(r#"{{"error":{{"code":{nines},"type":{nines},"status":1e{nines}}}}}"#),
            deep.clone(),
            objects.clone(),
            format!(r#"{{"error":{details}"#),
            format!(r#"{{"originalStatusCode":{nines},"code":-{nines}}}"#),
            format!(r#"{{"error":{{"message":"{}"}}}}"#, "x".repeat(1 << 19)),
            format!("[{}{{}}]", "{},".repeat(30_000)),
        ] {
            for status in [400, 424, 429, 500] {
                assert_eq!(
                    read(provider, status, &body),
                    None,
                    "{provider:?} {}",
                    &body[..40]
                );
            }
        }
    }
    let body = format!(r#"{{"x":{nines},"error":{{"type":"overloaded_error","code":{nines}}}}}"#);
    assert_eq!(read(Anthropic, 529, body), Some(Overloaded));
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic_and_success_is_never_an_error(
        status in 100_u16..=999,
        body in proptest::collection::vec(any::<u8>(), 0..300),
        header in proptest::collection::vec(0x20_u8..=0xff, 0..40),
    ) {
        let mut headers = HeaderMap::new();
        if let Ok(value) = HeaderValue::from_bytes(&header) {
            headers.insert("x-amzn-errortype", value);
        }
        let status = StatusCode::from_u16(status).unwrap();
        for provider in ALL {
            let error = provider.read(status, &headers, &body);
            prop_assert!(error.is_none() || status.as_u16() >= 400);
        }
    }

    #[test]
    fn a_changed_byte_makes_no_other_kind_of_error(
        sample in 0_usize..8,
        at in any::<proptest::sample::Index>(),
        byte in prop_oneof![Just(b'"'), Just(b'{'), Just(b'}'), Just(b'\\'), any::<u8>()],
    ) {
        let (provider, status, body, expected) = samples()[sample];
        let mut body = body.as_bytes().to_vec();
        let at = at.index(body.len());
        body[at] = byte;
        // What a changed detail would have refined is what it is without it.
        let plain = match expected {
            Quota => [Quota, RateLimited],
            Auth => [Auth, InvalidRequest],
            other => [other; 2],
        };
        let kind = read(provider, status, &body);
        let spent = status == 400 && kind == Some(InvalidRequest);
        prop_assert!(kind.is_none_or(|kind| plain.contains(&kind)) || spent, "{kind:?}");
    }
}

// ---- verdicts --------------------------------------------------------------------------

#[test]
fn every_kind_has_its_verdict() {
    use Again::{AfterDelay, Never};
    use Health::{Failing, Neutral, Ok};
    use Work::{NotDone, Unknown};

    let wait = Some(secs(3.0));
    for (kind, again, health, work) in [
        (Overloaded, AfterDelay, Failing, NotDone),
        (RateLimited, AfterDelay, Neutral, NotDone),
        (Quota, Never, Neutral, NotDone),
        (Auth, Never, Neutral, NotDone),
        (InvalidRequest, Never, Ok, NotDone),
        (ContentFilter, Never, Ok, NotDone),
        (TimedOut, AfterDelay, Failing, Unknown),
        (Failed, AfterDelay, Failing, Unknown),
    ] {
        let verdict = kind.verdict(wait);
        let seen = (verdict.again(), verdict.health(), verdict.work());
        assert_eq!(seen, (again, health, work), "{kind}");
        let waits = verdict.again() == AfterDelay;
        assert_eq!(verdict.hint(), wait.filter(|_| waits), "{kind}");
    }
}

// ---- through the stack -------------------------------------------------------------------

type Boxed = UnsyncBoxBody<Bytes, Infallible>;

/// What a provider answers, or `None` for never.
type Script = &'static [Option<(u16, &'static str)>];

fn reply(status: u16, body: &'static str) -> Response<Boxed> {
    let mut answer = Response::new(Full::<Bytes>::from(body).boxed_unsync());
    *answer.status_mut() = StatusCode::from_u16(status).unwrap();
    answer
}

/// Sends one generation through a stack, whose fallback says 200.
async fn generate(
    policy: PolicyBuilder<HttpClassifier>,
    script: Script,
) -> (Result<u16, Error>, CallReport, usize) {
    let provider = script
        .iter()
        .fold(ScriptedService::new(), |provider, step| {
            provider.then(step.map_or_else(Step::hang, |(status, body)| {
                Step::respond(move |_: &Request<String>| Ok::<_, Infallible>(reply(status, body)))
            }))
        });
    let secondary = LookLayer::new();
    let secondary = tower::Layer::layer(
        &secondary,
        service_fn(|_: Request<String>| std::future::ready(Ok::<_, Infallible>(reply(200, "")))),
    );
    let client = ServiceBuilder::new()
        .fallback(fallback::service(secondary).replay(HttpClassifier::new()))
        .resilience(policy.build().unwrap())
        .layer(LookLayer::new())
        .service(provider.clone());
    let mut request = Request::new("prompt".to_owned());
    *request.method_mut() = Method::POST;
    let (answer, report) = CallReport::capture(client.oneshot(request)).await;
    let status = answer.map(|answer| answer.status().as_u16());
    (status, report.unwrap(), provider.calls())
}

fn policy(provider: Provider) -> PolicyBuilder<HttpClassifier> {
    bare()
        .max_attempts(3)
        .classify(HttpClassifier::new().provider(provider))
}

#[tokio::test(start_paused = true)]
async fn a_spent_quota_falls_back_at_once_and_a_rate_limit_is_waited_for() {
    const SPENT: Script = &[Some((429, r#"{"error":{"code":"insufficient_quota"}}"#))];
    let (status, report, sends) = generate(policy(OpenAi), SPENT).await;
    assert_eq!((status.unwrap(), sends), (200, 1));
    assert_eq!(report.served_by(), ServedBy::Fallback(0));
    assert_eq!(report.stopped(), Some(Stopped::NotRetryable));
    let verdict = report.verdict().unwrap();
    assert_eq!(verdict.reason(), Reason::Text("quota or spend limit"));

    const FAST: (u16, &str) = (429, r#"{"error":{"code":"rate_limit_exceeded"}}"#);
    const ONCE: Script = &[Some(FAST), Some((200, ""))];
    let (status, report, sends) = generate(policy(OpenAi), ONCE).await;
    assert_eq!((status.unwrap(), sends), (200, 2));
    assert_eq!(report.served_by(), ServedBy::Primary);

    // Our own excess is not shoved on.
    const FOR_GOOD: Script = &[Some(FAST), Some(FAST), Some(FAST)];
    let (status, report, sends) = generate(policy(OpenAi), FOR_GOOD).await;
    assert_eq!((status.unwrap(), sends), (429, 3));
    assert_eq!(report.served_by(), ServedBy::Primary);
}

#[tokio::test(start_paused = true)]
async fn a_filtered_prompt_and_an_invalid_request_do_not_fall_back() {
    const FILTERED: Script = &[Some((400, r#"{"error":{"code":"content_filter"}}"#))];
    const INVALID: Script = &[Some((400, r#"{"error":{"type":"invalid_request_error"}}"#))];
    for script in [FILTERED, INVALID] {
        let (status, report, sends) = generate(policy(OpenAi), script).await;
        assert_eq!((status.unwrap(), sends), (400, 1));
        assert_eq!(report.served_by(), ServedBy::Primary);
    }
    // Though the status is that of a denied key.
    const DENIED: Script = &[Some((403, r#"{"error":{"code":"content_filter"}}"#))];
    assert_eq!(generate(policy(OpenAi), DENIED).await.0.unwrap(), 403);
}

#[tokio::test(start_paused = true)]
async fn a_denied_key_falls_back() {
    const DENIED: Script = &[Some((401, "who are you"))];
    for provider in ALL {
        let (status, report, sends) = generate(policy(provider), DENIED).await;
        assert_eq!((status.unwrap(), sends), (200, 1));
        assert_eq!(report.served_by(), ServedBy::Fallback(0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_generation_is_repeated_for_one_token_after_a_5xx_and_for_two_after_silence() {
    const BROKEN: Script = &[Some((500, "oops")), Some((200, ""))];
    const SILENT: Script = &[None, Some((200, ""))];
    const TOO_LONG: Script = &[
        Some((504, r#"{"type":"error","error":{"type":"timeout_error"}}"#)),
        Some((200, "")),
    ];
    for (script, tokens) in [(BROKEN, 1.0), (SILENT, 2.0), (TOO_LONG, 2.0)] {
        for (balance, sends) in [(tokens - 0.5, 1), (tokens, 2)] {
            let policy = policy(Anthropic)
                .attempt_timeout(secs(1.0))
                .retry_budget(budget(balance));
            let (_, report, sent) = generate(policy, script).await;
            assert_eq!(sent, sends, "{script:?} with {balance}");
            let stopped = (sends == 1).then_some(Stopped::BudgetExhausted);
            assert_eq!(report.stopped(), stopped);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_repetition_of_generations_can_be_switched_off() {
    const BROKEN: Script = &[Some((500, "oops"))];
    const OVERLOADED: Script = &[
        Some((
            529,
            r#"{"type":"error","error":{"type":"overloaded_error"}}"#,
        )),
        Some((200, "")),
    ];
    let once = || {
        let classify = HttpClassifier::new().provider(Anthropic);
        policy(Anthropic).classify(classify.repeats_idempotent())
    };
    let (_, report, sends) = generate(once(), BROKEN).await;
    assert_eq!(sends, 1);
    assert_eq!(report.stopped(), Some(Stopped::NotIdempotent));
    // What was certainly not begun is begun again.
    let (status, _, sends) = generate(once(), OVERLOADED).await;
    assert_eq!((status.unwrap(), sends), (200, 2));
}

/// The verdict on one answer, seen through a look at its body.
#[test]
fn a_proxy_stays_one_whichever_is_said_first() {
    use steadfast::Replay;

    let post = Request::post("/v1/messages").body(()).unwrap();
    for classify in [
        HttpClassifier::new().for_proxies().provider(Anthropic),
        HttpClassifier::new().provider(Anthropic).for_proxies(),
    ] {
        assert!(classify.copy(&post).is_none());
        let memo = classify.memo(&post);
        assert!(!Replay::<Request<()>>::idempotent(&classify, &memo));
    }
}

async fn judged(provider: Provider, answer: Response<Boxed>) -> Option<Verdict> {
    let answer = Arc::new(Mutex::new(Some(answer)));
    let client = ServiceBuilder::new()
        .resilience(policy(provider).max_attempts(1).build().unwrap())
        .layer(LookLayer::new())
        .service(service_fn(move |_: Request<String>| {
            std::future::ready(Ok::<_, Infallible>(answer.lock().unwrap().take().unwrap()))
        }));
    let (_, report) = CallReport::capture(client.oneshot(Request::new(String::new()))).await;
    report.unwrap().verdict().copied()
}

#[tokio::test(start_paused = true)]
async fn a_header_may_forbid_another_try_and_not_allow_one_in_vain() {
    for (code, again, expected) in [
        ("rate_limit_exceeded", "false", Again::Never),
        ("rate_limit_exceeded", "true", Again::AfterDelay),
        ("insufficient_quota", "true", Again::Never),
        ("content_filter", "true", Again::Never),
    ] {
        let body = format!(r#"{{"error":{{"code":"{code}"}}}}"#);
        let mut answer = reply(429, body.leak());
        let headers = answer.headers_mut();
        headers.insert("x-should-retry", HeaderValue::from_static(again));
        headers.insert("retry-after", HeaderValue::from_static("7"));
        let verdict = judged(OpenAi, answer).await.unwrap();
        assert_eq!(verdict.again(), expected, "{code} {again}");
        let hint = (code == "rate_limit_exceeded").then_some(Duration::from_secs(7));
        assert_eq!(verdict.hint(), hint, "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_that_never_ends_is_judged_by_its_beginning() {
    for (first, reason) in [
        (
            r#"{"error":{"code":"insufficient_quota","message":""#,
            "quota or spend limit".into(),
        ),
        (r#"{"error":{"message":""#, Reason::Status(429)),
        ("", Reason::Status(429)),
    ] {
        let t = Clock::start();
        let (mut source, body) = Channel::<Bytes, Infallible>::new(1);
        source.send_data(first.into()).await.unwrap();
        let mut answer = Response::new(body.boxed_unsync());
        *answer.status_mut() = StatusCode::TOO_MANY_REQUESTS;
        let verdict = judged(OpenAi, answer).await.unwrap();
        assert_eq!(verdict.reason(), reason, "{first}");
        t.assert_now(0.25);
    }
}

#[test]
fn an_empty_header_leaves_the_word_to_the_body() {
    let headers = HeaderMap::from_iter([(
        HeaderName::from_static("x-amzn-errortype"),
        HeaderValue::from_static(" "),
    )]);
    let read = |body: &[u8]| {
        let error = Provider::Bedrock.read(StatusCode::TOO_MANY_REQUESTS, &headers, body)?;
        Some(error.kind())
    };
    let body = br#"{"__type":"ServiceQuotaExceededException"}"#;
    assert_eq!(read(body), Some(ProviderErrorKind::Quota));
    // Cut short, a rate limit might have been more.
    let body = br#"{"__type":"ThrottlingException","mess"#;
    assert_eq!(read(body), None);
}
