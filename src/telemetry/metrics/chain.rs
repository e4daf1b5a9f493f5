//! What is kept per dependency, found without a lock.

use std::fmt;
use std::sync::OnceLock;

/// A list that only grows, by one link per name. Names are few, those of a
/// program's dependencies: a walk along it is cheaper than a lock that all
/// threads share.
pub(super) struct Chain<T> {
    first: Link<T>,
}

type Link<T> = OnceLock<Box<Named<T>>>;

struct Named<T> {
    name: &'static str,
    value: T,
    next: Link<T>,
}

impl<T> Chain<T> {
    pub(super) const fn new() -> Self {
        Self {
            first: OnceLock::new(),
        }
    }

    /// What belongs to `name`, made at its first mention.
    pub(super) fn of(&self, name: &'static str, make: impl Fn() -> T) -> &T {
        let mut link = &self.first;
        loop {
            let named = link.get_or_init(|| {
                Box::new(Named {
                    name,
                    value: make(),
                    next: OnceLock::new(),
                })
            });
            if named.name == name {
                return &named.value;
            }
            link = &named.next;
        }
    }
}

impl<T> fmt::Debug for Chain<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = std::iter::successors(self.first.get(), |named| named.next.get());
        f.debug_list()
            .entries(names.map(|named| named.name))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn each_name_has_one_value_however_many_threads_ask_first() {
        let made = AtomicU32::new(0);
        let chain = Chain::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for name in ["a", "b", "c", "d"] {
                        chain.of(name, || made.fetch_add(1, Ordering::Relaxed));
                    }
                });
            }
        });
        let values = ["a", "b", "c", "d"].map(|name| *chain.of(name, || unreachable!()));
        assert_eq!(made.into_inner(), 4);
        assert_eq!(
            values
                .iter()
                .collect::<std::collections::HashSet<_>>()
                .len(),
            4
        );
        assert_eq!(format!("{chain:?}"), r#"["a", "b", "c", "d"]"#);
    }
}
