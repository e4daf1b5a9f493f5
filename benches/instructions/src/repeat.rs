//! The loops that make the calls and count what they allocate.

use std::future::poll_fn;
use std::hint::black_box;
use std::task::Poll;

use tower::Service;

use crate::call::call_once;
use crate::counting;

/// Calls made before anything is counted: first-use allocations (thread
/// locals, the timer wheel) are not a cost per call.
const WARM_UP: u64 = 64;

/// How many of the calls must end well, or the wrong thing was measured.
#[derive(Clone, Copy)]
pub enum Expect {
    All,
    None,
}

/// Makes one call after the other, with `before_each` ahead of it.
pub async fn calls<S: Service<u64>>(
    mut service: S,
    calls: u64,
    expect: Expect,
    before_each: impl Fn(u64),
) {
    // All of them within one poll of the runtime's.
    poll_fn(|cx| {
        count(calls, expect, |request| {
            before_each(request);
            call_once(&mut service, cx, request)
        });
        Poll::Ready(())
    })
    .await;
}

/// Does `once` so many times, and prints what was counted. `once` is told the
/// number of the call and tells whether it ended well.
pub fn count(calls: u64, expect: Expect, mut once: impl FnMut(u64) -> bool) {
    for request in 0..WARM_UP {
        once(request);
    }
    let mut well = 0_u64;
    let before = counting::allocations();
    for request in 0..calls {
        well += u64::from(once(black_box(request)));
    }
    let allocations = counting::allocations() - before;
    let expected = match expect {
        Expect::All => calls,
        Expect::None => 0,
    };
    assert_eq!(well, expected, "so many calls ended well");
    println!("calls {calls} allocations {allocations}");
}
