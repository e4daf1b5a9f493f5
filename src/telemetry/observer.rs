//! Who wants to hear of events.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::event::Event;

/// Hears what happens inside a stack, a breaker or a registry.
///
/// Given to [`PolicyBuilder::observer`](crate::PolicyBuilder::observer) it
/// hears of all calls, of the policy's breaker or breakers, and of what
/// fallbacks in the same task do with calls that failed; given to
/// [`Breaker::observe`](crate::Breaker::observe) or `Breakers::observe`, of
/// these alone. The same `Arc` given twice hears everything once: two policies
/// that share a breaker may share an observer.
///
/// It is called where things happen, in the task and often on the way of a
/// call, never under a lock of this crate: it should count, or hand on, and
/// return. Events of different calls come from many threads at once.
///
/// Observers of a breaker are kept for as long as that breaker; one that itself
/// holds a handle of it keeps both for ever.
///
/// # Panics
///
/// A panic of an observer ends there, after the panic hook has printed it: the
/// call goes on, other observers hear of the event still, and this one hears of
/// the next.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU32, Ordering};
/// use steadfast::Policy;
/// use steadfast::telemetry::{Event, Observer};
///
/// #[derive(Default)]
/// struct Attempts(AtomicU32);
///
/// impl Observer for Attempts {
///     fn on_event(&self, event: &Event<'_>) {
///         if let Event::CallEnded { attempts, .. } = event {
///             self.0.fetch_add(*attempts, Ordering::Relaxed);
///         }
///     }
/// }
///
/// let counted = Arc::new(Attempts::default());
/// let policy = Policy::builder("inventory").observer(counted.clone()).build().unwrap();
/// let answer = policy.call(|| async { Ok::<_, std::io::Error>(3) }).await;
/// assert_eq!(answer.unwrap(), 3);
/// assert_eq!(counted.0.load(Ordering::Relaxed), 1);
/// # }
/// ```
pub trait Observer: Send + Sync + 'static {
    /// Something happened.
    fn on_event(&self, event: &Event<'_>);
}

/// Those who listen, each once. Without any it is a null pointer, which is all
/// that a call looks at.
#[derive(Clone, Default)]
pub(crate) struct Observers {
    all: Option<Arc<[Caught]>>,
}

/// An observer whose panics are caught. They may leave it in a state of its
/// own making, which is for it to mind, as with any `Sync` type.
type Caught = AssertUnwindSafe<Arc<dyn Observer>>;

impl Observers {
    pub(crate) const NONE: Self = Self { all: None };

    /// Whether there is any.
    #[inline]
    pub(crate) const fn listen(&self) -> bool {
        self.all.is_some()
    }

    /// Tells each of them; the event is made only if there is any.
    #[inline]
    pub(crate) fn tell<'a>(&self, event: impl FnOnce() -> Event<'a>) {
        if let Some(all) = &self.all {
            tell(all, &event());
        }
    }

    /// These and one more; `None` if it is among them.
    pub(crate) fn and(&self, observer: &Arc<dyn Observer>) -> Option<Self> {
        if self.iter().any(|known| is_same(known, observer)) {
            return None;
        }
        let all = self.iter().chain(std::iter::once(observer));
        let all = all.map(|one| AssertUnwindSafe(Arc::clone(one)));
        Some(Self {
            all: Some(all.collect()),
        })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<dyn Observer>> {
        self.all.iter().flat_map(|all| all.iter()).map(|one| &one.0)
    }
}

/// By address alone: one observer may have several vtables.
fn is_same(one: &Arc<dyn Observer>, other: &Arc<dyn Observer>) -> bool {
    std::ptr::addr_eq(Arc::as_ptr(one), Arc::as_ptr(other))
}

#[cold]
fn tell(all: &[Caught], event: &Event<'_>) {
    for AssertUnwindSafe(observer) in all {
        let told = catch_unwind(AssertUnwindSafe(|| observer.on_event(event)));
        if let Err(payload) = told {
            // It may panic once more when it is dropped.
            let dropped = catch_unwind(AssertUnwindSafe(|| drop(payload)));
            std::mem::forget(dropped);
        }
    }
}

impl fmt::Debug for Observers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} observers", self.iter().count())
    }
}
