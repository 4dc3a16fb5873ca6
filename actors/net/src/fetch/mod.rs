//! GET of a document at an untrusted URL.
//!
//! The author of the URL chose the server, and the server chooses every byte of its answer. The fetcher therefore checks every
//! URL before it connects, redirect targets too, and every address after name resolution. One time limit covers all requests of
//! a fetch together, and the length of the body is limited while it arrives. A body that its server named with an entity tag is
//! asked for on condition that it has changed.

mod body_buffer;
mod error;
mod fetcher;
mod freshness;
mod known_bodies;
mod redirect;
mod transience;

pub use error::{FetchError, FetchStage, HttpClientError};
#[cfg(test)]
pub(crate) use fetcher::tests;
pub use fetcher::{BoundedFetcher, FetchLimits, FetchedBody};
pub use freshness::Freshness;
