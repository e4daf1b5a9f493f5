//! Guides: what no single item's page can tell.

#[doc = include_str!("choosing_the_numbers.md")]
pub mod choosing_the_numbers {}

#[doc = include_str!("what_to_alert_on.md")]
pub mod what_to_alert_on {}
