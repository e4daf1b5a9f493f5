//! What an error body says at the places where providers put their codes.
//!
//! Nothing is built of the rest, and what was read before a body breaks off,
//! or turns out not to be JSON after all, stays read.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Enough to tell messages apart.
const LONGEST_TEXT: usize = 256;

/// The first value of each place, if it is a text.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// `type`, `code` and `__type` of the body itself.
    pub(super) outer_type: Option<String>,
    pub(super) outer_code: Option<String>,
    pub(super) shape: Option<String>,
    /// `error.type`, `error.code`, `error.status`.
    pub(super) error_type: Option<String>,
    pub(super) code: Option<String>,
    pub(super) status: Option<String>,
    /// `error.message`, or that of the body.
    pub(super) message: Option<String>,
    /// `error.innererror.code`.
    pub(super) inner_code: Option<String>,
    /// `error.details`, or in one of its elements.
    pub(super) detail_code: Option<String>,
    pub(super) reason: Option<String>,
    pub(super) retry_delay: Option<String>,
    /// Whether a violated quota is that of a day, or none at all.
    pub(super) long_quota: bool,
    pub(super) block_reason: Option<String>,
    pub(super) original_status: Option<u64>,
    /// Whether the body was JSON to its end.
    pub(super) whole: bool,
}

impl Found {
    /// Reads what can be read.
    pub(super) fn read(body: &[u8]) -> Self {
        let mut found = Self::default();
        let mut json = serde_json::Deserializer::from_slice(body);
        let root = Node {
            place: Place::Root,
            found: &mut found,
        };
        let read = root.deserialize(&mut json).and_then(|()| json.end());
        found.whole = read.is_ok();
        found
    }

    fn set(&mut self, place: Place, text: &str) {
        let slot = match place {
            Place::OuterType => &mut self.outer_type,
            Place::OuterCode => &mut self.outer_code,
            Place::Shape => &mut self.shape,
            Place::Type => &mut self.error_type,
            Place::Code => &mut self.code,
            Place::Status => &mut self.status,
            Place::Message => &mut self.message,
            Place::InnerCode => &mut self.inner_code,
            Place::DetailCode => &mut self.detail_code,
            Place::Reason => &mut self.reason,
            Place::RetryDelay => &mut self.retry_delay,
            Place::BlockReason => &mut self.block_reason,
            Place::QuotaId => {
                self.long_quota |= text.contains("PerDay");
                return;
            }
            Place::QuotaValue => {
                self.long_quota |= text == "0";
                return;
            }
            Place::OriginalStatus => {
                self.original_status = self.original_status.or_else(|| text.parse().ok());
                return;
            }
            _ => return,
        };
        slot.get_or_insert_with(|| text.chars().take(LONGEST_TEXT).collect());
    }

    fn set_number(&mut self, place: Place, number: u64) {
        match place {
            Place::OriginalStatus => self.original_status = self.original_status.or(Some(number)),
            Place::QuotaValue => self.long_quota |= number == 0,
            _ => {}
        }
    }
}

/// Where something stands. Arrays are seen through: an element stands where
/// its array does.
#[derive(Clone, Copy, Debug)]
enum Place {
    Root,
    OuterType,
    OuterCode,
    Shape,
    OriginalStatus,
    Error,
    Type,
    Code,
    Status,
    Message,
    Inner,
    InnerCode,
    Details,
    DetailCode,
    Reason,
    RetryDelay,
    Violations,
    QuotaId,
    QuotaValue,
    Feedback,
    BlockReason,
}

impl Place {
    fn child(self, key: &str) -> Option<Self> {
        Some(match (self, key) {
            (Self::Root, "error") => Self::Error,
            (Self::Root, "type") => Self::OuterType,
            (Self::Root, "code") => Self::OuterCode,
            (Self::Root, "__type") => Self::Shape,
            (Self::Root, "originalStatusCode") => Self::OriginalStatus,
            (Self::Root | Self::Error, "message") | (Self::Root, "Message") => Self::Message,
            (Self::Root | Self::Error, "promptFeedback") => Self::Feedback,
            (Self::Error, "type") => Self::Type,
            (Self::Error, "code") => Self::Code,
            (Self::Error, "status") => Self::Status,
            (Self::Error, "details") => Self::Details,
            (Self::Error, "innererror" | "inner_error") => Self::Inner,
            (Self::Inner, "code") => Self::InnerCode,
            (Self::Details, "error_code") => Self::DetailCode,
            (Self::Details, "reason") => Self::Reason,
            (Self::Details, "retryDelay") => Self::RetryDelay,
            (Self::Details, "violations") => Self::Violations,
            (Self::Violations, "quotaId") => Self::QuotaId,
            (Self::Violations, "quotaValue") => Self::QuotaValue,
            (Self::Feedback, "blockReason") => Self::BlockReason,
            _ => return None,
        })
    }
}

/// A value at a place.
struct Node<'f> {
    place: Place,
    found: &'f mut Found,
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.found.set(self.place, text);
        Ok(())
    }

    fn visit_u64<E>(self, number: u64) -> Result<(), E> {
        self.found.set_number(self.place, number);
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        let Self { place, found } = self;
        while elements.next_element_seed(Node { place, found })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let Self { place, found } = self;
        while let Some(child) = entries.next_key_seed(Key { parent: place })? {
            match child {
                Some(place) => entries.next_value_seed(Node { place, found })?,
                None => {
                    entries.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// The key of an entry below `parent`, as the place that it leads to.
struct Key {
    parent: Place,
}

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Option<Place>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Key {
    type Value = Option<Place>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.parent.child(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(body: &str) -> (Option<String>, bool) {
        let found = Found::read(body.as_bytes());
        (found.code, found.whole)
    }

    #[test]
    fn a_code_is_found_at_its_place_and_nowhere_else() {
        let found = Some("full".to_owned());
        for body in [
            r#"{"error":{"code":"full"}}"#,
            r#" [{"error":{"message":"no","code":"full"}},{"error":{"code":"second"}}] "#,
            r#"{"x":{"error":{"code":"other"}},"error":{"x":[{"code":"other"}],"code":"full"}}"#,
            r#"{"error":{"code":"f\u0075ll","code":"again"}}"#,
            r#"{"error":{"code":["full"]}}"#,
        ] {
            assert_eq!(code(body), (found.clone(), true), "{body}");
        }
        for body in [
            "null",
            "[]",
            "429",
            r#""full""#,
            r#"{"error":"full"}"#,
            r#"{"error":{"Code":"full"}}"#,
            r#"{"error":{"code":429}}"#,
            r#"{"error":{"code":-1.5}}"#,
            r#"{"error":{"code":null,"type":true}}"#,
            r#"{"error":{"code":{"code":"full"}}}"#,
        ] {
            assert_eq!(code(body), (None, true), "{body}");
        }
    }

    #[test]
    fn what_stands_before_a_break_is_found_and_the_break_is_seen() {
        let body = r#"{"error":{"code":"full","message":"come back in","x":1}}"#;
        let stands = body.find(r#","message"#).unwrap();
        for cut in 0..body.len() {
            let (found, whole) = code(&body[..cut]);
            assert_eq!(found.is_some(), cut >= stands, "{cut}");
            assert!(!whole, "{cut}");
        }
        for rest in ["}", "<html>", "\u{0}", r#"{"error":{}}"#] {
            let (found, whole) = code(&format!("{body}{rest}"));
            assert!(found.is_some() && !whole, "{rest}");
        }
    }

    #[test]
    fn no_body_is_too_strange() {
        let deep =
            |open: &str| format!(r#"{{"error":{{"code":"full","x":{}"#, open.repeat(100_000));
        for (body, expected) in [
            ("[".repeat(100_000), false),
            (r#"{"error":"#.repeat(100_000), false),
            (deep("["), true),
            (deep(r#"{"a":"#), true),
            (
                r#"{"error":{"code":"full","x":1e999999999}}"#.to_owned(),
                true,
            ),
            (
                format!(
                    r#"{{"error":{{"code":"full","x":{}}}}}"#,
                    "9".repeat(100_000)
                ),
                true,
            ),
            (
                r#"{"error":{"message":1e999,"code":"full"}}"#.to_owned(),
                false,
            ),
            (
                r#"{"error":{"message":"\ud800","code":"full"}}"#.to_owned(),
                false,
            ),
        ] {
            let found = Found::read(body.as_bytes());
            assert_eq!(
                found.code.is_some(),
                expected,
                "{}",
                &body[..40.min(body.len())]
            );
        }
        let long = format!(r#"{{"error":{{"code":"{}"}}}}"#, "\u{e9}".repeat(1000));
        assert_eq!(code(&long).0.unwrap().chars().count(), LONGEST_TEXT);
        assert!(
            Found::read(b"{\"error\":{\"code\":\"\xff\xfe\"}}")
                .code
                .is_none()
        );
        assert!(!Found::read(b"\xef\xbb\xbf{}").whole);
    }
}
