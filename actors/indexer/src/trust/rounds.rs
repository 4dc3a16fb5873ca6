//! Which DIDs are judged, at which height, and when a height is closed. Pure.
//!
//! A round takes every height up to the block checkpoint, mostly one: it is opened with what its blocks trigger, the DIDs are
//! judged against the registry as of its last height, and it is closed with every verdict that came in time. A round waits for
//! its DIDs, but not for ever. What comes too late is told by the next round, as of the height it was judged at, so that nobody
//! keeps a verdict by being slow; if anything happened since, it is also judged again, from what was fetched meanwhile. A web
//! server that was too slow is not waited for again until it has answered in time.

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// DIDs judged at once, and of those on one host: nobody's web server takes all places.
const LANES: usize = 32;
const LANES_A_HOST: usize = 4;
/// Of those whose web server was too slow before.
const LANES_OF_SLOW: usize = 16;
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
    /// Whether a verdict that this one may rest on was given meanwhile.
    is_overtaken: bool,
}

/// A verdict that came too late for its height.
#[derive(Debug)]
struct Late<V> {
    height: u64,
    is_overtaken: bool,
    verdict: V,
    dependents: Vec<String>,
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
    /// DIDs to be judged, and the height that asks for new material, if one does.
    jobs: BTreeMap<String, Option<u64>>,
    running: HashMap<String, Run>,
    done: BTreeMap<String, V>,
    /// What came too late, until it stands or is judged again, with its material.
    late: BTreeMap<String, Late<V>>,
    slow: BTreeSet<String>,
}

impl<V: Clone> Rounds<V> {
    /// Continues behind `height`. Heights before `live` are only gone through: what web servers say now is no news of then.
    pub fn new(height: u64, live: u64, jobs: BTreeMap<String, bool>) -> Self {
        let jobs = jobs.into_iter().map(|(did, is_fresh)| (did, is_fresh.then_some(height))).collect();
        Self {
            height,
            tip: height,
            last: height,
            live,
            eventful: 0,
            phase: Phase::Resting,
            jobs,
            running: HashMap::new(),
            done: BTreeMap::new(),
            late: BTreeMap::new(),
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

    /// Goes on after a failure: a round that could not be opened or written is opened or written again.
    pub fn again(&mut self) -> Vec<Effect> {
        match self.phase {
            Phase::Closing => vec![Effect::Close(self.heights())],
            _ => self.advance(),
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
        let height = self.last;
        self.eventful = self.eventful.max(eventful.unwrap_or(0));
        for (did, is_fresh) in triggered {
            let asked = self.jobs.entry(did).or_default();
            *asked = is_fresh.then_some(height).or(*asked);
        }
        self.phase = Phase::Judging { waited_for: BTreeSet::new(), cascaded: BTreeSet::new() };
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
            Phase::Judging { .. } => effects.into_iter().chain([Effect::Wait(height)]).collect(),
            _ => effects,
        }
    }

    /// The round could not be opened; it is opened again with the next call.
    pub fn open_failed(&mut self) {
        self.phase = Phase::Resting;
    }

    /// A DID is judged, and these depend on what is new in it.
    pub fn judged(&mut self, did: &str, verdict: V, dependents: Vec<String>) -> Vec<Effect> {
        let Some(run) = self.running.remove(did) else { return Vec::new() };
        let is_in_time = run.height == self.last && matches!(self.phase, Phase::Judging { .. });
        if run.is_fresh {
            // What was fetched need not be fetched again, unless a later height asks for it.
            if let Some(asked) = self.jobs.get_mut(did) {
                *asked = asked.filter(|height| *height > run.height);
            }
            if is_in_time {
                self.slow.remove(did);
            }
        }
        let late = Late { height: run.height, is_overtaken: run.is_overtaken, verdict, dependents, is_told: false };
        self.late.insert(did.to_owned(), late);
        if let Phase::Judging { waited_for, .. } = &mut self.phase {
            waited_for.remove(did);
            self.tell(did);
            self.wait_for(did);
            return self.go_on();
        }
        Vec::new()
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

    /// The verdict that came too late and does not stand, for its material. None if that is not the newest.
    pub fn take_late(&mut self, did: &str) -> Option<V> {
        self.late.remove(did).filter(|late| !late.is_overtaken).map(|late| late.verdict)
    }

    /// Tells a verdict with the round under way. It stands if nothing happened since it was begun.
    fn tell(&mut self, did: &str) {
        let Some(late) = self.late.get_mut(did) else { return };
        late.is_told = true;
        self.done.insert(did.to_owned(), late.verdict.clone());
        let is_asked = self.jobs.get(did).is_some_and(Option::is_some);
        if is_asked || late.is_overtaken || late.height < self.eventful {
            self.jobs.entry(did.to_owned()).or_default();
            if self.late.len() > LANES {
                // So much material is not kept at once: this is fetched again.
                self.late.remove(did);
            }
            return;
        }
        self.jobs.remove(did);
        let dependents = self.late.remove(did).map(|late| late.dependents).unwrap_or_default();
        let Phase::Judging { cascaded, .. } = &mut self.phase else { return };
        // In a circle of services each is judged again once, not for ever.
        if !cascaded.insert(did.to_owned()) {
            return;
        }
        for dependent in dependents.into_iter().filter(|dependent| dependent != did) {
            self.jobs.entry(dependent.clone()).or_default();
            if let Some(run) = self.running.get_mut(&dependent) {
                run.is_overtaken = true;
            }
            if let Some(late) = self.late.get_mut(&dependent) {
                late.is_overtaken = true;
            }
            self.wait_for(&dependent);
        }
    }

    /// Has the round wait for a DID, if it is to be judged and does not make others wait.
    fn wait_for(&mut self, did: &str) {
        let Some(asked) = self.jobs.get(did) else { return };
        let is_of_before = self.running.get(did).is_some_and(|run| run.height < self.last);
        let is_slow = asked.is_some() && self.slow.contains(did);
        if let (Phase::Judging { waited_for, .. }, false) = (&mut self.phase, is_of_before || is_slow) {
            waited_for.insert(did.to_owned());
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
            self.running.insert(did.clone(), Run { height, is_fresh, host: host.to_owned(), is_overtaken: false });
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
        opened_with_deeds(rounds, names, None)
    }

    fn opened_with_deeds(rounds: &mut Subject, names: &[(&str, bool)], eventful: Option<u64>) -> Vec<Effect> {
        rounds.opened(names.iter().map(|(name, is_fresh)| (web(name), *is_fresh)), eventful)
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

    /// A round in which `slow` was not judged in time, and the next height.
    fn with_a_slow_one() -> Subject {
        let mut rounds = started();
        opened(&mut rounds, &[("quick", true), ("slow", true)]);
        rounds.judged(&web("quick"), 1, vec![]);
        assert_eq!(rounds.time_is_up(4), [], "an earlier height's");
        assert_eq!(rounds.time_is_up(5), [close(5)]);
        assert_eq!(rounds.jobs(), [(web("slow"), true)].into(), "kept with the height");
        assert_eq!(rounds.closed(), []);
        assert_eq!(rounds.tip_seen(6), [open(6)]);
        rounds
    }

    #[test]
    fn a_slow_server_delays_its_own_did_alone_and_once() {
        let mut rounds = with_a_slow_one();
        assert_eq!(opened(&mut rounds, &[]), [close(6)], "not waited for, and still running");
        assert_eq!(rounds.judged(&web("slow"), 9, vec![web("child")]), [], "too late for this one too");
        assert!(rounds.done().is_empty());
        rounds.closed();
        rounds.tip_seen(7);
        let effects = [judge("child", 7, false), Effect::Wait(7)];
        assert_eq!(opened(&mut rounds, &[]), effects, "nothing happened since: it stands");
        assert_eq!(rounds.done(), &[(web("slow"), 9)].into());
        assert_eq!(rounds.judged(&web("child"), 3, vec![]), [close(7)]);
        rounds.closed();
        rounds.tip_seen(8);
        assert_eq!(opened(&mut rounds, &[("slow", true)]), [judge("slow", 8, true), close(8)], "not waited for");
        rounds.closed();
        rounds.tip_seen(9);
        opened(&mut rounds, &[("other", true)]);
        assert_eq!(rounds.judged(&web("slow"), 4, vec![]), [], "late for its height, in time for this one");
        assert_eq!(rounds.judged(&web("other"), 5, vec![]), [close(9)]);
        assert_eq!(rounds.done()[&web("slow")], 4);
        assert!(rounds.jobs().is_empty());
    }

    #[test]
    fn what_is_late_is_judged_again_if_anything_happened_since() {
        let mut rounds = with_a_slow_one();
        assert_eq!(opened_with_deeds(&mut rounds, &[], Some(6)), [close(6)]);
        rounds.judged(&web("slow"), 9, vec![web("child")]);
        rounds.closed();
        rounds.tip_seen(7);
        let effects = [judge("slow", 7, false), Effect::Wait(7)];
        assert_eq!(opened(&mut rounds, &[]), effects, "what was fetched need not be fetched again");
        assert_eq!(rounds.take_late(&web("slow")), Some(9), "what could not be had included");
        assert_eq!(rounds.done()[&web("slow")], 9, "told meanwhile");
        assert_eq!(rounds.judged(&web("slow"), 3, vec![]), [close(7)]);
        assert_eq!(rounds.done()[&web("slow")], 3);
    }

    #[test]
    fn whoever_is_always_late_is_told_all_the_same() {
        let mut rounds = with_a_slow_one();
        for height in 6..20 {
            opened_with_deeds(&mut rounds, &[("slow", true)], Some(height));
            let told: Vec<_> = rounds.done().values().copied().collect();
            assert_eq!(told, if height == 6 { vec![] } else { vec![height - 1] });
            rounds.judged(&web("slow"), height, vec![]);
            assert!(rounds.jobs().contains_key(&web("slow")));
            rounds.closed();
            rounds.tip_seen(height + 1);
        }
    }

    #[test]
    fn what_a_newer_verdict_overtakes_is_judged_again_with_newer_material() {
        let mut rounds = started();
        opened(&mut rounds, &[("child", false), ("parent", true)]);
        assert_eq!(rounds.judged(&web("parent"), 1, vec![web("child")]), []);
        assert_eq!(rounds.judged(&web("child"), 2, vec![]), [judge("child", 5, false)]);
        assert_eq!(rounds.take_late(&web("child")), None);
        assert_eq!(rounds.judged(&web("child"), 3, vec![]), [close(5)]);
        assert_eq!(rounds.done()[&web("child")], 3);
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
        assert_eq!(rounds.jobs(), [(web("a"), true)].into());
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
        let effects = rounds.opened(one_host.chain(others), None);
        let of_evil = |effect: &&Effect| matches!(effect, Effect::Judge { did, .. } if did.contains("evil"));
        assert_eq!(effects.iter().filter(of_evil).count(), LANES_A_HOST);
        assert_eq!(rounds.running(), LANES);
        assert_eq!(rounds.judged("did:webvh:scid0:h0", 1, vec![]).len(), 1, "the next takes the place");
    }

    #[test]
    fn failures_of_our_own_are_tried_again() {
        let mut rounds = started();
        rounds.open_failed();
        assert_eq!(rounds.again(), [open(5)]);
        opened(&mut rounds, &[("a", true)]);
        assert_eq!(rounds.judging_failed(&web("a")).last(), Some(&close(5)));
        assert_eq!(rounds.again(), [close(5)]);
        assert_eq!(rounds.jobs().get(&web("a")), Some(&true));
    }
}
