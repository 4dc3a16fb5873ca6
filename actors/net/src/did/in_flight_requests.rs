//! Resolutions in flight: concurrent requests for one DID share one resolution.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use serde_json::Value;
use svc_otel::trace;
use tracing::Instrument;

use super::{error::DidError, resolver::DidResolver, syntax::ResolvableDid};

/// DIDs that are resolved at the same time.
const MAX_IN_FLIGHT: usize = 256;

pub(super) type SharedResolution = Shared<BoxFuture<'static, Result<Arc<Value>, DidError>>>;

#[derive(Default)]
pub(super) struct InFlightRequests(Mutex<RequestTable>);

#[derive(Default)]
struct RequestTable {
    last_number: u64,
    by_did: HashMap<String, InFlightRequest>,
}

struct InFlightRequest {
    number: u64,
    is_fresh: bool,
    resolution: SharedResolution,
}

/// A resolution that a caller has joined or started.
pub(super) struct JoinedRequest {
    /// Whether the resolution reads the server after the call, as far as the caller asked for that.
    pub is_fresh_enough: bool,
    pub resolution: SharedResolution,
}

impl InFlightRequests {
    /// Returns the number of the newest request; later requests have higher numbers.
    pub fn last_number(&self) -> u64 {
        self.lock().last_number
    }

    fn lock(&self) -> MutexGuard<'_, RequestTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes a request from the table, also when its task panics.
struct RequestGuard {
    resolver: DidResolver,
    did: String,
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.resolver.0.in_flight_requests.lock().by_did.remove(&self.did);
    }
}

impl DidResolver {
    /// Joins the request for a DID, or starts it. A DID has one request at a time, so that no older document can arrive after a
    /// newer one. The request continues when its callers have ended. `after` is the number that the request must exceed to be
    /// fresh enough; `None` accepts every request.
    pub(super) fn join_or_start(&self, did: &ResolvableDid, after: Option<u64>) -> Result<JoinedRequest, DidError> {
        let mut table = self.0.in_flight_requests.lock();
        if let Some(request) = table.by_did.get(&did.text) {
            let is_fresh_enough = after.is_none_or(|number| request.is_fresh && request.number > number);
            return Ok(JoinedRequest { is_fresh_enough, resolution: request.resolution.clone() });
        }
        if table.by_did.len() >= MAX_IN_FLIGHT {
            return Err(DidError::ResolverBusy { limit: MAX_IN_FLIGHT });
        }
        let is_fresh = after.is_some();
        let guard = RequestGuard { resolver: self.clone(), did: did.text.clone() };
        let work = {
            let (resolver, did) = (self.clone(), did.clone());
            let span = trace::resolution_span(did.method.label());
            async move {
                let _guard = guard;
                // Another request may have ended between the caller's look into the cache and this start.
                let cached = if is_fresh { None } else { resolver.0.document_cache.get(&*did.text).await };
                match cached {
                    Some(cached) => {
                        trace::record_resolution(&span, Ok(()));
                        Ok(cached.document)
                    }
                    None => resolver.fetch_and_verify(&did).instrument(span).await,
                }
            }
        };
        let task = tokio::spawn(work);
        let resolution = task.map(|ended| ended.unwrap_or(Err(DidError::ResolverStopped))).boxed().shared();
        table.last_number += 1;
        let request = InFlightRequest { number: table.last_number, is_fresh, resolution: resolution.clone() };
        table.by_did.insert(did.text.clone(), request);
        Ok(JoinedRequest { is_fresh_enough: true, resolution })
    }
}
