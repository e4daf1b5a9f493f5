//! Calls of two threads against those of one.

use tokio::runtime::Runtime;

use crate::calls::{self, Batch};
use crate::contender::Contender;
use crate::subject::{Measure, Measured};

const WARM_UP: u64 = 256;

pub struct Threads<'r, C> {
    runtime: &'r Runtime,
    contender: C,
}

impl<'r, C: Contender> Threads<'r, C> {
    pub fn new(runtime: &'r Runtime, contender: C) -> Self {
        Self { runtime, contender }
    }
}

impl<C: Contender> Measured for Threads<'_, C> {
    fn prepare(&mut self) -> Result<(), String> {
        self.measure(WARM_UP).map(drop)
    }

    fn measure(&mut self, calls: u64) -> Result<Measure, String> {
        let one = calls::batch_on_threads(self.runtime, 1, &self.contender, calls);
        let two = calls::batch_on_threads(self.runtime, 2, &self.contender, calls);
        for batch in [one, two] {
            let Batch {
                calls, answered, ..
            } = batch;
            if answered != calls {
                return Err(format!("{answered} of {calls} calls were answered"));
            }
        }
        Ok(Measure {
            batch: two,
            one_thread: Some(one),
        })
    }

    fn future_bytes(&mut self) -> usize {
        let _entered = self.runtime.enter();
        calls::future_bytes(&mut self.contender)
    }
}
