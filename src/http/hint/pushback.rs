//! gRPC's own hint (proposal A6, "Pushback").

use std::time::Duration;

use http::HeaderMap;

use crate::http::number::digits;

/// `grpc-retry-pushback-ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pushback {
    /// Come back after this.
    After(Duration),
    /// Do not come back: a negative number, or nothing that can be read.
    Never,
}

impl Pushback {
    pub(super) fn read(headers: &HeaderMap) -> Option<Self> {
        let mut lines = headers.get_all("grpc-retry-pushback-ms").iter();
        let line = lines.next()?.as_bytes().trim_ascii();
        let millis = digits(line).and_then(|number| i32::try_from(number).ok());
        let wait = millis.and_then(|number| u64::try_from(number).ok());
        Some(match wait {
            Some(millis) if lines.next().is_none() => Self::After(Duration::from_millis(millis)),
            _ => Self::Never,
        })
    }

    pub(super) const fn wait(self) -> Option<Duration> {
        match self {
            Self::After(wait) => Some(wait),
            Self::Never => None,
        }
    }
}
