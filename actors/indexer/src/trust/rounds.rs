//! Which DIDs are judged, at which height, and when a height is closed. Pure.
//!
//! A round takes every height up to the block checkpoint, mostly one: it is opened with what its blocks trigger, the DIDs are
//! judged against the registry as of its last height, and it is closed with every verdict that came in time. A round waits for its DIDs, but not for
//! ever: one whose web server is slow is judged in a later round, with what was fetched meanwhile, and its web server is not
//! waited for again until it has answered in time.

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// DIDs judged at once, and of those on one host: nobody's web server takes all places.
const LANES: usize = 64;
const LANES_A_HOST: usize = 4;
/// Of those whose web server was too slow before.
const LANES_OF_SLOW: usize = 32;
/// Most heights of a round.
const MOST_HEIGHTS: u64 = 256;

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

#[derive(Debug)]
enum Phase {
    Resting,
    Opening,
    Judging { waited_for: BTreeSet<String>, cascaded: BTreeSet<String> },
    Closing,
}

/// A DID being judged.
#[derive(Debug)]
struct Run {
    height: u64,
    is_fresh: bool,
    host: String,
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
    phase: Phase,
    /// DIDs to be judged, and the height that asks for new material, if one does.
    jobs: BTreeMap<String, Option<u64>>,
    running: HashMap<String, Run>,
    done: BTreeMap<String, V>,
    /// What came too late for its height. Its material is good for the next.
    late: HashMap<String, V>,
    slow: BTreeSet<String>,
}

impl<V> Rounds<V> {
    /// Continues behind `height`. Heights before `live` are only gone through: what web servers say now is no news of then.
    pub fn new(height: u64, live: u64, jobs: BTreeMap<String, bool>) -> Self {
        let jobs = jobs.into_iter().map(|(did, is_fresh)| (did, is_fresh.then_some(height))).collect();
        Self {
            height,
            tip: height,
            last: height,
            live,
            phase: Phase::Resting,
            jobs,
            running: HashMap::new(),
            done: BTreeMap::new(),
            late: HashMap::new(),
            slow: BTreeSet::new(),
        }
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
        self.jobs.iter().map(|(did, asked)| (did.clone(), asked.is_some())).collect()
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

    /// Goes on after a failure, or for the first time.
    pub fn advance(&mut self) -> Vec<Effect> {
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

    /// What the blocks of the round trigger is known.
    pub fn opened(&mut self, triggered: impl IntoIterator<Item = (String, bool)>) -> Vec<Effect> {
        let height = self.last;
        for (did, is_fresh) in triggered {
            let asked = self.jobs.entry(did).or_default();
            *asked = is_fresh.then_some(height).or(*asked);
        }
        let is_behind = height < self.live || self.tip >= self.height + MOST_HEIGHTS;
        let waited_for: BTreeSet<String> = if is_behind {
            BTreeSet::new()
        } else {
            let is_late =
                |did: &String, is_fresh: bool| self.running.contains_key(did) || (is_fresh && self.slow.contains(did));
            let waited_for = self.jobs.iter().filter(|(did, asked)| !is_late(did, asked.is_some()));
            waited_for.map(|(did, _)| did.clone()).collect()
        };
        let is_waiting = !waited_for.is_empty();
        self.phase = Phase::Judging { waited_for, cascaded: BTreeSet::new() };
        let mut effects = if is_behind { Vec::new() } else { self.start() };
        effects.push(if is_waiting { Effect::Wait(height) } else { self.close() });
        effects
    }

    /// The round could not be opened; it is opened again with the next call.
    pub fn open_failed(&mut self) {
        self.phase = Phase::Resting;
    }

    /// A DID is judged, and these depend on it. A verdict for an earlier height is forgotten, but what was fetched for it is kept.
    pub fn judged(&mut self, did: &str, verdict: V, dependents: Vec<String>) -> Vec<Effect> {
        let Some(run) = self.running.remove(did) else { return Vec::new() };
        let height = self.last;
        let Phase::Judging { waited_for, cascaded } = &mut self.phase else {
            self.came_late(did, &run, verdict);
            return Vec::new();
        };
        if run.height != height {
            // It is judged again, which takes no web server.
            waited_for.insert(did.to_owned());
            self.came_late(did, &run, verdict);
        } else {
            waited_for.remove(did);
            // In a circle of services each is judged again once, not for ever.
            if cascaded.insert(did.to_owned()) {
                for dependent in dependents.into_iter().filter(|dependent| dependent != did) {
                    if !self.running.contains_key(&dependent) {
                        waited_for.insert(dependent.clone());
                    }
                    self.jobs.entry(dependent).or_default();
                }
            }
            if run.is_fresh {
                self.slow.remove(did);
            }
            self.jobs.remove(did);
            self.done.insert(did.to_owned(), verdict);
        }
        self.go_on()
    }

    /// A DID could not be judged, for a reason of our own; it is tried again in the next round.
    pub fn judging_failed(&mut self, did: &str) -> Vec<Effect> {
        self.running.remove(did);
        if let Phase::Judging { waited_for, .. } = &mut self.phase {
            waited_for.remove(did);
            if waited_for.is_empty() {
                return vec![self.close()];
            }
        }
        Vec::new()
    }

    /// The patience with a height is over.
    pub fn time_is_up(&mut self, height: u64) -> Vec<Effect> {
        match &mut self.phase {
            Phase::Judging { waited_for, .. } if height == self.last => {
                // Whoever did not even begin is not to blame.
                let late = std::mem::take(waited_for).into_iter().filter(|did| self.running.contains_key(did));
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
        self.height = self.last;
        self.done.clear();
        self.phase = Phase::Resting;
        self.advance()
    }

    /// The round could not be written; it is written again.
    pub fn close_again(&self) -> Option<Effect> {
        matches!(self.phase, Phase::Closing).then(|| Effect::Close(self.heights()))
    }

    /// What was fetched for a DID too late for its height, failures included.
    pub fn take_late(&mut self, did: &str) -> Option<V> {
        self.late.remove(did)
    }

    /// What was fetched too late for its height need not be fetched again, unless a later one asks for it.
    fn came_late(&mut self, did: &str, run: &Run, verdict: V) {
        let Some(asked) = self.jobs.get_mut(did) else { return };
        if run.is_fresh {
            *asked = asked.filter(|height| *height > run.height);
        }
        if asked.is_none() {
            self.late.insert(did.to_owned(), verdict);
        }
    }

    fn go_on(&mut self) -> Vec<Effect> {
        let mut effects = self.start();
        if matches!(&self.phase, Phase::Judging { waited_for, .. } if waited_for.is_empty()) {
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
        let mut effects = Vec::new();
        let mut hosts: HashMap<String, usize> = HashMap::new();
        for run in self.running.values() {
            *hosts.entry(run.host.clone()).or_default() += 1;
        }
        let mut slow = self.running.keys().filter(|did| self.slow.contains(*did)).count();
        for (did, asked) in &self.jobs {
            if self.running.len() >= LANES {
                break;
            }
            let host = host_of(did);
            let is_slow = self.slow.contains(did);
            let at_host = hosts.entry(host.to_owned()).or_default();
            if self.running.contains_key(did) || *at_host >= LANES_A_HOST || (is_slow && slow >= LANES_OF_SLOW) {
                continue;
            }
            *at_host += 1;
            slow += usize::from(is_slow);
            let is_fresh = asked.is_some();
            self.running.insert(did.clone(), Run { height, is_fresh, host: host.to_owned() });
            effects.push(Effect::Judge { did: did.clone(), height, is_fresh });
        }
        effects
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

#[cfg(test)]
mod tests {
    use super::*;

    type Subject = Rounds<u64>;

    fn web(name: &str) -> String {
        format!("did:web:{name}")
    }

    fn judge(name: &str, height: u64, is_fresh: bool) -> Effect {
        Effect::Judge { did: web(name), height, is_fresh }
    }

    fn open(height: u64) -> Effect {
        Effect::Open(Heights { first: height, last: height })
    }

    fn close(height: u64) -> Effect {
        Effect::Close(Heights { first: height, last: height })
    }

    fn opened(rounds: &mut Subject, names: &[(&str, bool)]) -> Vec<Effect> {
        rounds.opened(names.iter().map(|(name, is_fresh)| (web(name), *is_fresh)))
    }

    fn started() -> Subject {
        let mut rounds = Subject::new(4, 0, BTreeMap::new());
        assert_eq!(rounds.advance(), []);
        assert_eq!(rounds.tip_seen(5), [open(5)]);
        rounds
    }

    #[test]
    fn a_height_without_triggers_is_closed_at_once_and_the_next_is_opened() {
        let mut rounds = started();
        assert_eq!(rounds.tip_seen(6), []);
        assert_eq!(opened(&mut rounds, &[]), [close(5)]);
        assert_eq!(rounds.closed(), [open(6)]);
        assert_eq!(rounds.height(), 5);
    }

    #[test]
    fn a_height_is_closed_with_what_it_triggered() {
        let mut rounds = started();
        assert_eq!(
            opened(&mut rounds, &[("a", true), ("b", false)]),
            [judge("a", 5, true), judge("b", 5, false), Effect::Wait(5)]
        );
        assert_eq!(rounds.judged(&web("b"), 1, vec![]), []);
        assert_eq!(rounds.judged(&web("a"), 2, vec![]), [close(5)]);
        assert_eq!(rounds.done().len(), 2);
        assert_eq!(rounds.closed(), []);
        assert!(rounds.jobs().is_empty() && rounds.done().is_empty());
    }

    #[test]
    fn who_depends_on_a_verdict_is_judged_after_it_and_circles_end() {
        let mut rounds = started();
        opened(&mut rounds, &[("a", true)]);
        assert_eq!(rounds.judged(&web("a"), 1, vec![web("b"), web("a")]), [judge("b", 5, false)]);
        assert_eq!(rounds.judged(&web("b"), 2, vec![web("a")]), [judge("a", 5, false)]);
        assert_eq!(rounds.judged(&web("a"), 3, vec![web("b")]), [close(5)]);
        assert_eq!(rounds.done()[&web("a")], 3);
    }

    #[test]
    fn a_slow_server_delays_its_own_did_alone_and_once() {
        let mut rounds = started();
        opened(&mut rounds, &[("quick", true), ("slow", true)]);
        rounds.judged(&web("quick"), 1, vec![]);
        assert_eq!(rounds.time_is_up(4), [], "an earlier height's");
        assert_eq!(rounds.time_is_up(5), [close(5)]);
        assert_eq!(rounds.jobs(), [(web("slow"), true)].into(), "kept with the height");
        assert_eq!(rounds.closed(), []);
        assert_eq!(rounds.tip_seen(6), [open(6)]);
        assert_eq!(opened(&mut rounds, &[]), [close(6)], "not waited for, and still running");
        assert_eq!(rounds.judged(&web("slow"), 9, vec![]), [], "its verdict is of an earlier height");
        rounds.closed();
        rounds.tip_seen(7);
        let effects = [judge("slow", 7, false), Effect::Wait(7)];
        assert_eq!(opened(&mut rounds, &[]), effects, "what was fetched need not be fetched again");
        assert_eq!(rounds.take_late(&web("slow")), Some(9), "what could not be had included");
        assert_eq!(rounds.judged(&web("slow"), 3, vec![]), [close(7)]);
        rounds.closed();
        rounds.tip_seen(8);
        assert_eq!(opened(&mut rounds, &[("slow", true)]), [judge("slow", 8, true), close(8)], "not waited for");
        rounds.closed();
        rounds.tip_seen(9);
        opened(&mut rounds, &[("other", true)]);
        assert_eq!(rounds.judged(&web("slow"), 4, vec![]), [judge("slow", 9, false)]);
        assert_eq!(rounds.judged(&web("other"), 5, vec![]), []);
        assert_eq!(rounds.judged(&web("slow"), 6, vec![]), [close(9)]);
    }

    #[test]
    fn a_new_trigger_while_judging_is_not_lost() {
        let mut rounds = started();
        opened(&mut rounds, &[("a", true)]);
        rounds.time_is_up(5);
        rounds.closed();
        rounds.tip_seen(6);
        opened(&mut rounds, &[("a", true)]);
        assert_eq!(rounds.judged(&web("a"), 1, vec![]), [], "fetched before it was asked for again");
        assert_eq!((rounds.jobs(), rounds.take_late(&web("a"))), ([(web("a"), true)].into(), None));
        rounds.closed();
        rounds.tip_seen(7);
        assert_eq!(opened(&mut rounds, &[("b", false)])[0], judge("a", 7, true));
    }

    #[test]
    fn heights_that_came_meanwhile_are_one_round() {
        let mut rounds = started();
        rounds.tip_seen(9);
        assert_eq!(opened(&mut rounds, &[("a", true)]), [judge("a", 5, true), Effect::Wait(5)]);
        rounds.judged(&web("a"), 1, vec![]);
        let rest = Heights { first: 6, last: 9 };
        assert_eq!(rounds.closed(), [Effect::Open(rest)]);
        assert_eq!(opened(&mut rounds, &[("b", false)]), [judge("b", 9, false), Effect::Wait(9)]);
        assert_eq!(rounds.judged(&web("b"), 2, vec![]), [Effect::Close(rest)]);
        rounds.closed();
        assert_eq!(rounds.height(), 9);
    }

    #[test]
    fn what_was_before_the_start_is_not_judged_until_the_present() {
        let mut rounds = Subject::new(0, 5, BTreeMap::new());
        rounds.tip_seen(3);
        assert_eq!(opened(&mut rounds, &[("a", true)]), [Effect::Close(Heights { first: 1, last: 3 })]);
        rounds.closed();
        rounds.tip_seen(5);
        assert_eq!(opened(&mut rounds, &[]), [judge("a", 5, true), Effect::Wait(5)]);
    }

    #[test]
    fn far_behind_nothing_is_judged_and_nothing_is_lost() {
        let mut rounds = started();
        rounds.tip_seen(1_000);
        opened(&mut rounds, &[("a", true)]);
        assert_eq!(rounds.closed(), [Effect::Open(Heights { first: 6, last: 261 })]);
        for last in [261, 517, 773] {
            assert_eq!(opened(&mut rounds, &[]), [Effect::Close(Heights { first: last - 255, last })]);
            rounds.closed();
        }
        assert_eq!(opened(&mut rounds, &[]), [judge("a", 1_000, true), Effect::Wait(1_000)]);
    }

    #[test]
    fn nobody_takes_all_places() {
        let mut rounds = started();
        let one_host = (0..20).map(|index| (format!("did:web:evil:{index}"), true));
        let others = (0..200).map(|index| (format!("did:webvh:scid{index}:h{index}"), true));
        let effects = rounds.opened(one_host.chain(others));
        let of_evil = |effect: &&Effect| matches!(effect, Effect::Judge { did, .. } if did.contains("evil"));
        assert_eq!(effects.iter().filter(of_evil).count(), LANES_A_HOST);
        assert_eq!(rounds.running(), LANES);
        assert_eq!(rounds.judged("did:webvh:scid0:h0", 1, vec![]).len(), 1, "the next takes the place");
    }

    #[test]
    fn failures_of_our_own_are_tried_again() {
        let mut rounds = started();
        rounds.open_failed();
        assert_eq!(rounds.advance(), [open(5)]);
        opened(&mut rounds, &[("a", true)]);
        assert_eq!(rounds.judging_failed(&web("a")).last(), Some(&close(5)));
        assert_eq!(rounds.close_again(), Some(close(5)));
        assert_eq!(rounds.jobs().get(&web("a")), Some(&true));
    }
}
