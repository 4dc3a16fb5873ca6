//! A model of an applicant, a validator and a chain. The channel between them loses, doubles and reorders, agents end and start again,
//! operators call at any time, and the node that an agent reads may lag.

mod agents;
mod chain;

use self::{
    agents::{Agent, Said},
    chain::Chain,
};
use crate::{
    flow::{ConnectionState, FlowState, PendingAction, Side},
    tests::random::Random,
};

struct World {
    random: Random,
    chain: Chain,
    agents: [Agent; 2],
    /// Messages on their way, with their receivers.
    channel: Vec<(Side, Said)>,
    /// Messages whose arrival is unknown and that their sender repeats.
    repeated: Vec<(Side, Said)>,
    now: i64,
    /// Whether the applicant does more than its agent would. Then nothing is said of an agreement.
    is_hostile: bool,
}

fn place(side: Side) -> usize {
    usize::from(side == Side::Validator)
}

fn other(side: Side) -> Side {
    if side == Side::Validator { Side::Applicant } else { Side::Validator }
}

impl World {
    fn new(seed: u64, is_hostile: bool) -> Self {
        Self {
            random: Random::new(seed),
            chain: Chain::default(),
            agents: [Agent::new(Side::Applicant), Agent::new(Side::Validator)],
            channel: Vec::new(),
            repeated: Vec::new(),
            now: 1_000,
            is_hostile,
        }
    }

    /// Messages leave an agent: in order, into a channel that has none.
    fn send(&mut self, from: Side, is_fair: bool) {
        let said: Vec<Said> = self.agents[place(from)].outbox.drain(..).collect();
        for said in said {
            let copies =
                if is_fair { 1 } else { self.random.below(10).saturating_sub(2).min(1) + self.random.below(8) / 7 };
            for _ in 0..copies {
                self.channel.push((other(from), said.clone()));
            }
            if copies == 0 && said.is_repeated() {
                self.repeated.push((other(from), said));
            }
        }
    }

    fn deliver(&mut self, at: usize) {
        let (to, said) = self.channel.remove(at);
        self.now += 1;
        let read = self.chain.newest();
        self.agents[place(to)].hear(&said, read, self.now);
    }

    /// An agent reads the node, which may lag, and does its next work.
    fn work(&mut self, side: Side, is_fair: bool) {
        self.now += 1;
        let lag = if is_fair { 0 } else { self.random.below(3) };
        let read = self.chain.read(lag);
        let fails = !is_fair && self.random.below(4) == 0;
        let agent = &mut self.agents[place(side)];
        agent.watch(read, self.now);
        // The end of the step is lost with the process: the record decides again.
        agent.work(read, &mut self.chain, self.now, fails);
    }

    fn step(&mut self) {
        let side = if self.random.below(2) == 0 { Side::Applicant } else { Side::Validator };
        self.send(Side::Applicant, false);
        self.send(Side::Validator, false);
        match self.random.below(16) {
            0..5 if !self.channel.is_empty() => {
                let at = self.random.below(self.channel.len() as u64) as usize;
                self.deliver(at);
            }
            5 if !self.repeated.is_empty() => {
                let at = self.random.below(self.repeated.len() as u64) as usize;
                let (to, said) = self.repeated.remove(at);
                self.channel.push((to, said));
            }
            6..11 => self.work(side, false),
            11 => self.chain.include(),
            12 => {
                let (choice, now) = (self.random.below(20), self.now);
                self.agents[place(side)].call(choice, &mut self.chain, now);
            }
            13 if self.random.below(4) == 0 => self.chain.act(self.random.below(30)),
            14 => self.chain.include(),
            15 if self.is_hostile && self.random.below(4) == 0 => {
                let is_known = self.random.below(8) != 0;
                self.agents[0].ask_again(is_known);
            }
            _ => {}
        }
        self.check();
    }

    /// The rules that hold at any time.
    fn check(&self) {
        let [applicant, validator] = &self.agents;
        self.chain.check(validator.ordered);
        assert!(validator.signed.values().all(|count| *count == 1), "a credential of a round is signed once");
        assert!(validator.anchored_is_paid(&self.chain), "an anchored credential is paid");
        assert!(applicant.accepted_is_anchored(&self.chain), "an applicant holds what the chain has");
    }

    /// Everything arrives, operators follow the record, and an applicant that waits begins again.
    fn settle(&mut self, seed: u64) {
        for round in 0..60 {
            for _ in 0..40 {
                for side in [Side::Applicant, Side::Validator] {
                    self.send(side, true);
                    self.work(side, true);
                    self.send(side, true);
                }
                while !self.channel.is_empty() {
                    self.deliver(0);
                    self.check();
                    self.send(Side::Applicant, true);
                    self.send(Side::Validator, true);
                }
                self.chain.include();
            }
            for said in std::mem::take(&mut self.repeated) {
                self.channel.push(said);
            }
            if self.channel.is_empty() && self.has_agreed() {
                return;
            }
            let now = self.now;
            let [applicant, validator] = &mut self.agents;
            validator.do_what_is_shown(&mut self.chain, now);
            if round % 2 == 1 {
                applicant.begin_again(&self.chain, now);
            }
        }
        let [applicant, validator] = &self.agents;
        let flows = [applicant.summary(), validator.summary()].concat().join("\n");
        panic!("seed {seed}: no agreement:\n{flows}\n{:?}", self.chain.newest());
    }

    /// Whether both sides are at an end that is true on both.
    fn has_agreed(&self) -> bool {
        let [applicant, validator] = &self.agents;
        let state = |agent: &Agent| agent.flows.last().map(|flow| flow.state);
        // The applicant sees the part that it has to mend.
        if applicant.flows.last().is_some_and(|flow| flow.refusal.is_some()) {
            return true;
        }
        match (state(applicant), state(validator)) {
            (None, _) => true,
            (Some(a), Some(v)) if a == v => {
                applicant.flows.last().is_some_and(|flow| flow.pending_action(self.now) == PendingAction::None)
            }
            (Some(a), None) => a.is_terminal(),
            (Some(FlowState::TerminatedByValidator), Some(FlowState::Validated)) => false,
            // The participant was revoked while the acknowledgement was on its way.
            (Some(FlowState::CredRevoked), Some(FlowState::ParticipantRevoked | FlowState::ParticipantSlashed)) => true,
            // An applicant that has ended its flow may have said so in a thread that never arrived: its validator waits for an answer, or
            // its operator sees that nothing goes on.
            (Some(FlowState::TerminatedByApplicant), Some(v)) => {
                let is_closed =
                    validator.flows.last().is_some_and(|flow| flow.connection_state == ConnectionState::Terminated);
                v.is_terminal()
                    || is_closed
                    || matches!(
                        v,
                        FlowState::AwaitingOr | FlowState::CredOffered | FlowState::Completed | FlowState::CredRevoked
                    )
                    || validator
                        .flows
                        .last()
                        .is_some_and(|flow| flow.pending_action(self.now) == PendingAction::Validator)
            }
            (Some(a), Some(v)) => {
                a.is_terminal() && (v.is_terminal() || matches!(v, FlowState::Completed | FlowState::CredRevoked))
            }
        }
    }
}

/// Runs many worlds; returns how many flows were completed, and how many credentials were paid.
fn run(seeds: std::ops::Range<u64>, is_hostile: bool) -> (u64, u64) {
    let (mut completed, mut paid) = (0, 0);
    for seed in seeds {
        let mut world = World::new(seed, is_hostile);
        for _ in 0..400 {
            world.step();
        }
        if !is_hostile {
            world.settle(seed);
        }
        completed += u64::from(world.agents[0].flows.iter().any(|flow| flow.state == FlowState::Completed));
        paid += world.chain.paid();
    }
    (completed, paid)
}

#[test]
fn two_agents_agree_and_a_round_is_paid_once() {
    let (completed, paid) = run(0..1_000, false);
    assert!(completed > 100 && paid > 300, "{completed} completed, {paid} paid");
}

#[test]
fn an_applicant_that_begins_again_and_again_is_paid_for_once() {
    let (_, paid) = run(0..2_000, true);
    assert!(paid > 50, "{paid} paid");
}

#[test]
#[ignore = "takes minutes: make model"]
fn the_model_of_flows_with_many_seeds() {
    run(1_000..100_000, false);
    run(2_000..100_000, true);
}
