//! Yes or no, for a scope.

/// A set of marks in one number: a call looks at all of them in one comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks(u32);

impl Marks {
    pub(crate) const NONE: Self = Self(0);
    /// The caller wants one attempt only.
    pub(crate) const NO_RETRIES: Self = Self(1);
    /// The caller knows that this request may not be sent twice.
    pub(crate) const NOT_IDEMPOTENT: Self = Self(1 << 1);
    /// What the caller wishes, as against what the stacks say to each other.
    pub(crate) const WISHES: Self = Self(Self::NO_RETRIES.0 | Self::NOT_IDEMPOTENT.0);
    /// An attempt is polled around here, in the same task, whose permit its
    /// answer may take over.
    pub(crate) const LENDS_PERMITS: Self = Self(1 << 2);
    /// Somebody around waits for a [`CallReport`](super::report::CallReport).
    pub(crate) const REPORT_WANTED: Self = Self(1 << 3);
    /// A stack below refused or gave up, and its answer may not carry a seal.
    /// Travels outwards.
    pub(crate) const GIVEN_UP: Self = Self(1 << 4);
    /// Something is in scope that few calls have.
    pub(crate) const RARE: Self = Self(1 << 5);
    /// The permit of the attempt around has been claimed. Travels outwards to
    /// that attempt.
    pub(crate) const CLAIMED: Self = Self(1 << 6);

    /// What holds only where it was marked, in the same task.
    pub(crate) const NOT_CARRIED: Self =
        Self(Self::LENDS_PERMITS.0 | Self::GIVEN_UP.0 | Self::CLAIMED.0);

    #[inline]
    pub(crate) const fn of_bits(bits: u32) -> Self {
        Self(bits)
    }

    #[inline]
    pub(crate) const fn bits(self) -> u32 {
        self.0
    }

    /// Whether any of `marks` is here.
    pub(crate) const fn any(self, marks: Self) -> bool {
        self.0 & marks.0 != 0
    }

    /// These and `marks`.
    pub(crate) const fn and(self, marks: Self) -> Self {
        Self(self.0 | marks.0)
    }

    /// These, as far as they are among `marks`.
    pub(crate) const fn only(self, marks: Self) -> Self {
        Self(self.0 & marks.0)
    }

    /// These but for `marks`.
    pub(crate) const fn without(self, marks: Self) -> Self {
        Self(self.0 & !marks.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mark_comes_and_goes_by_itself() {
        let all = [
            Marks::NO_RETRIES,
            Marks::NOT_IDEMPOTENT,
            Marks::LENDS_PERMITS,
            Marks::REPORT_WANTED,
            Marks::GIVEN_UP,
            Marks::RARE,
            Marks::CLAIMED,
        ];
        for one in all {
            let others = all.into_iter().filter(|other| *other != one);
            let others = others.fold(Marks::NONE, Marks::and);
            assert!(!others.any(one));
            assert_eq!(others.and(one).without(one), others);
            assert_eq!(others.and(one).only(one), one);
        }
        assert!(Marks::WISHES.any(Marks::NO_RETRIES) && Marks::WISHES.any(Marks::NOT_IDEMPOTENT));
        assert!(!Marks::WISHES.any(Marks::GIVEN_UP));
        let kept = [Marks::LENDS_PERMITS, Marks::GIVEN_UP, Marks::CLAIMED];
        assert!(kept.into_iter().all(|mark| Marks::NOT_CARRIED.any(mark)));
        assert!(!Marks::NOT_CARRIED.any(Marks::WISHES.and(Marks::RARE)));
    }
}
