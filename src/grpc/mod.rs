//! gRPC: status codes, hints, and errors as statuses.
//!
//! Feature `grpc`, for tonic. A stack stands between a generated client and its
//! channel, where requests and answers are those of HTTP:
//!
//! ```text
//! generated client  ->  StatusLayer  ->  stack (GrpcClassifier)  ->  Channel
//! ```
