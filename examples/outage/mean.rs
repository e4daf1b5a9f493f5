//! Means of what is measured, with what is needed to know when to stop measuring.

/// A running mean that knows how far it may still be off.
#[derive(Default)]
pub(crate) struct Mean {
    pub(crate) count: u32,
    pub(crate) mean: f64,
    squares: f64,
    pub(crate) most: u64,
}

impl Mean {
    pub(crate) fn add(&mut self, sends: u64) {
        let value = sends as f64;
        self.count += 1;
        let off = value - self.mean;
        self.mean += off / f64::from(self.count);
        self.squares += off * (value - self.mean);
        self.most = self.most.max(sends);
    }

    /// The standard error of the mean.
    pub(crate) fn error(&self) -> f64 {
        let count = f64::from(self.count);
        (self.squares / count / count).sqrt()
    }
}
