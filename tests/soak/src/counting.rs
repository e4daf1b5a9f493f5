//! The system's allocator, with a count of the bytes that are held.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI64, Ordering};

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static HELD: AtomicI64 = AtomicI64::new(0);

pub fn held_bytes() -> i64 {
    HELD.load(Ordering::Relaxed)
}

fn change(bytes: usize, sign: i64) {
    HELD.fetch_add(sign * bytes as i64, Ordering::Relaxed);
}

// SAFETY: every method hands its arguments on to `System` unchanged, so the
// contract of `GlobalAlloc` holds as it does for `System`.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        change(layout.size(), 1);
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        change(layout.size(), 1);
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        change(size, 1);
        change(layout.size(), -1);
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        change(layout.size(), -1);
        unsafe { System.dealloc(pointer, layout) }
    }
}
