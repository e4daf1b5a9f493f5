//! A ceiling on sends within a scope.

mod held;
mod node;
mod paid;
mod table;

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use super::ambient::Ambient;
use super::{Scope, Scoped};
use node::Node;

pub(super) use held::HeldCap;
pub(crate) use paid::{Paid, has_room, leave, note_stack, pay};
pub(crate) use table::CapId;

/// A ceiling on the sends of all calls within a scope: an agent's task, a
/// request and all that it sets off.
///
/// Retries bound one call, budgets and breakers one dependency. What none of
/// them bounds is a loop that makes call after call: a model that calls a tool
/// again at every error, a page that asks for each of ten thousand rows. A cap
/// is a wall there: it does not ask why.
///
/// A send is an attempt whose request is handed to the service, whatever comes
/// of it. It is counted after the service has become ready, just before the
/// request is handed over; so the ceiling is exact, also for calls that run at
/// once. Through nested stacks one send counts once, however many stacks it
/// passes: the attempts of the innermost are those that count. A stack that is
/// refused below without a send has its count given back.
///
/// Beyond the ceiling a call ends with
/// [`Stopped::CallCap`](crate::Stopped::CallCap): as
/// [`ErrorKind::Refused`](crate::ErrorKind::Refused) where nothing was sent, and
/// final for all stacks further out. It cannot be put off, and no fallback is
/// asked by default, for our own excess must not be shoved on. The breaker hears
/// nothing of it, and a probe's slot and the budget's charge are given back.
///
/// # Scope
///
/// The cap holds for all that is polled inside of [`wrap`](Self::wrap), in the
/// same task, and in spawned ones that [`Scope::wrap`] carries it to; a wrapped
/// task outlives the future that spawned it and goes on counting. A cap inside
/// of another does not lift it: both hold. Without one in scope nothing is
/// counted, and nothing is paid for it.
///
/// A call that is made inside and polled elsewhere without a scope keeps to the
/// cap as well, as long as a handle, a wrapped future or a wrapped task of it
/// lives; after that it is turned away. So is a call in a [`Scope`] that was taken
/// within an attempt, kept as a value, and used only after the attempt: wrap the
/// future in it while the attempt runs.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use steadfast::{CallCap, Policy, Stopped};
///
/// let policy = Policy::builder("search").max_attempts(1).no_breaker().build().unwrap();
/// let cap = CallCap::new(50);
/// let agent = async {
///     // A model that calls again at every error.
///     loop {
///         let found = policy.call(|| async { Err::<(), _>(std::io::Error::other("down")) }).await;
///         match found.unwrap_err() {
///             error if error.stopped() == Some(Stopped::CallCap) => return error.for_model(),
///             _ => continue,
///         }
///     }
/// };
/// let text = cap.wrap(agent).await;
/// assert!(text.ends_with("do not retry this call."));
/// assert_eq!(cap.sends(), 50);
/// # }
/// ```
#[derive(Clone)]
pub struct CallCap {
    node: Arc<Node>,
}

impl CallCap {
    /// At most this many sends; 0 allows none. A handle: clones count together.
    #[must_use]
    pub fn new(most: u32) -> Self {
        Self {
            node: table::enrol(node::Kind::cap(most)),
        }
    }

    /// Puts the cap in scope for `future`. May be used for several; they count
    /// together.
    ///
    /// # Cancel safety
    ///
    /// As safe as the future inside; dropping it drops that. A send that was
    /// dropped under way has been sent, and stays counted.
    pub fn wrap<F: Future>(&self, future: F) -> Scoped<F> {
        let ambient = Ambient::NONE.capped(Some(self.node.id()));
        Scope { ambient }.wrap(future)
    }

    #[cfg(test)]
    pub(super) fn id(&self) -> CapId {
        self.node.id()
    }

    /// How many sends there were.
    #[must_use]
    pub fn sends(&self) -> u32 {
        self.node.taken()
    }

    /// How many more may be made.
    #[must_use]
    pub fn remaining(&self) -> u32 {
        self.node.room()
    }
}

impl fmt::Debug for CallCap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallCap")
            .field("sends", &self.sends())
            .field("remaining", &self.remaining())
            .finish()
    }
}
