//! One call, polled by hand.

use std::future::Future;
use std::hint::black_box;
use std::pin::pin;
use std::task::{Context, Poll};

use tower::Service;

/// Whether the call was answered.
///
/// It is polled again in place after `Pending`, not handed back to a runtime:
/// what is measured is the stack and its timer, not tokio's scheduler.
#[inline(never)]
pub fn call_once<S: Service<u64>>(service: &mut S, cx: &mut Context<'_>, request: u64) -> bool {
    while service.poll_ready(cx).is_pending() {}
    let mut call = pin!(service.call(request));
    loop {
        // Looked at where it lies: a copy of it would cost as much as a stage.
        match &call.as_mut().poll(cx) {
            Poll::Ready(result) => return black_box(result).is_ok(),
            Poll::Pending => {}
        }
    }
}
