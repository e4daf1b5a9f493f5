//! What `tonic-prost-build` makes of this, written down so that no `protoc` is
//! needed:
//!
//! ```protobuf
//! syntax = "proto3";
//! package shop;
//!
//! service Inventory {
//!   rpc Get(StockRequest) returns (StockReply);
//!   rpc Put(StockRequest) returns (StockReply);
//!   rpc Watch(StockRequest) returns (stream StockReply);
//! }
//! message StockRequest { string item = 1; }
//! message StockReply { uint32 count = 1; }
//! ```

#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    missing_debug_implementations,
    reason = "in the shape of generated code, of which no test uses all"
)]

#[derive(Clone, PartialEq, Eq, Hash, ::prost::Message)]
pub struct StockRequest {
    #[prost(string, tag = "1")]
    pub item: ::prost::alloc::string::String,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, ::prost::Message)]
pub struct StockReply {
    #[prost(uint32, tag = "1")]
    pub count: u32,
}

/// Generated client implementations.
pub mod inventory_client {
    use tonic::codegen::*;

    #[derive(Debug, Clone)]
    pub struct InventoryClient<T> {
        inner: tonic::client::Grpc<T>,
    }

    impl<T> InventoryClient<T>
    where
        T: tonic::client::GrpcService<tonic::body::Body>,
        T::Error: Into<StdError>,
        T::ResponseBody: Body<Data = Bytes> + std::marker::Send + 'static,
        <T::ResponseBody as Body>::Error: Into<StdError> + std::marker::Send,
    {
        pub fn new(inner: T) -> Self {
            let inner = tonic::client::Grpc::new(inner);
            Self { inner }
        }

        async fn unary(
            &mut self,
            request: impl tonic::IntoRequest<super::StockRequest>,
            method: &'static str,
            path: &'static str,
        ) -> std::result::Result<tonic::Response<super::StockReply>, tonic::Status> {
            self.inner.ready().await.map_err(|e| {
                tonic::Status::unknown(format!("Service was not ready: {}", e.into()))
            })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static(path);
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("shop.Inventory", method));
            self.inner.unary(req, path, codec).await
        }

        pub async fn get(
            &mut self,
            request: impl tonic::IntoRequest<super::StockRequest>,
        ) -> std::result::Result<tonic::Response<super::StockReply>, tonic::Status> {
            self.unary(request, "Get", "/shop.Inventory/Get").await
        }

        pub async fn put(
            &mut self,
            request: impl tonic::IntoRequest<super::StockRequest>,
        ) -> std::result::Result<tonic::Response<super::StockReply>, tonic::Status> {
            self.unary(request, "Put", "/shop.Inventory/Put").await
        }

        pub async fn watch(
            &mut self,
            request: impl tonic::IntoRequest<super::StockRequest>,
        ) -> std::result::Result<
            tonic::Response<tonic::codec::Streaming<super::StockReply>>,
            tonic::Status,
        > {
            self.inner.ready().await.map_err(|e| {
                tonic::Status::unknown(format!("Service was not ready: {}", e.into()))
            })?;
            let codec = tonic_prost::ProstCodec::default();
            let path = http::uri::PathAndQuery::from_static("/shop.Inventory/Watch");
            let mut req = request.into_request();
            req.extensions_mut()
                .insert(GrpcMethod::new("shop.Inventory", "Watch"));
            self.inner.server_streaming(req, path, codec).await
        }
    }
}

/// Generated server implementations.
pub mod inventory_server {
    use tonic::codegen::*;

    #[async_trait]
    pub trait Inventory: std::marker::Send + std::marker::Sync + 'static {
        async fn get(
            &self,
            request: tonic::Request<super::StockRequest>,
        ) -> std::result::Result<tonic::Response<super::StockReply>, tonic::Status>;

        async fn put(
            &self,
            request: tonic::Request<super::StockRequest>,
        ) -> std::result::Result<tonic::Response<super::StockReply>, tonic::Status>;

        type WatchStream: tokio_stream::Stream<Item = std::result::Result<super::StockReply, tonic::Status>>
            + std::marker::Send
            + 'static;

        async fn watch(
            &self,
            request: tonic::Request<super::StockRequest>,
        ) -> std::result::Result<tonic::Response<Self::WatchStream>, tonic::Status>;
    }

    #[derive(Debug)]
    pub struct InventoryServer<T> {
        inner: Arc<T>,
    }

    impl<T> InventoryServer<T> {
        pub fn new(inner: T) -> Self {
            Self {
                inner: Arc::new(inner),
            }
        }
    }

    impl<T> Clone for InventoryServer<T> {
        fn clone(&self) -> Self {
            Self {
                inner: self.inner.clone(),
            }
        }
    }

    impl<T, B> tonic::codegen::Service<http::Request<B>> for InventoryServer<T>
    where
        T: Inventory,
        B: Body + std::marker::Send + 'static,
        B::Error: Into<StdError> + std::marker::Send + 'static,
    {
        type Response = http::Response<tonic::body::Body>;
        type Error = std::convert::Infallible;
        type Future = BoxFuture<Self::Response, Self::Error>;

        fn poll_ready(
            &mut self,
            _cx: &mut Context<'_>,
        ) -> Poll<std::result::Result<(), Self::Error>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, req: http::Request<B>) -> Self::Future {
            match req.uri().path() {
                "/shop.Inventory/Get" => {
                    struct GetSvc<T: Inventory>(pub Arc<T>);
                    impl<T: Inventory> tonic::server::UnaryService<super::StockRequest> for GetSvc<T> {
                        type Response = super::StockReply;
                        type Future = BoxFuture<tonic::Response<Self::Response>, tonic::Status>;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::StockRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            Box::pin(async move { <T as Inventory>::get(&inner, request).await })
                        }
                    }
                    let method = GetSvc(self.inner.clone());
                    Box::pin(async move {
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec);
                        Ok(grpc.unary(method, req).await)
                    })
                }
                "/shop.Inventory/Put" => {
                    struct PutSvc<T: Inventory>(pub Arc<T>);
                    impl<T: Inventory> tonic::server::UnaryService<super::StockRequest> for PutSvc<T> {
                        type Response = super::StockReply;
                        type Future = BoxFuture<tonic::Response<Self::Response>, tonic::Status>;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::StockRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            Box::pin(async move { <T as Inventory>::put(&inner, request).await })
                        }
                    }
                    let method = PutSvc(self.inner.clone());
                    Box::pin(async move {
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec);
                        Ok(grpc.unary(method, req).await)
                    })
                }
                "/shop.Inventory/Watch" => {
                    struct WatchSvc<T: Inventory>(pub Arc<T>);
                    impl<T: Inventory> tonic::server::ServerStreamingService<super::StockRequest> for WatchSvc<T> {
                        type Response = super::StockReply;
                        type ResponseStream = T::WatchStream;
                        type Future =
                            BoxFuture<tonic::Response<Self::ResponseStream>, tonic::Status>;
                        fn call(
                            &mut self,
                            request: tonic::Request<super::StockRequest>,
                        ) -> Self::Future {
                            let inner = Arc::clone(&self.0);
                            Box::pin(async move { <T as Inventory>::watch(&inner, request).await })
                        }
                    }
                    let method = WatchSvc(self.inner.clone());
                    Box::pin(async move {
                        let codec = tonic_prost::ProstCodec::default();
                        let mut grpc = tonic::server::Grpc::new(codec);
                        Ok(grpc.server_streaming(method, req).await)
                    })
                }
                _ => Box::pin(async move {
                    let mut response = http::Response::new(tonic::body::Body::default());
                    let headers = response.headers_mut();
                    headers.insert(
                        tonic::Status::GRPC_STATUS,
                        (tonic::Code::Unimplemented as i32).into(),
                    );
                    headers.insert(
                        http::header::CONTENT_TYPE,
                        tonic::metadata::GRPC_CONTENT_TYPE,
                    );
                    Ok(response)
                }),
            }
        }
    }

    /// Generated gRPC service name
    pub const SERVICE_NAME: &str = "shop.Inventory";
    impl<T> tonic::server::NamedService for InventoryServer<T> {
        const NAME: &'static str = SERVICE_NAME;
    }
}
