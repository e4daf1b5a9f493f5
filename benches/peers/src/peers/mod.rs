//! The contenders, one a file.

mod backon;
mod bare;
mod failsafe;
mod guarded;
mod recloser;
mod seatbelt;
mod steadfast;
mod tower;
mod tower_resilience;

use crate::contender::Contender;
use crate::inner::Inner;
use crate::settings::Rule;

pub use self::backon::Backon;
pub use self::bare::Bare;
pub use self::failsafe::{Failsafe, breaker as failsafe_breaker};
pub use self::guarded::Guarded;
pub use self::recloser::{Recloser, breaker as recloser_breaker};
pub use self::seatbelt::{Seatbelt, SeatbeltTower, per_key as seatbelt_per_key};
pub use self::steadfast::{Steadfast, SteadfastConsecutive, SteadfastCount};
pub use self::tower::{Tower, TowerTimeout};
pub use self::tower_resilience::TowerResilience;

/// A peer builds what it can, on a runtime; `None` is what it cannot do.
pub trait Peer: 'static {
    const NAME: &'static str;

    /// Whether what it builds is held to retrying, and to tripping.
    const IS_CHECKED: bool = true;

    /// A part that is only listed where it is measured.
    const IS_PART: bool = false;

    /// Deadline, retry with jitter and budget, breaker, attempt timeout.
    fn stack(_: Inner) -> Option<impl Contender> {
        None::<bare::Contestant>
    }

    /// The stack again, where it has a breaker.
    fn refusing(_: Inner) -> Option<impl Contender> {
        None::<bare::Contestant>
    }

    /// The stack with retries that do not wait, a budget that one success per
    /// retry fills, and a breaker that half of the attempts do not open.
    fn at_once(_: Inner) -> Option<impl Contender> {
        None::<bare::Contestant>
    }

    /// The breaker alone.
    fn breaker(_: Inner, _: Rule) -> Option<impl Contender> {
        None::<bare::Contestant>
    }
}
