//! The queue of DIDs to evaluate. Pure.

use std::collections::BTreeMap;

/// A DID to evaluate.
#[derive(Debug)]
pub(super) struct EvaluationJob {
    /// The height that requests fresh evidence, if there is one.
    pub refresh_height: Option<u64>,
    /// Steps from a block trigger.
    pub hops: u8,
    position: u64,
}

/// DIDs to evaluate, in order. An evaluated DID goes to the end, so that none is always first.
#[derive(Debug, Default)]
pub(super) struct EvaluationQueue {
    jobs: BTreeMap<String, EvaluationJob>,
    order: BTreeMap<u64, String>,
    last_position: u64,
}

impl EvaluationQueue {
    /// Adds a DID at the end. A DID that is already queued keeps its position and takes the refresh height.
    pub fn enqueue(&mut self, did: &str, refresh_height: Option<u64>, hops: u8) {
        if let Some(job) = self.jobs.get_mut(did) {
            job.refresh_height = refresh_height.or(job.refresh_height);
            job.hops = job.hops.min(hops);
            return;
        }
        let position = self.next_position();
        self.jobs.insert(did.to_owned(), EvaluationJob { refresh_height, hops, position });
        self.order.insert(position, did.to_owned());
    }

    /// Removes a DID.
    pub fn remove(&mut self, did: &str) {
        if let Some(job) = self.jobs.remove(did) {
            self.order.remove(&job.position);
        }
    }

    /// Moves an evaluated DID to the end. Evidence that was fetched at a height need not be fetched again, unless a
    /// later height requests it.
    pub fn record_evaluation(&mut self, did: &str, height: u64, is_refresh: bool) {
        let position = self.next_position();
        let Some(job) = self.jobs.get_mut(did) else { return };
        self.order.remove(&job.position);
        job.position = position;
        job.refresh_height = job.refresh_height.filter(|requested| !is_refresh || *requested > height);
        self.order.insert(position, did.to_owned());
    }

    /// Returns the job of a DID.
    pub fn get(&self, did: &str) -> Option<&EvaluationJob> {
        self.jobs.get(did)
    }

    /// Whether a height requests fresh evidence for a DID.
    pub fn is_fresh(&self, did: &str) -> bool {
        self.jobs.get(did).is_some_and(|job| job.refresh_height.is_some())
    }

    /// Returns all DIDs, sorted by name.
    pub fn dids(&self) -> Vec<String> {
        self.jobs.keys().cloned().collect()
    }

    /// Iterates over the DIDs in the order of the queue.
    pub fn in_order(&self) -> impl Iterator<Item = &String> {
        self.order.values()
    }

    /// Returns all DIDs, each with whether its evidence must be fetched again.
    pub fn pending(&self) -> BTreeMap<String, bool> {
        self.jobs.iter().map(|(did, job)| (did.clone(), job.refresh_height.is_some())).collect()
    }

    fn next_position(&mut self) -> u64 {
        self.last_position += 1;
        self.last_position
    }
}
