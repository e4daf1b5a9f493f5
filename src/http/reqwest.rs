//! reqwest's own requests and answers. Feature `reqwest`.

use std::error::Error as StdError;

use reqwest::{Request, Response};

use super::classify::{HttpClassifier, HttpMemo};
use super::fault::judge_error;
use super::seal::Sealed;
use crate::classify::traits::{Classify, Replay};
use crate::classify::verdict::Verdict;
use crate::error::Stopped;

/// A body in memory is copied, a streaming one is sent once: reqwest tells by
/// `try_clone`. For streams that may be sent again, wrap requests of the `http`
/// crate in a [`ReplayBody`](super::ReplayBody) and turn them into reqwest's
/// below the stack.
impl Replay<Request> for HttpClassifier {
    type Memo = HttpMemo;

    fn memo(&self, request: &Request) -> HttpMemo {
        self.remember(request.method(), request.headers())
    }

    fn copy(&self, request: &Request) -> Option<Request> {
        if self.forbids(request.method()) {
            return None;
        }
        request.try_clone()
    }

    fn idempotent(&self, memo: &HttpMemo) -> bool {
        memo.is_repeatable()
    }
}

impl Classify<Request, Response> for HttpClassifier {
    fn classify(
        &self,
        _: &HttpMemo,
        result: Result<&Response, &(dyn StdError + Send + Sync + 'static)>,
    ) -> Verdict {
        match result {
            Ok(answer) => self.judge_answer(answer.status(), answer.headers(), answer.extensions()),
            Err(error) => judge_error(error),
        }
    }

    fn seal(&self, answer: &mut Response, stopped: &Stopped) {
        answer.extensions_mut().insert(Sealed::new(*stopped));
    }
}
