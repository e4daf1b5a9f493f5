//! What a client's error says of the attempt.
//!
//! Clients differ in how they wrap an error, so the whole chain of sources is
//! looked at, outermost first; the first cause that decides, decides.

use std::error::Error as StdError;
use std::io;

use crate::classify::default::judge_cause;
use crate::classify::verdict::Verdict;
use crate::error::chain::chain;

/// The verdict on an attempt that ended with an error instead of an answer.
///
/// | error | verdict |
/// |---|---|
/// | connect refused, connect timeout, no route, DNS, TLS handshake | unreachable |
/// | closed before the request was sent, a `GOAWAY` for a request that was not begun | unreachable; no evidence if the server merely drains |
/// | `REFUSED_STREAM`, `ENHANCE_YOUR_CALM` | overloaded |
/// | reset, timeout, broken answer, all others | ambiguous |
/// | the request itself is unusable, its body failed | never again, no evidence |
///
/// The work is known not to be done where RFC 9113 says so: §8.7 for
/// `REFUSED_STREAM`, §6.8 for streams above a `GOAWAY`'s last one.
///
/// `io::Error`s are recognised always; those of hyper, hyper-util and h2, and
/// so of every client on top of them, with feature `hyper`; what only reqwest
/// itself can tell, with feature `reqwest`.
///
/// # Examples
///
/// ```
/// use std::io;
/// use steadfast::{Work, http::judge_error};
///
/// let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
/// assert_eq!(judge_error(&refused).work(), Work::NotDone);
/// let reset = io::Error::from(io::ErrorKind::ConnectionReset);
/// assert_eq!(judge_error(&reset).work(), Work::Unknown);
/// ```
#[must_use]
pub fn judge_error(error: &(dyn StdError + 'static)) -> Verdict {
    chain(error)
        .find_map(decides)
        .unwrap_or_else(Verdict::ambiguous)
}

fn decides(cause: &(dyn StdError + 'static)) -> Option<Verdict> {
    judge_cause(cause)
        .or_else(|| layered(cause))
        .or_else(|| cause.downcast_ref().and_then(io))
}

#[cfg(not(feature = "hyper"))]
const fn layered(_: &(dyn StdError + 'static)) -> Option<Verdict> {
    None
}

#[cfg(feature = "hyper")]
fn layered(cause: &(dyn StdError + 'static)) -> Option<Verdict> {
    #[cfg(feature = "reqwest")]
    if let Some(error) = cause.downcast_ref() {
        return by_reqwest(error);
    }
    if let Some(error) = cause.downcast_ref() {
        return by_hyper_util(error);
    }
    if let Some(error) = cause.downcast_ref() {
        return by_hyper(error);
    }
    cause.downcast_ref().and_then(by_h2)
}

#[cfg(feature = "hyper")]
fn unreachable() -> Verdict {
    Verdict::unreachable().because("connect failed")
}

/// Our own mistake: nothing was sent, and the same would happen again.
#[cfg(feature = "hyper")]
fn own_mistake(what: &'static str) -> Verdict {
    Verdict::terminal().no_evidence().not_asked().because(what)
}

#[cfg(feature = "reqwest")]
fn by_reqwest(error: &reqwest::Error) -> Option<Verdict> {
    if error.is_builder() {
        return Some(own_mistake("request cannot be built"));
    }
    if error.is_redirect() {
        // The dependency answered, and will again.
        return Some(Verdict::terminal().because("redirect"));
    }
    if let Some(status) = error.status() {
        return Some(super::status::ordinary(status, None));
    }
    if error.is_timeout() && !error.is_connect() {
        return Some(Verdict::ambiguous().because("timed out"));
    }
    None
}

#[cfg(feature = "hyper")]
fn by_hyper_util(error: &hyper_util::client::legacy::Error) -> Option<Verdict> {
    if error.is_connect() {
        return Some(unreachable());
    }
    // What went wrong on the way has a cause; what is wrong with the request
    // (a relative URI, a version that cannot be spoken) has none.
    let has_cause = error.source().is_some();
    (!has_cause).then(|| own_mistake("request cannot be sent"))
}

#[cfg(feature = "hyper")]
fn by_hyper(error: &hyper::Error) -> Option<Verdict> {
    // Taken back from a connection, or not given to one that was never ready.
    if error.is_canceled() || error.is_closed() {
        let verdict = Verdict::unreachable();
        return Some(verdict.because("closed before the request was sent"));
    }
    if error.is_user() {
        return Some(own_mistake("request cannot be sent"));
    }
    if error.is_incomplete_message() {
        return Some(Verdict::ambiguous().because("closed before the answer was complete"));
    }
    if error.is_timeout() {
        return Some(Verdict::ambiguous().because("timed out"));
    }
    if error.is_parse() {
        return Some(Verdict::ambiguous().because("broken answer"));
    }
    None
}

#[cfg(feature = "hyper")]
fn by_h2(error: &h2::Error) -> Option<Verdict> {
    use h2::Reason;

    if !error.is_remote() {
        return None;
    }
    match error.reason()? {
        // Whoever keeps to the limit that it was told of meets the first in a
        // race only; the second is a server that defends itself.
        Reason::REFUSED_STREAM => Some(Verdict::overloaded(None).because("stream refused")),
        Reason::ENHANCE_YOUR_CALM if error.is_go_away() => {
            Some(Verdict::overloaded(None).because("asked to calm down"))
        }
        Reason::NO_ERROR if error.is_go_away() => {
            let draining = Verdict::unreachable().no_evidence();
            Some(draining.because("connection is draining"))
        }
        _ if error.is_go_away() => Some(Verdict::unreachable().because("connection closed")),
        _ => Some(Verdict::ambiguous().because("stream reset")),
    }
}

fn io(error: &io::Error) -> Option<Verdict> {
    use io::ErrorKind as Kind;

    match error.kind() {
        Kind::ConnectionRefused => Some(Verdict::unreachable().because("connection refused")),
        Kind::HostUnreachable | Kind::NetworkUnreachable | Kind::AddrNotAvailable => {
            Some(Verdict::unreachable().because("no route"))
        }
        Kind::ConnectionReset | Kind::ConnectionAborted | Kind::BrokenPipe => {
            Some(Verdict::ambiguous().because("connection reset"))
        }
        Kind::TimedOut => Some(Verdict::ambiguous().because("timed out")),
        Kind::UnexpectedEof => Some(Verdict::ambiguous().because("broken answer")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::verdict::{Again, Health, Work};

    #[test]
    fn an_io_error_is_found_however_deep_it_stands() {
        #[derive(Debug, thiserror::Error)]
        #[error("outer")]
        struct Outer(#[source] io::Error);

        for error in [
            io::Error::from(io::ErrorKind::ConnectionRefused),
            io::Error::other(Outer(io::ErrorKind::ConnectionRefused.into())),
            io::Error::other(io::Error::from(io::ErrorKind::ConnectionRefused)),
        ] {
            let verdict = judge_error(&error);
            assert_eq!(verdict.work(), Work::NotDone, "{error:?}");
            assert_eq!(verdict.health(), Health::Failing, "{error:?}");
        }
    }

    #[test]
    fn an_io_error_is_judged_by_its_kind() {
        use io::ErrorKind as Kind;

        for (kind, work, reason) in [
            (Kind::ConnectionRefused, Work::NotDone, "connection refused"),
            (Kind::HostUnreachable, Work::NotDone, "no route"),
            (Kind::NetworkUnreachable, Work::NotDone, "no route"),
            (Kind::AddrNotAvailable, Work::NotDone, "no route"),
            (Kind::ConnectionReset, Work::Unknown, "connection reset"),
            (Kind::ConnectionAborted, Work::Unknown, "connection reset"),
            (Kind::BrokenPipe, Work::Unknown, "connection reset"),
            (Kind::TimedOut, Work::Unknown, "timed out"),
            (Kind::UnexpectedEof, Work::Unknown, "broken answer"),
        ] {
            let verdict = judge_error(&io::Error::from(kind));
            assert_eq!(verdict.work(), work, "{kind:?}");
            assert_eq!(verdict.reason().to_string(), reason, "{kind:?}");
        }
    }

    #[test]
    fn what_is_unknown_may_have_been_done() {
        let verdict = judge_error(&io::Error::other("something"));
        assert_eq!(verdict.work(), Work::Unknown);
        assert_eq!(verdict.again(), Again::AfterDelay);
        assert!(!verdict.answered());
    }

    #[test]
    fn a_local_limit_is_no_evidence() {
        let shed = io::Error::other(tower::load_shed::error::Overloaded::new());
        assert_eq!(judge_error(&shed).health(), Health::Neutral);
    }
}
