//! Which DIDs are judged, at which height, and when a height is closed. Pure.
//!
//! A round takes every height up to the block checkpoint, mostly one: it is opened with what its blocks trigger, the DIDs are
//! judged against the registry as of its last height, and it is closed with every verdict that came in time. A round waits for
//! its DIDs, but not for ever. What comes too late is told by the next round, as of the height it was judged at, so that nobody
//! keeps a verdict by being slow; if anything happened since, it is also judged again, from what was fetched meanwhile. A web
//! server that was too slow is not waited for again until it has answered in time.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// DIDs judged at once, and of those on one host: nobody's web server takes all places.
const LANES: usize = 32;
const LANES_A_HOST: usize = 4;
/// Of those whose web server was too slow before.
const LANES_OF_SLOW: usize = 16;
/// Most heights of a round.
const MOST_HEIGHTS: u64 = 256;
/// Steps that news of a verdict is passed on: more than services may vouch for each other in a row, and an end for those in a circle.
const MOST_HOPS: u8 = 5;

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Find out what the blocks of some heights trigger.
    Open(Heights),
    /// Judge a DID as of a height, with new material if so wanted.
    Judge { did: String, height: u64, is_fresh: bool },
    /// Say when the patience with a height is over.
    Wait(u64),
    /// Write the heights, with the DIDs that are still to be judged.
    Close(Heights),
}

/// The heights of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heights {
    pub first: u64,
    pub last: u64,
}

/// What a verdict means for others.
#[derive(Debug, Clone, Default)]
pub struct Finding {
    /// Whether it differs from the one before, or rests on new material.
    pub is_new: bool,
    /// DIDs whose written verdicts rest on it.
    pub dependents: Vec<String>,
    /// DIDs it rests on itself.
    pub consulted: Vec<String>,
}

#[derive(Debug)]
enum Phase {
    Resting,
    Opening,
    Judging(Round),
    Closing,
    /// It could not be written.
    Unwritten,
}

/// A round in which DIDs are judged.
#[derive(Debug, Default)]
struct Round {
    waited_for: BTreeSet<String>,
    /// Whose dependents are judged again for a verdict that stands, and for one that does not. In a circle of services each has its
    /// turn once, not for ever.
    cascaded: BTreeSet<(String, bool)>,
    /// Who could not be judged for a reason of our own.
    failed: BTreeSet<String>,
}

/// A DID to be judged.
#[derive(Debug)]
struct Job {
    /// The height that asks for new material, if one does.
    asked: Option<u64>,
    /// Its place in the queue.
    turn: u64,
    /// Steps from what a block triggered.
    hops: u8,
}

/// A DID being judged.
#[derive(Debug)]
struct Run {
    height: u64,
    is_fresh: bool,
    is_slow: bool,
    host: String,
    begun: u64,
    hops: u8,
}

/// A verdict that is not settled: it came too late for its height, or is to be given again.
#[derive(Debug)]
struct Late<V> {
    height: u64,
    /// Whether a verdict it rests on was given meanwhile.
    is_overtaken: bool,
    verdict: V,
    finding: Finding,
    hops: u8,
    is_told: bool,
}

/// Progress of the evaluation; `V` is a verdict.
#[derive(Debug)]
pub struct Rounds<V> {
    height: u64,
    tip: u64,
    /// Last height of the round under way.
    last: u64,
    /// First height at which anything is judged.
    live: u64,
    /// Last height known to have done anything that a verdict could depend on.
    eventful: u64,
    phase: Phase,
    jobs: BTreeMap<String, Job>,
    /// The jobs in their order. Whoever has been judged goes to its end, so that nobody is always first.
    queue: BTreeMap<u64, String>,
    /// Counts what happens, for an order.
    clock: u64,
    running: HashMap<String, Run>,
    done: BTreeMap<String, V>,
    /// What those that are done rest on, and those of the round before.
    consulted: BTreeMap<String, Vec<String>>,
    consulted_before: BTreeMap<String, Vec<String>>,
    /// DIDs of which something new was told that did not stand.
    renewed: BTreeSet<String>,
    /// When something new was told of a DID, while others are judged.
    told: HashMap<String, u64>,
    late: BTreeMap<String, Late<V>>,
    slow: BTreeSet<String>,
}

impl<V: Clone> Rounds<V> {
    /// Continues behind `height`. Heights before `live` are only gone through: what web servers say now is no news of then.
    pub fn new(height: u64, live: u64, jobs: BTreeMap<String, bool>) -> Self {
        let mut rounds = Self {
            height,
            tip: height,
            last: height,
            live,
            eventful: 0,
            phase: Phase::Resting,
            jobs: BTreeMap::new(),
            queue: BTreeMap::new(),
            clock: 0,
            running: HashMap::new(),
            done: BTreeMap::new(),
            consulted: BTreeMap::new(),
            consulted_before: BTreeMap::new(),
            renewed: BTreeSet::new(),
            told: HashMap::new(),
            late: BTreeMap::new(),
            slow: BTreeSet::new(),
        };
        for (did, is_fresh) in jobs {
            rounds.enter(&did, is_fresh.then_some(height), 0);
        }
        rounds
    }

    /// Newest height that is closed.
    pub fn height(&self) -> u64 {
        self.height
    }

    /// Newest height of the block checkpoint.
    pub fn tip(&self) -> u64 {
        self.tip
    }

    /// DIDs that are still to be judged, and whether with new material.
    pub fn jobs(&self) -> BTreeMap<String, bool> {
        self.jobs.iter().map(|(did, job)| (did.clone(), job.asked.is_some())).collect()
    }

    /// DIDs being judged.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// A block is in the store.
    pub fn tip_seen(&mut self, height: u64) -> Vec<Effect> {
        self.tip = self.tip.max(height);
        self.advance()
    }

    /// Goes on after a failure: a round that could not be opened or written is opened or written again.
    pub fn again(&mut self) -> Vec<Effect> {
        match self.phase {
            Phase::Unwritten => vec![self.close()],
            _ => self.advance(),
        }
    }

    /// The round could not be written; it is written again with the next call.
    pub fn close_failed(&mut self) {
        if matches!(self.phase, Phase::Closing) {
            self.phase = Phase::Unwritten;
        }
    }

    fn advance(&mut self) -> Vec<Effect> {
        match self.phase {
            Phase::Resting if self.tip > self.height => {
                self.phase = Phase::Opening;
                self.last = self.tip.min(self.height + MOST_HEIGHTS);
                vec![Effect::Open(self.heights())]
            }
            _ => Vec::new(),
        }
    }

    fn heights(&self) -> Heights {
        Heights { first: self.height + 1, last: self.last }
    }

    /// What the blocks of the round trigger is known, and the last of them that did anything at all.
    pub fn opened(
        &mut self,
        triggered: impl IntoIterator<Item = (String, bool)>,
        eventful: Option<u64>,
    ) -> Vec<Effect> {
        if !matches!(self.phase, Phase::Opening) {
            return Vec::new();
        }
        let height = self.last;
        self.eventful = self.eventful.max(eventful.unwrap_or(0));
        for (did, is_fresh) in triggered {
            self.enter(&did, is_fresh.then_some(height), 0);
        }
        self.phase = Phase::Judging(Round::default());
        if height < self.live || self.tip >= self.height + MOST_HEIGHTS {
            return vec![self.close()];
        }
        let untold: Vec<String> =
            self.late.iter().filter(|(_, late)| !late.is_told).map(|(did, _)| did.clone()).collect();
        for did in untold {
            self.tell(&did);
        }
        for did in self.jobs.keys().cloned().collect::<Vec<_>>() {
            self.wait_for(&did);
        }
        let effects = self.go_on();
        match self.phase {
            Phase::Judging(_) => effects.into_iter().chain([Effect::Wait(height)]).collect(),
            _ => effects,
        }
    }

    /// The round could not be opened; it is opened again with the next call.
    pub fn open_failed(&mut self) {
        if matches!(self.phase, Phase::Opening) {
            self.phase = Phase::Resting;
        }
    }

    /// A DID is judged.
    pub fn judged(&mut self, did: &str, verdict: V, finding: Finding) -> Vec<Effect> {
        let Some(run) = self.running.remove(did) else { return Vec::new() };
        let is_in_time = run.height == self.last && matches!(self.phase, Phase::Judging(_));
        self.clock += 1;
        if let Some(job) = self.jobs.get_mut(did) {
            self.queue.remove(&job.turn);
            job.turn = self.clock;
            self.queue.insert(job.turn, did.to_owned());
            // What was fetched need not be fetched again, unless a later height asks for it.
            job.asked = job.asked.filter(|height| !run.is_fresh || *height > run.height);
        }
        if is_in_time && (run.is_fresh || run.is_slow) {
            self.slow.remove(did);
        }
        let is_later = |parent: &String| self.told.get(parent).is_some_and(|told| *told > run.begun);
        let is_overtaken = finding.consulted.iter().any(is_later);
        let (height, hops) = (run.height, run.hops);
        self.late.insert(did.to_owned(), Late { height, is_overtaken, verdict, finding, hops, is_told: false });
        if let Phase::Judging(round) = &mut self.phase {
            round.waited_for.remove(did);
            self.tell(did);
            self.wait_for(did);
            return self.go_on();
        }
        Vec::new()
    }

    /// A DID could not be judged, for a reason of our own; it is tried again in the next round.
    pub fn judging_failed(&mut self, did: &str) -> Vec<Effect> {
        self.running.remove(did);
        let Phase::Judging(round) = &mut self.phase else { return Vec::new() };
        round.waited_for.remove(did);
        round.failed.insert(did.to_owned());
        self.go_on()
    }

    /// The patience with a height is over.
    pub fn time_is_up(&mut self, height: u64) -> Vec<Effect> {
        match &mut self.phase {
            Phase::Judging(round) if height == self.last => {
                // Whoever did not even begin is not to blame.
                let late =
                    std::mem::take(&mut round.waited_for).into_iter().filter(|did| self.running.contains_key(did));
                self.slow.extend(late);
                vec![self.close()]
            }
            _ => Vec::new(),
        }
    }

    /// Verdicts of the round being closed.
    pub fn done(&self) -> &BTreeMap<String, V> {
        &self.done
    }

    /// The round is written.
    pub fn closed(&mut self) -> Vec<Effect> {
        if !matches!(self.phase, Phase::Closing) {
            return Vec::new();
        }
        self.height = self.last;
        self.done.clear();
        // Whoever was judged while it was written did not find them in the store.
        self.consulted_before = std::mem::take(&mut self.consulted);
        let oldest = self.running.values().map(|run| run.begun).min().unwrap_or(u64::MAX);
        self.told.retain(|_, told| *told > oldest);
        self.phase = Phase::Resting;
        self.advance()
    }

    /// The verdict that came too late and does not stand, for its material. None if that is not the newest.
    pub fn take_late(&mut self, did: &str) -> Option<V> {
        self.late.remove(did).filter(|late| !late.is_overtaken).map(|late| late.verdict)
    }

    /// Tells a verdict with the round under way. It stands if nothing happened since it was begun.
    fn tell(&mut self, did: &str) {
        self.clock += 1;
        let is_asked = self.jobs.get(did).is_some_and(|job| job.asked.is_some());
        let Some(late) = self.late.get_mut(did) else { return };
        late.is_told = true;
        let (finding, hops) = (late.finding.clone(), late.hops);
        let stands = !is_asked && !late.is_overtaken && late.height >= self.eventful;
        self.done.insert(did.to_owned(), late.verdict.clone());
        self.consulted.insert(did.to_owned(), finding.consulted);
        if stands {
            self.late.remove(did);
            self.leave(did);
        } else {
            self.enter(did, None, hops);
            if self.late.len() > LANES {
                // So much material is not kept at once: this is fetched again.
                self.late.remove(did);
            }
        }
        let was_new = stands && self.renewed.remove(did);
        if !finding.is_new && !was_new {
            return;
        }
        // Two that rest on each other would overtake each other for ever.
        if stands {
            self.told.insert(did.to_owned(), self.clock);
        } else {
            self.renewed.insert(did.to_owned());
        }
        if hops < MOST_HOPS {
            self.cascade(did, stands, finding.dependents, hops + 1);
        }
    }

    /// Has those judged again who rest on a DID: by their written verdicts, and by those that are not written yet. Who is being judged
    /// is found out when it is.
    fn cascade(&mut self, did: &str, stands: bool, written: Vec<String>, hops: u8) {
        let Phase::Judging(round) = &mut self.phase else { return };
        if !round.cascaded.insert((did.to_owned(), stands)) {
            return;
        }
        let rests_on = |consulted: &[String]| consulted.iter().any(|parent| parent == did);
        let done = self
            .consulted
            .iter()
            .chain(&self.consulted_before)
            .filter(|(_, consulted)| rests_on(consulted))
            .map(|(name, _)| name.clone());
        let late = self.late.iter().filter(|(_, late)| rests_on(&late.finding.consulted)).map(|(name, _)| name.clone());
        let dependents: BTreeSet<String> = written.into_iter().chain(done).chain(late).collect();
        for dependent in dependents.iter().filter(|dependent| *dependent != did) {
            self.enter(dependent, None, hops);
            if let Some(late) = self.late.get_mut(dependent) {
                late.is_overtaken = true;
            }
            self.wait_for(dependent);
        }
    }

    /// A DID is to be judged.
    fn enter(&mut self, did: &str, asked: Option<u64>, hops: u8) {
        match self.jobs.get_mut(did) {
            Some(job) => {
                job.asked = asked.or(job.asked);
                job.hops = job.hops.min(hops);
            }
            None => {
                self.clock += 1;
                self.jobs.insert(did.to_owned(), Job { asked, turn: self.clock, hops });
                self.queue.insert(self.clock, did.to_owned());
            }
        }
    }

    /// A DID is not to be judged any more.
    fn leave(&mut self, did: &str) {
        if let Some(job) = self.jobs.remove(did) {
            self.queue.remove(&job.turn);
        }
    }

    /// Whether a web server has to be asked that was too slow before.
    fn is_slow(&self, did: &str, is_fresh: bool) -> bool {
        self.slow.contains(did) && (is_fresh || self.late.get(did).is_none_or(|late| late.is_overtaken))
    }

    /// Has the round wait for a DID, if it is to be judged and does not make others wait.
    fn wait_for(&mut self, did: &str) {
        let Some(job) = self.jobs.get(did) else { return };
        let is_of_before = self.running.get(did).is_some_and(|run| run.height < self.last);
        let is_slow = self.is_slow(did, job.asked.is_some());
        if let (Phase::Judging(round), false) = (&mut self.phase, is_of_before || is_slow)
            && !round.failed.contains(did)
        {
            round.waited_for.insert(did.to_owned());
        }
    }

    fn go_on(&mut self) -> Vec<Effect> {
        let mut effects = self.start();
        if matches!(&self.phase, Phase::Judging(round) if round.waited_for.is_empty()) {
            effects.push(self.close());
        }
        effects
    }

    fn close(&mut self) -> Effect {
        self.phase = Phase::Closing;
        Effect::Close(self.heights())
    }

    /// Starts as many DIDs as there are places.
    fn start(&mut self) -> Vec<Effect> {
        let height = self.last;
        let mut hosts: HashMap<String, usize> = HashMap::new();
        for run in self.running.values() {
            *hosts.entry(run.host.clone()).or_default() += 1;
        }
        let mut slow = self.running.values().filter(|run| run.is_slow).count();
        let mut chosen = Vec::new();
        for did in self.queue.values() {
            if self.running.len() + chosen.len() >= LANES {
                break;
            }
            let is_fresh = self.jobs.get(did).is_some_and(|job| job.asked.is_some());
            let has_failed = matches!(&self.phase, Phase::Judging(round) if round.failed.contains(did));
            let at_host = hosts.entry(host_of(did).to_owned()).or_default();
            let is_slow = self.is_slow(did, is_fresh);
            if has_failed
                || self.running.contains_key(did)
                || *at_host >= LANES_A_HOST
                || (is_slow && slow >= LANES_OF_SLOW)
            {
                continue;
            }
            *at_host += 1;
            slow += usize::from(is_slow);
            chosen.push((did.clone(), is_fresh, is_slow));
        }
        chosen.into_iter().map(|(did, is_fresh, is_slow)| self.begin(did, height, is_fresh, is_slow)).collect()
    }

    fn begin(&mut self, did: String, height: u64, is_fresh: bool, is_slow: bool) -> Effect {
        self.clock += 1;
        let hops = self.jobs.get(&did).map_or(0, |job| job.hops);
        let run = Run { height, is_fresh, is_slow, host: host_of(&did).to_owned(), begun: self.clock, hops };
        self.running.insert(did.clone(), run);
        Effect::Judge { did, height, is_fresh }
    }
}

/// The host in a DID of a web method; the whole DID of any other.
fn host_of(did: &str) -> &str {
    let mut parts = did.splitn(5, ':');
    let (method, first, second) = (parts.nth(1), parts.next(), parts.next());
    match (method, first, second) {
        (Some("web"), Some(host), _) | (Some("webvh"), _, Some(host)) => host,
        _ => did,
    }
}
