//! The system's allocator, with a count of what it was asked for.
//!
//! Counted per thread and without atomics: the peers that allocate most would
//! otherwise be charged for the counting, and two threads would contend on it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

thread_local! {
    // Constant and without a destructor, hence usable inside the allocator.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static BYTES: Cell<u64> = const { Cell::new(0) };
    static FREED: Cell<u64> = const { Cell::new(0) };
}

/// What this thread has asked for since it began.
#[derive(Clone, Copy)]
pub struct Counts {
    pub allocations: u64,
    pub bytes: u64,
    freed: u64,
}

impl Counts {
    pub fn now() -> Self {
        Self {
            allocations: ALLOCATIONS.get(),
            bytes: BYTES.get(),
            freed: FREED.get(),
        }
    }

    /// Bytes that are held more than at `earlier`.
    pub fn held_since(self, earlier: Self) -> u64 {
        (self.bytes - earlier.bytes).saturating_sub(self.freed - earlier.freed)
    }
}

fn count(bytes: usize) {
    ALLOCATIONS.set(ALLOCATIONS.get() + 1);
    BYTES.set(BYTES.get() + bytes as u64);
}

fn uncount(bytes: usize) {
    FREED.set(FREED.get() + bytes as u64);
}

// SAFETY: every method hands its arguments on to `System` unchanged, so the
// contract of `GlobalAlloc` holds as it does for `System`.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        uncount(layout.size());
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        uncount(layout.size());
        unsafe { System.dealloc(pointer, layout) }
    }
}
