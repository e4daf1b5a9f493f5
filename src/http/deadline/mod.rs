//! Deadlines on the wire: always what is left, never a point in time, since no
//! two machines agree on the present.

mod answer;
mod client;
mod form;
mod future;
mod server;

pub use client::{OutboundDeadlineFuture, OutboundDeadlineLayer, OutboundDeadlineService};
pub use form::DeadlineHeader;
pub use future::InboundDeadlineFuture;
pub use server::{InboundDeadlineLayer, InboundDeadlineService};
