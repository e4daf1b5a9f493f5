//! The system's allocator, with a count of how often it was asked, and of the
//! bytes that are held.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// Relaxed: one thread makes the calls and reads the count.
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

static HELD: AtomicU64 = AtomicU64::new(0);

pub fn held_bytes() -> u64 {
    HELD.load(Ordering::Relaxed)
}

fn hold(bytes: usize) {
    HELD.fetch_add(bytes as u64, Ordering::Relaxed);
}

fn release(bytes: usize) {
    HELD.fetch_sub(bytes as u64, Ordering::Relaxed);
}

pub fn allocations() -> u64 {
    ALLOCATIONS.load(Ordering::Relaxed)
}

// SAFETY: every method hands its arguments on to `System` unchanged, so the
// contract of `GlobalAlloc` holds as it does for `System`.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        hold(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        hold(layout.size());
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        hold(size);
        release(layout.size());
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        release(layout.size());
        unsafe { System.dealloc(pointer, layout) }
    }
}
