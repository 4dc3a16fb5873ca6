//! What is being resolved: whoever asks for the same DID meanwhile gets the same answer.

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

use super::{DidError, DidResolver, syntax::Did};

/// DIDs that may be resolved at once.
const LIMIT: usize = 256;

pub(super) type Outcome = Shared<BoxFuture<'static, Result<Arc<Value>, DidError>>>;

#[derive(Default)]
pub(super) struct Flights(Mutex<State>);

#[derive(Default)]
struct State {
    started: u64,
    by_did: HashMap<String, Flight>,
}

struct Flight {
    number: u64,
    is_fresh: bool,
    outcome: Outcome,
}

impl Flights {
    /// A moment: flights that start later have a higher number.
    pub fn now(&self) -> u64 {
        self.lock().started
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends a flight, also when its task panics.
struct Landing(DidResolver, String);

impl Drop for Landing {
    fn drop(&mut self) {
        self.0.0.flights.lock().by_did.remove(&self.1);
    }
}

impl DidResolver {
    /// The flight for a DID, and whether it serves somebody who asked for what is there after a moment. There is only one at a time, so
    /// that no older document can arrive after a newer one. It ends without the caller, who may have gone.
    pub(super) fn board(&self, did: &Did, asked: Option<u64>) -> Result<(bool, Outcome), DidError> {
        let mut state = self.0.flights.lock();
        if let Some(flight) = state.by_did.get(&did.text) {
            let serves = asked.is_none_or(|asked| flight.is_fresh && flight.number > asked);
            return Ok((serves, flight.outcome.clone()));
        }
        if state.by_did.len() >= LIMIT {
            return Err(DidError::Busy { limit: LIMIT });
        }
        let is_fresh = asked.is_some();
        let landing = Landing(self.clone(), did.text.clone());
        let work = {
            let (resolver, did) = (self.clone(), did.clone());
            let span = trace::resolution_span(did.method.label());
            async move {
                let _landing = landing;
                // Another flight may have landed between the look into the cache and this one's start.
                let kept = if is_fresh { None } else { resolver.0.documents.get(&*did.text).await };
                match kept {
                    Some(kept) => {
                        trace::record_resolution(&span, Ok(()));
                        Ok(kept.document)
                    }
                    None => resolver.load(&did).instrument(span).await,
                }
            }
        };
        let task = tokio::spawn(work);
        let outcome = task.map(|ended| ended.unwrap_or(Err(DidError::Stopped))).boxed().shared();
        state.started += 1;
        let flight = Flight { number: state.started, is_fresh, outcome: outcome.clone() };
        state.by_did.insert(did.text.clone(), flight);
        Ok((true, outcome))
    }
}
