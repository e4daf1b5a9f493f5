//! gRPC: status codes, hints, and errors as statuses.
//!
//! Feature `grpc`, for tonic. A stack stands between a generated client and its
//! channel, where requests and answers are those of HTTP:
//!
//! ```text
//! generated client
//!   StatusLayer         a stack's error becomes a Status, never UNKNOWN
//!   ReplayLayer         a body that can be sent again
//!   stack               with a GrpcClassifier
//!   WatchBodyLayer      the breaker hears of a status in trailers
//!   tonic::Channel
//! ```
//!
//! # Examples
//!
//! ```
//! use steadfast::grpc::{GrpcClassifier, StatusLayer, judge_trailers};
//! use steadfast::http::{ReplayBody, ReplayLayer, WatchBodyLayer};
//! use steadfast::{Policy, ServiceBuilderExt};
//! use tonic::body::Body;
//! use tower::ServiceBuilder;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let policy = Policy::builder("inventory")
//!     .classify(GrpcClassifier::new().idempotent(|path| path == "/shop.Inventory/Get"))
//!     .build()?;
//! let channel = tonic::transport::Endpoint::from_static("http://[::1]:50051").connect_lazy();
//! let service = ServiceBuilder::new()
//!     .layer(StatusLayer::new())
//!     .layer(ReplayLayer::default())
//!     .resilience(policy)
//!     .layer(WatchBodyLayer::new().judge_trailers(judge_trailers))
//!     .map_request(|request: http::Request<ReplayBody<Body>>| request.map(Body::new))
//!     .service(channel);
//! // let client = InventoryClient::new(service);
//! # let _client = tonic::client::Grpc::new(service);
//! # async fn takes<S: tonic::client::GrpcService<Body>>(_: tonic::client::Grpc<S>) {}
//! # drop(takes(_client));
//! # Ok(())
//! # }
//! ```

mod classifier;
mod code;
mod hints;
mod layer;
mod seal;
mod status;

pub use classifier::{GrpcClassifier, Idempotent, judge};
pub use code::{judge_trailers, verdict_of};
pub use hints::StatusHints;
pub use layer::{StatusFuture, StatusLayer, StatusService};
