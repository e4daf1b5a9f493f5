//! Guides: what no single item's page can tell.

#[doc = include_str!("choosing_the_numbers.md")]
pub mod choosing_the_numbers {}

#[cfg(feature = "hyper")]
#[doc = include_str!("hyper_util.md")]
pub mod hyper_util {}

#[cfg(feature = "reqwest")]
#[doc = include_str!("reqwest.md")]
pub mod reqwest {}

#[cfg(feature = "grpc")]
#[doc = include_str!("tonic.md")]
pub mod tonic {}

#[cfg(feature = "hyper")]
#[doc = include_str!("aws_sdk.md")]
pub mod aws_sdk {}

#[doc = include_str!("what_to_alert_on.md")]
pub mod what_to_alert_on {}

#[cfg(feature = "test-util")]
#[doc = include_str!("testing_your_policy.md")]
pub mod testing_your_policy {}

#[doc = include_str!("what_it_costs.md")]
pub mod what_it_costs {}
