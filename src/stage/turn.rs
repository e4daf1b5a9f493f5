//! What the stages of a call tell each other within one poll.

use crate::classify::verdict::Verdict;
use crate::moment::Moment;
use crate::scope::marks::Marks;

/// One poll of a call.
#[derive(Debug)]
pub struct Turn {
    /// Never, where it is yet to be read.
    now: Moment,
    /// Some, where somebody listens to what comes of the call.
    wanted: Marks,
    success: Option<Verdict>,
}

impl Turn {
    /// A poll in which a report is wanted, or not.
    #[inline]
    pub(crate) const fn new(marks: Marks) -> Self {
        Self {
            now: Moment::NEVER,
            wanted: marks.only(Marks::REPORT_WANTED),
            success: None,
        }
    }

    /// The present, read at most once unless time has passed, and only if
    /// somebody asks.
    #[inline]
    pub(crate) fn now(&mut self) -> Moment {
        if self.now == Moment::NEVER {
            self.now = Moment::now();
        }
        self.now
    }

    /// Has the clock read again.
    #[inline]
    pub(crate) const fn time_passes(&mut self) {
        self.now = Moment::NEVER;
    }

    /// Notes the verdict on a success for those who listen, who are told how
    /// long it took as well. For the others a success is a success, and its
    /// verdict needs to be carried nowhere.
    #[inline]
    pub(crate) const fn succeeded(&mut self, verdict: Verdict) {
        if self.wanted.any(Marks::REPORT_WANTED) {
            self.time_passes();
            self.success = Some(verdict);
        }
    }

    /// The verdict on the success, if anybody wants to hear it.
    #[inline]
    pub(crate) const fn success(&self) -> Option<&Verdict> {
        self.success.as_ref()
    }
}
