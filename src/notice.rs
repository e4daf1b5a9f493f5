//! What a refusal says to machines: its wire form.

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::refusal::Refusal;

/// The wire form of a [`Refusal`]: tells a program, a job queue or a model
/// what happened to its item, and what to do with it.
///
/// | member | value |
/// |---|---|
/// | `code` | `dependency_temporarily_unavailable` |
/// | `operation_id` | the caller's, or a random UUID |
/// | `dependency` | the dependency's name |
/// | `safe_action` | `defer_item`: put it off, nothing was done |
/// | `prohibited_action` | `score_item_as_failed`: the item was not tried |
/// | `next_status_check_after_seconds` | whole seconds, rounded up, at least 1; `null` where no time can be named |
///
/// All six are always written. No time can be named for a breaker that was
/// opened by hand, or for a limit of our own; `null` is then better than a
/// guess, since whoever reads a number waits that long.
///
/// # Errors
///
/// Reading one back fails if `code`, `safe_action` or `prohibited_action` is
/// another than above: then it is no refusal, whatever it may be. Further
/// members are passed over, so that it can be read out of the problem document
/// of an HTTP answer.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use steadfast::{Policy, RefusalNotice};
///
/// let policy = Policy::builder("inventory").build()?;
/// policy.breaker().ok_or("no breaker")?.force_open("maintenance");
/// let error = policy.call(|| async { Ok::<_, std::io::Error>(1) }).await.unwrap_err();
/// let refusal = error.refusal().ok_or("not refused")?;
///
/// let text = serde_json::to_string(&refusal.notice("item-17"))?;
/// assert_eq!(
///     text,
///     "{\"code\":\"dependency_temporarily_unavailable\",\
///       \"operation_id\":\"item-17\",\
///       \"dependency\":\"inventory\",\
///       \"safe_action\":\"defer_item\",\
///       \"prohibited_action\":\"score_item_as_failed\",\
///       \"next_status_check_after_seconds\":null}"
/// );
/// let notice: RefusalNotice = serde_json::from_str(&text)?;
/// assert_eq!(notice.operation_id(), "item-17");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Wire", try_from = "Wire")]
pub struct RefusalNotice {
    operation_id: String,
    dependency: Cow<'static, str>,
    seconds: Option<u64>,
}

impl RefusalNotice {
    /// The value of `code`.
    pub const CODE: &'static str = "dependency_temporarily_unavailable";
    /// The value of `safe_action`.
    pub const SAFE_ACTION: &'static str = "defer_item";
    /// The value of `prohibited_action`.
    pub const PROHIBITED_ACTION: &'static str = "score_item_as_failed";

    /// Which operation was refused.
    #[must_use]
    pub fn operation_id(&self) -> &str {
        &self.operation_id
    }

    /// The dependency's name.
    #[must_use]
    pub fn dependency(&self) -> &str {
        &self.dependency
    }

    /// After how many seconds it makes sense to ask again.
    #[must_use]
    pub const fn next_status_check_after_seconds(&self) -> Option<u64> {
        self.seconds
    }

    #[cfg(feature = "http")]
    pub(crate) fn naming(mut self, dependency: &'static str) -> Self {
        self.dependency = Cow::Borrowed(dependency);
        self
    }
}

impl Refusal {
    /// The wire form of this refusal; feature `serde`.
    ///
    /// `operation_id` is the caller's name for the operation, so that it finds
    /// its item again; `None` makes a random one (a version 4 UUID, RFC 9562
    /// §5.4), which at least ties log lines together.
    #[must_use]
    pub fn notice<'a>(&self, operation_id: impl Into<Option<&'a str>>) -> RefusalNotice {
        RefusalNotice {
            operation_id: operation_id
                .into()
                .map_or_else(random_id, ToOwned::to_owned),
            dependency: Cow::Borrowed(self.dependency()),
            seconds: self.retry_after().map(whole_seconds),
        }
    }
}

/// Rounded up, so that nobody comes too early; and at least 1, as a wait of
/// zero seconds asks for a hot loop.
pub(crate) fn whole_seconds(wait: Duration) -> u64 {
    let begun = u64::from(wait.subsec_nanos() > 0);
    wait.as_secs().saturating_add(begun).max(1)
}

/// A version 4 UUID.
pub(crate) fn random_id() -> String {
    const VERSION: u128 = 0x4 << 76;
    const VARIANT: u128 = 0b10 << 62;
    let random = rand::random::<u128>() & !(0xf << 76) & !(0b11 << 62);
    let hex = format!("{:032x}", random | VERSION | VARIANT);
    let (a, rest) = hex.split_at(8);
    let (b, rest) = rest.split_at(4);
    let (c, rest) = rest.split_at(4);
    let (d, e) = rest.split_at(4);
    format!("{a}-{b}-{c}-{d}-{e}")
}

/// The members as they are written.
#[derive(Serialize, Deserialize)]
struct Wire {
    code: Cow<'static, str>,
    operation_id: String,
    dependency: Cow<'static, str>,
    safe_action: Cow<'static, str>,
    prohibited_action: Cow<'static, str>,
    #[serde(default)]
    next_status_check_after_seconds: Option<u64>,
}

impl From<RefusalNotice> for Wire {
    fn from(notice: RefusalNotice) -> Self {
        Self {
            code: RefusalNotice::CODE.into(),
            operation_id: notice.operation_id,
            dependency: notice.dependency,
            safe_action: RefusalNotice::SAFE_ACTION.into(),
            prohibited_action: RefusalNotice::PROHIBITED_ACTION.into(),
            next_status_check_after_seconds: notice.seconds,
        }
    }
}

impl TryFrom<Wire> for RefusalNotice {
    type Error = String;

    fn try_from(wire: Wire) -> Result<Self, String> {
        for (member, value, ours) in [
            ("code", &wire.code, Self::CODE),
            ("safe_action", &wire.safe_action, Self::SAFE_ACTION),
            (
                "prohibited_action",
                &wire.prohibited_action,
                Self::PROHIBITED_ACTION,
            ),
        ] {
            if value != ours {
                return Err(format!("no refusal: `{member}` is {value:?}, not {ours:?}"));
            }
        }
        Ok(Self {
            operation_id: wire.operation_id,
            dependency: wire.dependency,
            seconds: wire.next_status_check_after_seconds,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_rounded_up_and_never_none() {
        let nano = Duration::from_nanos(1);
        for (wait, seconds) in [
            (Duration::ZERO, 1),
            (nano, 1),
            (Duration::from_millis(999), 1),
            (Duration::from_secs(1), 1),
            (Duration::from_secs(1) + nano, 2),
            (Duration::from_secs(30), 30),
            (Duration::MAX, u64::MAX),
        ] {
            assert_eq!(whole_seconds(wait), seconds, "{wait:?}");
        }
    }
}
