//! What happens now and then: panics, and anything else by chance.

use std::ops::Range;
use std::panic::{panic_any, set_hook, take_hook};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The payload of a panic that belongs to the soak.
struct Planned;

static PLANNED: AtomicU64 = AtomicU64::new(0);
static UNPLANNED: AtomicU64 = AtomicU64::new(0);

/// Counts panics, and prints those that nobody planned.
pub fn count_panics() {
    let print = take_hook();
    set_hook(Box::new(move |panic| {
        if panic.payload().is::<Planned>() {
            PLANNED.fetch_add(1, Ordering::Relaxed);
        } else {
            UNPLANNED.fetch_add(1, Ordering::Relaxed);
            print(panic);
        }
    }));
}

pub fn planned_panics() -> u64 {
    PLANNED.load(Ordering::Relaxed)
}

pub fn unplanned_panics() -> u64 {
    UNPLANNED.load(Ordering::Relaxed)
}

pub fn one_in(times: u32) -> bool {
    rand::random_range(0..times) == 0
}

pub fn panic_once_in(times: u32) {
    if one_in(times) {
        panic_any(Planned);
    }
}

pub fn millis(range: Range<u64>) -> Duration {
    Duration::from_millis(rand::random_range(range))
}
