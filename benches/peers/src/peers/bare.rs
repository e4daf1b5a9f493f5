//! The floor: the service itself, and by hand what must be done.

use ::tower::Service;

use super::Peer;
use crate::contender::{Contender, Tower};
use crate::inner::{Fault, Inner};
use crate::settings::Rule;

pub struct Bare;

pub type Contestant = Tower<Inner>;

impl Peer for Bare {
    const NAME: &'static str = "bare";
    const IS_CHECKED: bool = false;

    fn stack(inner: Inner) -> Option<impl Contender> {
        Some(Tower(inner))
    }

    fn refusing(_: Inner) -> Option<impl Contender> {
        Some(Tower(Inner::REFUSING))
    }

    fn at_once(inner: Inner) -> Option<impl Contender> {
        Some(Twice(inner))
    }

    fn breaker(inner: Inner, _: Rule) -> Option<impl Contender> {
        Some(Tower(inner))
    }
}

/// Calls a second time after a failure.
#[derive(Clone)]
struct Twice(Inner);

impl Contender for Twice {
    type Error = Fault;

    async fn call(&mut self, request: u64) -> Result<u64, Fault> {
        match self.0.call(request).await {
            Err(_) => self.0.call(request).await,
            answered => answered,
        }
    }
}
