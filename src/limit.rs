//! Limits that may be absent.

/// The lesser of two limits; an absent one limits nothing.
pub(crate) fn lesser<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lesser_limit_holds_and_an_absent_one_never_does() {
        assert_eq!(lesser(Some(1), Some(2)), Some(1));
        assert_eq!(lesser(Some(2), Some(1)), Some(1));
        assert_eq!(lesser(Some(2), None), Some(2));
        assert_eq!(lesser(None, Some(2)), Some(2));
        assert_eq!(lesser::<u32>(None, None), None);
    }
}
