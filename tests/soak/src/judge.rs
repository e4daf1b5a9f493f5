//! A classifier that panics now and then, in each of its methods.

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use steadfast::{Classify, Replay, Stopped, Verdict};

use crate::chance::panic_once_in;
use crate::dependency::{Answer, Class, Climate, Fault, Request};

#[derive(Clone)]
pub struct Judge {
    climate: Arc<Climate>,
}

impl Judge {
    pub fn new(climate: &Arc<Climate>) -> Self {
        let climate = Arc::clone(climate);
        Self { climate }
    }

    fn may_panic(&self) {
        if self.climate.is_chaos() {
            panic_once_in(3000);
        }
    }

    fn verdict(class: Class) -> Verdict {
        let hint = Some(Duration::from_millis(15));
        match class {
            Class::Success => Verdict::success(),
            Class::Terminal => Verdict::terminal(),
            Class::Transient => Verdict::transient(),
            Class::Overloaded => Verdict::overloaded(hint),
            Class::Unreachable => Verdict::unreachable(),
            Class::Ambiguous => Verdict::ambiguous(),
            Class::Throttled => Verdict::throttled(hint),
            Class::Blocked => Verdict::blocked(),
        }
    }
}

impl Replay<Request> for Judge {
    type Memo = bool;

    fn memo(&self, request: &Request) -> bool {
        self.may_panic();
        request.idempotent
    }

    fn copy(&self, request: &Request) -> Option<Request> {
        self.may_panic();
        request.copyable.then(|| request.clone())
    }

    fn is_intact(&self, _: &Request) -> bool {
        self.may_panic();
        true
    }

    fn idempotent(&self, memo: &bool) -> bool {
        self.may_panic();
        *memo
    }
}

impl Classify<Request, Answer> for Judge {
    fn classify(
        &self,
        _: &bool,
        result: Result<&Answer, &(dyn StdError + Send + Sync + 'static)>,
    ) -> Verdict {
        self.may_panic();
        match result {
            Ok(Answer(class)) => Self::verdict(*class),
            Err(error) => match error.downcast_ref() {
                Some(Fault(class)) => Self::verdict(*class),
                // Of a stack below.
                None => Verdict::transient(),
            },
        }
    }

    fn seal(&self, _: &mut Answer, _: &Stopped) {
        self.may_panic();
    }
}

/// For calls without a request.
impl Replay<()> for Judge {
    type Memo = ();

    fn memo(&self, (): &()) {
        self.may_panic();
    }

    fn copy(&self, (): &()) -> Option<()> {
        Some(())
    }

    fn idempotent(&self, (): &()) -> bool {
        true
    }
}

impl<T> Classify<(), T> for Judge {
    fn classify(
        &self,
        (): &(),
        result: Result<&T, &(dyn StdError + Send + Sync + 'static)>,
    ) -> Verdict {
        self.may_panic();
        match result {
            Ok(_) => Verdict::success(),
            Err(error) => match error.downcast_ref() {
                Some(Fault(class)) => Self::verdict(*class),
                None => Verdict::transient(),
            },
        }
    }
}
