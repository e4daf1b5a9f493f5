//! Real clients against a real server that misbehaves.

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
