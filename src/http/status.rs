//! What a status code says of the attempt.

use std::time::Duration;

use http::StatusCode;

use crate::classify::verdict::Verdict;

/// The verdict on a status of which nothing else is known.
///
/// `hint` is what the server asked us to wait; a 503 with one protects itself,
/// a 503 without one is merely broken.
pub(super) fn ordinary(status: StatusCode, hint: Option<Duration>) -> Verdict {
    let code = status.as_u16();
    let verdict = match code {
        // Redirects too: whoever does not follow them wanted this answer.
        0..=399 => return Verdict::success(),
        // Not enough of the request arrived, or too early: it was not begun,
        // and the fault is as likely on this side (RFC 9110 §15.5.9, RFC 8470
        // §5.2).
        408 | 425 => Verdict::throttled(hint),
        429 => Verdict::throttled(hint),
        401 | 402 | 403 | 407 | 511 => Verdict::blocked(),
        400..=499 => Verdict::terminal(),
        // Not implemented, version, negotiation, loop, extension: they stay.
        501 | 505 | 506 | 508 | 510 => Verdict::terminal(),
        503 if hint.is_some() => Verdict::overloaded(hint),
        529 => Verdict::overloaded(hint),
        // A proxy that could not connect to its origin.
        521..=523 | 525 | 526 => Verdict::unreachable().hinted(hint),
        _ => Verdict::transient().hinted(hint),
    };
    verdict.because(code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::verdict::{Again, Health, Work};

    fn of(code: u16, hint: Option<u64>) -> Verdict {
        let status = StatusCode::from_u16(code).unwrap();
        ordinary(status, hint.map(Duration::from_secs))
    }

    #[test]
    fn every_status_has_its_row() {
        use Again::{AfterDelay, Never};
        use Health::{Failing, Neutral, Ok};
        use Work::{Done, NotDone, Unknown};

        for (codes, again, health, work) in [
            (&[200, 204, 206, 101, 301, 304][..], Never, Ok, Done),
            (&[429, 408, 425], AfterDelay, Neutral, NotDone),
            (&[529], AfterDelay, Failing, NotDone),
            (
                &[500, 502, 503, 504, 520, 524, 599, 999],
                AfterDelay,
                Failing,
                Unknown,
            ),
            (&[521, 522, 523, 525, 526], AfterDelay, Failing, NotDone),
            (
                &[400, 404, 405, 409, 410, 413, 414, 415, 422, 451],
                Never,
                Ok,
                NotDone,
            ),
            (&[501, 505], Never, Ok, NotDone),
            (&[401, 402, 403, 407, 511], Never, Neutral, NotDone),
        ] {
            for &code in codes {
                let verdict = of(code, None);
                let seen = (verdict.again(), verdict.health(), verdict.work());
                assert_eq!(seen, (again, health, work), "{code}");
            }
        }
    }

    #[test]
    fn a_hint_turns_a_503_into_an_overload_and_is_kept_elsewhere() {
        assert_eq!(
            of(503, Some(3)),
            Verdict::overloaded(Some(Duration::from_secs(3))).because(503)
        );
        for code in [408, 425, 429, 500, 502, 504, 522, 529] {
            let verdict = of(code, Some(3));
            assert_eq!(verdict.hint(), Some(Duration::from_secs(3)), "{code}");
            assert_eq!(verdict.work(), of(code, None).work(), "{code}");
        }
        assert_eq!(of(404, Some(3)).hint(), None);
    }
}
