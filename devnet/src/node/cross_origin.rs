//! Access of pages of other origins, as a public node gives it.

use axum::http::{HeaderName, Method};
use tower_http::cors::{Any, CorsLayer};

/// Every origin may ask, with these headers.
pub(super) fn cross_origin<const N: usize>(headers: [&'static str; N]) -> CorsLayer {
    CorsLayer::new()
        .allow_origin(Any)
        .allow_methods([Method::GET, Method::HEAD, Method::POST])
        .allow_headers(headers.map(HeaderName::from_static))
}
