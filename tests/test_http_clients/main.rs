//! Real clients against a real server that misbehaves: how often a GET and a
//! POST are tried, what the breaker hears of each attempt, how the call ends,
//! that an open breaker sends nothing, and that it closes once all is well.
//!
//! | the server | GET | POST | the breaker hears |
//! |---|---|---|---|
//! | refuses connections | 2 | 2 | failing |
//! | lets nobody connect | 2 | 2 | failing |
//! | resets the connection | 2 | 1 | failing |
//! | hangs before the head | 2 | 1 | failing, at the attempt timeout |
//! | stalls within the body | 1 | 1 | failing, once the body is cut |
//! | says 503 and when to come back | 2 | 2 | failing |
//! | breaks off the body | 1 | 1 | failing, once the body ends |
//! | closes the connection (HTTP/1) | 2 | 1 | failing |
//! | sends a `GOAWAY` below the request (HTTP/2) | 2 | 2 | nothing: it drains |
//! | sends a `GOAWAY` above the request, and closes (HTTP/2) | 2 | 1 | failing |
//! | refuses the stream (HTTP/2) | 2 | 2 | failing |
//! | is gone without a word (HTTP/2) | 2 | 1 | failing, once a ping is not answered |
//!
//! It holds for hyper-util's and reqwest's client over HTTP/1 and HTTP/2 (the
//! last five rows are of one of them each), for a gateway over the former, and
//! for tonic's channel, where a method that is said to be idempotent stands for
//! GET and another for POST. Cells that cannot exist:
//!
//! - the gateway speaks HTTP/1 to its upstream, so has none with `GOAWAY` or
//!   streams; over HTTP/2 it would be hyper-util's column once more;
//! - tonic speaks HTTP/2 only, so has none where HTTP/1 closes a connection; its
//!   503 is `UNAVAILABLE` with a pushback.

#![cfg(all(
    feature = "grpc",
    feature = "http",
    feature = "hyper",
    feature = "reqwest"
))]
#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps in vain should fail"
)]

mod cells;
mod gateway;
mod h1;
mod h2;
mod hyper_util;
mod matrix;
mod reqwest;
mod server;
mod tonic;

#[path = "../../examples/grpc/generated/shop.rs"]
#[allow(
    clippy::doc_markdown,
    dead_code,
    unreachable_pub,
    reason = "generated, and no test uses all of it"
)]
mod shop;
