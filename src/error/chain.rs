//! What stands behind an error.

use std::error::Error as StdError;
use std::io;

/// The error and all its sources, outermost first.
///
/// `io::Error` does not name the error that it wraps as its source, but that
/// error's source; so it is asked for what it wraps.
pub(crate) fn chain<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&cause| {
        let wrapped = cause
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        match wrapped {
            Some(wrapped) => Some(wrapped as &(dyn StdError + 'static)),
            None => cause.source(),
        }
    })
}
