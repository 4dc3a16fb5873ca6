//! gRPC: every query by its method, and the reflection of all services.

use std::{
    future::{Ready, ready},
    net::TcpListener,
    sync::Arc,
};

use axum::{Router, body::Body, extract::Request};
use bytes::{Buf, BufMut, Bytes};
use tonic::{
    Response, Status,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    metadata::MetadataValue,
    server::{Grpc, UnaryService},
    service::Routes,
    transport::{Server, server::TcpIncoming},
};

use super::answer::{HEIGHT_HEADER, ask};
use crate::node::shared::SharedChain;

/// Serves until the runtime of the node ends.
pub async fn serve_grpc(listener: TcpListener, shared: Arc<SharedChain>) {
    let descriptors = shared.core().chain.registry.file_descriptors();
    let served =
        reflection(&descriptors).map(|router| router.fallback(move |request| answer(Arc::clone(&shared), request)));
    let ended = match (served, tokio::net::TcpListener::from_std(listener)) {
        (Ok(router), Ok(listener)) => {
            let incoming = TcpIncoming::from(listener);
            Server::builder()
                .add_routes(Routes::from(router))
                .serve_with_incoming(incoming)
                .await
                .map_err(|error| error.to_string())
        }
        (Err(error), _) => Err(error.to_string()),
        (_, Err(error)) => Err(error.to_string()),
    };
    if let Err(reason) = ended {
        tracing::error!(reason, "the listener of gRPC cannot be used");
    }
}

/// Both versions of the reflection: clients ask for either.
fn reflection(descriptors: &[u8]) -> Result<Router, tonic_reflection::server::Error> {
    let builder = || tonic_reflection::server::Builder::configure().register_encoded_file_descriptor_set(descriptors);
    Ok(Routes::new(builder().build_v1()?).add_service(builder().build_v1alpha()?).into_axum_router())
}

async fn answer(shared: Arc<SharedChain>, request: Request) -> axum::http::Response<Body> {
    let method = request.uri().path().to_owned();
    let answered = Grpc::new(BytesCodec).unary(QueryService { shared, method }, request).await;
    answered.map(Body::new)
}

/// One query.
struct QueryService {
    shared: Arc<SharedChain>,
    method: String,
}

impl UnaryService<Bytes> for QueryService {
    type Response = Bytes;
    type Future = Ready<Result<Response<Bytes>, Status>>;

    fn call(&mut self, request: tonic::Request<Bytes>) -> Self::Future {
        let height = request.metadata().get(HEIGHT_HEADER).and_then(|height| height.to_str().ok()).unwrap_or_default();
        let answered = ask(&self.shared, &self.method, request.get_ref(), height);
        ready(match answered {
            Ok((height, bytes)) => {
                let mut response = Response::new(Bytes::from(bytes));
                response.metadata_mut().insert(HEIGHT_HEADER, MetadataValue::from(height));
                Ok(response)
            }
            Err(failure) => Err(Status::new(failure.code.into(), failure.message)),
        })
    }
}

/// Messages as they are: the handlers encode and decode them.
#[derive(Debug, Clone, Copy, Default)]
struct BytesCodec;

impl Codec for BytesCodec {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for BytesCodec {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(item);
        Ok(())
    }
}

impl Decoder for BytesCodec {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        let length = buffer.remaining();
        Ok(Some(buffer.copy_to_bytes(length)))
    }
}
