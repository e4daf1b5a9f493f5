//! What a gRPC answer's head or trailers say about coming again.
//!
//! No status, pushback or packed detail makes the reading panic; a pushback
//! that forbids is obeyed whatever the code; a success is never tried again.

#![no_main]

use std::time::SystemTime;

use http::{HeaderMap, HeaderValue};
use libfuzzer_sys::fuzz_target;
use steadfast::{Again, grpc};

fuzz_target!(|data: &[u8]| {
    let mut parts = data.splitn(3, |byte| *byte == b'\n');
    let mut headers = HeaderMap::new();
    for name in [
        "grpc-status",
        "grpc-retry-pushback-ms",
        "grpc-status-details-bin",
    ] {
        let value = parts
            .next()
            .and_then(|part| HeaderValue::from_bytes(part).ok());
        if let Some(value) = value {
            headers.insert(name, value);
        }
    }
    let verdict = grpc::judge_trailers(&headers);
    let Some(status) = headers.get("grpc-status") else {
        return;
    };
    if status == "0" {
        assert_eq!(verdict.again(), Again::Never);
    }
    let hints = grpc::StatusHints::read(&headers, SystemTime::UNIX_EPOCH);
    assert!(!hints.forbids() || verdict.again() == Again::Never);
    if headers
        .get("grpc-retry-pushback-ms")
        .is_some_and(|ms| ms == "-1")
    {
        assert!(hints.forbids());
    }
});
