//! The error bodies of model providers.
//!
//! No body makes the reading panic; none makes a server's own failure the
//! caller's mistake; and cut short, a body may say nothing, but never anything
//! that it does not say in whole.

#![no_main]

use http::{HeaderMap, StatusCode};
use libfuzzer_sys::fuzz_target;
use steadfast::http::{Provider, ProviderErrorKind};
use steadfast::{Again, Health};

const STATUSES: [u16; 10] = [400, 401, 403, 404, 424, 429, 500, 503, 529, 599];

const PROVIDERS: [Provider; 4] = [
    Provider::OpenAi,
    Provider::Anthropic,
    Provider::Bedrock,
    Provider::Vertex,
];

fuzz_target!(|data: &[u8]| {
    let Some((&[provider, status, cut], body)) = data.split_first_chunk::<3>() else {
        return;
    };
    let provider = PROVIDERS[usize::from(provider) % PROVIDERS.len()];
    let status = STATUSES[usize::from(status) % STATUSES.len()];
    let status = StatusCode::from_u16(status).unwrap();
    let read = |body: &[u8]| provider.read(status, &HeaderMap::new(), body);

    let whole = read(body);
    if let Some(error) = whole {
        let verdict = error.verdict(None);
        if status.is_server_error() {
            assert_ne!(verdict.health(), Health::Ok, "{error:?}");
        }
        if error.kind() == ProviderErrorKind::Quota {
            assert_eq!(verdict.again(), Again::Never);
        }
    }
    // Only of a body that is JSON is it known what it says in whole.
    if serde_json::from_slice::<serde_json::Value>(body).is_ok() {
        let cut = body.len() * usize::from(cut) / 256;
        if let Some(part) = read(&body[..cut]) {
            assert_eq!(Some(part.kind()), whole.map(|error| error.kind()));
        }
    }
});
