//! The agents of the model: each has its store and nothing else. The file is longer than others, since the steps of an agent are read
//! beside each other.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::chain::{Chain, NodeRead, Tx};
use crate::{
    delivery::Repetition,
    flow::{
        Arrived, Cause, CredentialStage, Fees, FlowArrival, FlowCredential, FlowRecord, FlowState, FlowTx, FlowWork,
        Guard, MessageParts, NewFlow, OnboardingState, Outgoing, ParticipantRead, PendingAction, Progress,
        RequestFault, Side, Submission, Trigger, TxStatus, Validation, Variant, begin, credential_message,
        declined_offer, is_replaced, message_of, next_work, refusal_message, take, validator_trigger,
    },
    message::Message,
    protocol::{
        Attachment, AttachmentData, Content,
        issue_credential::FormatAttachment,
        vt_flow::{FlowRequest, VtFlow},
    },
};

/// A message as it leaves.
#[derive(Debug, Clone)]
pub(super) struct Said(pub Message);

impl Said {
    pub fn is_repeated(&self) -> bool {
        Repetition::of(&self.0) != Repetition::Never
    }
}

#[derive(Debug)]
pub(super) struct Agent {
    side: Side,
    pub flows: Vec<FlowRecord>,
    pub outbox: Vec<Said>,
    seen: BTreeSet<String>,
    /// Keys of transactions that were given to the pipeline, which sends each once.
    journal: BTreeSet<String>,
    /// Credentials that were signed, by session and round.
    pub signed: BTreeMap<(String, u32), u32>,
    /// Credentials that the operator ordered although another session was paid.
    pub ordered: u64,
    ids: u64,
}

fn did(side: Side) -> &'static str {
    if side == Side::Applicant { "did:web:applicant.example" } else { "did:web:validator.example" }
}

fn attachment(id: &str, content: serde_json::Value) -> FormatAttachment {
    let attachment = Attachment { id: id.to_owned(), data: AttachmentData::Json(content) };
    FormatAttachment { format: "didcomm/w3c-di-vc-offer@v0.1".to_owned(), attachment }
}

fn is_validated(read: &ParticipantRead) -> bool {
    read.state == OnboardingState::Validated && !read.is_revoked && !read.is_slashed
}

fn tx(status: TxStatus) -> FlowTx {
    FlowTx { status, hash: None, height: None, reason: None, error: None }
}

impl Agent {
    pub fn new(side: Side) -> Self {
        Self {
            side,
            flows: Vec::new(),
            outbox: Vec::new(),
            seen: BTreeSet::new(),
            journal: BTreeSet::new(),
            signed: BTreeMap::new(),
            ordered: 0,
            ids: 0,
        }
    }

    fn new_id(&mut self) -> String {
        self.ids += 1;
        format!("{}-{}", self.side.as_str(), self.ids)
    }

    fn peer(&self) -> &'static str {
        did(if self.side == Side::Applicant { Side::Validator } else { Side::Applicant })
    }

    /// Stores a record with the messages of its steps, in one transaction.
    fn store(&mut self, progress: Progress, text: Option<&str>) {
        for outgoing in &progress.sends {
            let is_opening = matches!(outgoing, Outgoing::OnboardingRequest | Outgoing::IssuanceRequest);
            let id = match &progress.record.thread_id {
                Some(thread) if is_opening => thread.clone(),
                _ => self.new_id(),
            };
            let parts = MessageParts {
                attachment: Some(attachment(&id, json!({"credential": {}}))),
                text: text.map(str::to_owned),
                code: None,
            };
            let message = message_of(&progress.record, *outgoing, &id, parts);
            // A flow that ends before its opening message has nothing to tell.
            if progress.record.thread_id.is_none() {
                continue;
            }
            let message = message.unwrap_or_else(|| panic!("{outgoing:?} of {:#?}", progress.record));
            self.outbox.push(Said(message));
        }
        match self.flows.iter_mut().find(|flow| flow.id == progress.record.id) {
            Some(flow) => *flow = progress.record,
            None => self.flows.push(progress.record),
        }
    }

    fn change(&mut self, at: usize, change: impl FnOnce(&mut Progress) -> bool) -> bool {
        let mut progress = Progress::of(self.flows[at].clone());
        let has_changed = change(&mut progress);
        if has_changed {
            self.store(progress, None);
        } else {
            // The height of a read is kept even when nothing follows.
            self.flows[at].round.read_at = progress.record.round.read_at;
        }
        has_changed
    }

    /// Reads of the participants, prompted by any event, also one that never happened.
    pub fn watch(&mut self, read: NodeRead, now: i64) {
        let Some(participant) = read.participant else { return };
        if self.side == Side::Applicant {
            self.open(&participant, now);
        }
        for at in 0..self.flows.len() {
            let id = self.new_id();
            let is_newest = at + 1 == self.flows.len();
            let cause = Cause {
                read: Some(participant),
                new_id: id,
                validation: Some(Validation {
                    decided_at: now,
                    submission: Submission::Operator,
                    fees: Fees::default(),
                    effective_until: None,
                    op_summary_digest: None,
                    terms: Default::default(),
                    attempts: 0,
                    tx: None,
                }),
                facts: BTreeSet::from([Guard::GatePassed]),
                ..Cause::new(Trigger::ChainPending, now)
            }
            .with_facts(is_newest.then_some(Guard::NewestFlow));
            self.change(at, |progress| progress.take_read(&cause));
            let is_late = participant.height < self.flows[at].round.read_at;
            if self.side == Side::Validator && read.is_validator_revoked && !is_late {
                let own = ParticipantRead { is_revoked: true, ..participant };
                let trigger = validator_trigger(&own).expect("it is revoked");
                self.change(at, |progress| progress.take(&Cause { trigger, read: None, ..cause.clone() }));
            }
        }
    }

    /// A01: a participant that is pending, in a round that no flow knows, begins a flow.
    fn open(&mut self, read: &ParticipantRead, now: i64) {
        let last = self.flows.last();
        let is_stale = last.is_some_and(|flow| read.height < flow.round.read_at);
        let is_known = last.is_some_and(|flow| flow.round.changed_at == read.changed_at);
        if !is_stale && !is_known && read.state == OnboardingState::Pending {
            self.begin(Trigger::ChainPending, read, [Guard::OwnParticipant, Guard::NoFlowForRound], now);
        }
    }

    /// A02: the operator opens one without an event.
    fn open_without_event(&mut self, read: &ParticipantRead, now: i64) {
        let lacks_credential = self.flows.last().is_none_or(|flow| flow.lacks_credential(read));
        if read.state == OnboardingState::Pending || (is_validated(read) && lacks_credential) {
            let facts = [Guard::OwnParticipant, Guard::NoLiveFlow, Guard::OpensWithoutEvent];
            self.begin(Trigger::FlowsOpen, read, facts, now);
        }
    }

    fn begin<const N: usize>(&mut self, trigger: Trigger, read: &ParticipantRead, facts: [Guard; N], now: i64) {
        let is_live = self.flows.last().is_some_and(|flow| !flow.state.is_terminal());
        if is_live || read.is_revoked || read.is_slashed {
            return;
        }
        let (id, session_id) = (self.new_id(), self.new_id());
        let cause = Cause { read: Some(*read), ..Cause::new(trigger, now) }.with_facts(facts);
        let progress = begin(self.new_flow(id, session_id), &cause).expect("it begins");
        self.store(progress, None);
    }

    fn new_flow(&self, id: String, session_id: String) -> NewFlow {
        NewFlow {
            id,
            side: self.side,
            variant: Variant::Onboarding,
            peer_did: self.peer().to_owned(),
            connection_id: None,
            schema_id: 1,
            applicant_participant_id: Some(7),
            validator_participant_id: Some(3),
            is_holder: true,
            session_id,
            claims: None,
            proofs: None,
        }
    }

    pub fn hear(&mut self, said: &Said, read: NodeRead, now: i64) {
        // A repetition of an opening message has an id of its own; every other one has that of the first.
        if !said.is_repeated() && !self.seen.insert(said.0.id.clone()) {
            return;
        }
        let content = Content::read(&said.0).expect("a message of ours");
        let (new_id, peer_did) = (self.new_id(), self.peer());
        let mut facts = BTreeSet::from([Guard::GateOrExempt, Guard::GatePassed]);
        let participant = read.participant;
        if participant.as_ref().is_some_and(is_validated) {
            facts.insert(Guard::OpValidated);
        }
        if read.is_validator_revoked || participant.is_some_and(|one| one.is_revoked || one.is_slashed) {
            facts.insert(Guard::NodeConfirms);
        }
        let mut arrival = FlowArrival {
            message: &said.0,
            content: &content,
            peer_did,
            now,
            new_id: &new_id,
            facts,
            read: participant,
        };
        if let Content::VtFlow(VtFlow::OnboardingRequest { request, .. }) = &content {
            let session = &request.participant_session_id;
            let known = |flow: &&FlowRecord| flow.session_id == *session || flow.previous_session_ids.contains(session);
            let of_session = self.flows.iter().find(known).cloned();
            if let Some(record) = of_session {
                match take(&record, &arrival) {
                    Arrived::Changed(progress) => self.store(*progress, None),
                    Arrived::Refused(fault) => self.refuse(fault, &said.0),
                    Arrived::Ignored => {}
                }
                return;
            }
            let last = self.flows.last().cloned();
            if let Some(record) = &last
                && let Arrived::Changed(progress) = take(record, &arrival)
            {
                self.store(*progress, None);
                return;
            }
            let replaced = last.filter(is_replaced);
            let has_delivered = self.flows.iter().any(FlowRecord::has_held_credential);
            let fits = participant.is_some_and(|one| {
                !one.is_revoked
                    && !one.is_slashed
                    && (one.state == OnboardingState::Pending || (is_validated(&one) && !has_delivered))
            });
            if fits && !read.is_validator_revoked {
                arrival.facts.insert(Guard::RequestFits);
            }
            if let Err(guard) = self.begin_validation(&arrival, session, replaced) {
                self.refuse(RequestFault::of(guard), &said.0);
            }
            return;
        }
        let thread = said.0.pthid.as_deref().unwrap_or(said.0.thread()).to_owned();
        let found = self.flows.iter().rev().find(|flow| flow.thread_id.as_deref() == Some(&thread)).cloned();
        let Some(record) = found else { return };
        if let Arrived::Changed(progress) = take(&record, &arrival) {
            self.store(*progress, None);
        }
    }

    fn begin_validation(
        &mut self,
        arrival: &FlowArrival<'_>,
        session: &str,
        replaced: Option<FlowRecord>,
    ) -> Result<(), Guard> {
        let cause = Cause {
            thread: Some(arrival.message.thread().to_owned()),
            read: arrival.read,
            facts: arrival.facts.clone(),
            ..Cause::new(Trigger::OnboardingRequest, arrival.now)
        };
        let id = self.new_id();
        let new = self.new_flow(id, session.to_owned());
        let progress = begin(new, &cause)?;
        if let Some(replaced) = replaced {
            let at = self.flows.iter().position(|flow| flow.id == replaced.id).expect("it is there");
            self.change(at, |progress| progress.take(&Cause::new(Trigger::FlowReplaced, arrival.now)));
        }
        self.store(progress, None);
        Ok(())
    }

    fn refuse(&mut self, fault: RequestFault, request: &Message) {
        let id = self.new_id();
        self.outbox.push(Said(refusal_message(fault, request.thread(), &id, "it does not fit")));
    }

    /// Does the next work of the newest flow. With `fails` the process ends before it has stored the end.
    pub fn work(&mut self, read: NodeRead, chain: &mut Chain, now: i64, fails: bool) {
        let Some(at) = self.flows.len().checked_sub(1) else { return };
        let record = self.flows[at].clone();
        let (Some(work), Some(participant)) = (next_work(&record), read.participant) else { return };
        if participant.height < record.round.read_at {
            return;
        }
        let id = self.new_id();
        let cause = Cause { new_id: id.clone(), read: None, ..Cause::new(Trigger::RequestReady, now) };
        let session = record.session_id.clone();
        let mut progress = Progress::of(record.clone());
        let has_changed = match work {
            FlowWork::Open => progress.take(&cause.with_facts([Guard::GatePassed, Guard::EcosystemAllowed])),
            FlowWork::JudgeOffer => {
                if is_validated(&participant) {
                    progress.take_offer(&cause.with_facts([Guard::OpValidated]))
                } else {
                    let held = progress.decline_offer(now).expect("it waits");
                    // A validator learns of a revocation by its own read.
                    let is_over = participant.is_revoked || participant.is_slashed;
                    if !fails && !is_over {
                        self.outbox.push(Said(declined_offer(&record, &held.thread, &id, "not validated")));
                    }
                    true
                }
            }
            FlowWork::CheckCredential => {
                let is_anchored = chain.records(&session) > 0;
                let trigger = if is_anchored { Trigger::CredentialAccepted } else { Trigger::CredentialRefused };
                progress.take(&Cause { trigger, ..cause })
            }
            FlowWork::SendValidation => {
                let validation = record.validation.as_ref().expect("a decision");
                let attempt = format!("validate:{session}:{}:{}", record.round.number, validation.attempts);
                let tx = Tx::Validate { attempt: attempt.clone() };
                if self.journal.insert(attempt) {
                    chain.submit(tx);
                    return;
                }
                if chain.outcome(&tx) != Some(false) {
                    return;
                }
                let failure = Some(("TX_FAILED".to_owned(), "refused".to_owned()));
                progress.take(&Cause { trigger: Trigger::ValidationFailed, failure, ..cause })
            }
            FlowWork::Offer => {
                let mut facts = BTreeSet::from([Guard::OwnIssuerActive]);
                if self.has_issued_elsewhere(at, &participant) {
                    facts.insert(Guard::AlreadyIssued);
                }
                let has_moved = progress.take(&Cause { trigger: Trigger::ClaimsFit, ..cause.with_facts(facts) });
                if !has_moved {
                    progress.may_pay_again(now);
                }
                true
            }
            // Nothing is signed on a read that does not show the validation.
            FlowWork::Sign if !is_validated(&participant) => return,
            FlowWork::Sign => {
                progress.note_signed(&id, "digest", Some(&participant), now);
                if !fails {
                    *self.signed.entry((session, record.round.number)).or_default() += 1;
                }
                true
            }
            FlowWork::Anchor => {
                let credential = record.credential.as_ref().expect("it is signed");
                let (session, round) = (credential.session_id.clone(), credential.round);
                let pay = Tx::Pay { session: session.clone(), round };
                // The pipeline sends once for each key, and knows its keys after a start.
                if self.journal.insert(format!("session:{session}:{round}")) {
                    chain.submit(pay);
                    return;
                }
                match chain.outcome(&pay) {
                    Some(true) => progress.note_anchoring(tx(TxStatus::Succeeded), now),
                    Some(false) => progress.note_anchoring(tx(TxStatus::Failed), now),
                    None => return,
                }
                true
            }
            FlowWork::Deliver => {
                let credential = record.credential.as_ref().expect("it is anchored");
                assert!(chain.has_paid(&credential.session_id, credential.round), "delivered before inclusion");
                progress.note_delivered(now);
                let given = attachment("credential", json!({"credential": {}}));
                let message = credential_message(&record, &id, given).expect("an exchange");
                if !fails {
                    self.outbox.push(Said(message));
                }
                true
            }
            FlowWork::LookAgain => unreachable!("the chain of the model loses no block"),
        };
        if has_changed && !fails {
            self.store(progress, None);
        }
    }

    /// A call of the agent's operator.
    pub fn call(&mut self, choice: u64, chain: &mut Chain, now: i64) {
        let Some(at) = self.flows.len().checked_sub(1) else { return };
        let id = self.new_id();
        if self.side == Side::Applicant {
            match choice {
                0..3 => drop(self.change(at, |progress| progress.open_again(&id, now))),
                3 => drop(self.change(at, |progress| progress.take(&Cause::new(Trigger::FlowsEnd, now)))),
                _ => {}
            }
            return;
        }
        match choice {
            0..7 => self.validate(at, choice % 3, chain, now),
            7 => {
                let link = crate::flow::OobLink {
                    url: "https://a.example".into(),
                    description: "sign".into(),
                    expires_at: None,
                    at: now,
                };
                let cause = Cause { oob_link: Some(link), ..Cause::new(Trigger::SendOobLink, now) };
                self.change(at, |progress| progress.take(&cause));
            }
            8 => drop(self.change(at, |progress| progress.take(&Cause::new(Trigger::StartValidation, now)))),
            9 => {
                let read = chain.newest().participant;
                let facts = read.as_ref().is_some_and(is_validated).then_some(Guard::OpValidated);
                let cause = Cause::new(Trigger::RejectFlow, now).with_facts(facts);
                self.change(at, |progress| progress.take(&cause));
            }
            _ => {}
        }
    }

    fn has_issued_elsewhere(&self, at: usize, read: &ParticipantRead) -> bool {
        self.flows.iter().enumerate().any(|(other, flow)| other != at && flow.has_issued_on(read))
    }

    /// validateFlow: with the agent's grant, without one, or with a preflight that fails. The rows of a call apply one after the other.
    fn validate(&mut self, at: usize, way: u64, chain: &Chain, now: i64) {
        let read = chain.newest().participant;
        if read.is_some_and(|read| self.has_issued_elsewhere(at, &read)) {
            let mut progress = Progress::of(self.flows[at].clone());
            let may_pay = progress.may_pay_again(now);
            self.flows[at] = progress.record;
            if !may_pay {
                return;
            }
            self.ordered += 1;
        }
        let mut facts = BTreeSet::from([Guard::TermsFit, Guard::ClaimsFit, Guard::OwnIssuerActive]);
        self.ordered +=
            u64::from(self.flows[at].blocked.as_ref().is_some_and(|blocked| blocked.code == "ALREADY_ISSUED"));
        if way != 1 {
            facts.insert(Guard::GrantUsable);
        }
        if way != 2 {
            facts.insert(Guard::PreflightPassed);
        }
        let submission = if way == 1 { Submission::Operator } else { Submission::Agent };
        let validation = Validation {
            decided_at: now,
            submission,
            fees: Fees::default(),
            effective_until: None,
            op_summary_digest: None,
            terms: Default::default(),
            attempts: 0,
            tx: None,
        };
        // Terms do not fit once the node shows the validation.
        if chain.newest().participant.is_none_or(|one| one.state != OnboardingState::Pending)
            && self.flows[at].state != FlowState::Validated
            && self.flows[at].state != FlowState::ValidatedPendingClaims
            && self.flows[at].state != FlowState::CredOffered
        {
            facts.remove(&Guard::TermsFit);
        }
        for _ in 0..2 {
            let id = self.new_id();
            let cause = Cause {
                new_id: id,
                validation: Some(validation.clone()),
                failure: Some(("INSUFFICIENT_FUNDS_AGENT".into(), "no money".into())),
                facts: facts.clone(),
                ..Cause::new(Trigger::ValidateFlow, now)
            };
            let before = self.flows[at].state;
            self.change(at, |progress| progress.take(&cause));
            if before != FlowState::OobPending {
                break;
            }
        }
    }

    /// A hostile applicant asks again, under its session or under one that it has just thought of.
    pub fn ask_again(&mut self, is_known: bool) {
        let (thread, session) = (self.new_id(), self.new_id());
        let known = self.flows.first().map(|flow| flow.session_id.clone()).filter(|_| is_known);
        let session = known.unwrap_or(session);
        let request = FlowRequest { participant_session_id: session, claims: None, proofs: None };
        let request = VtFlow::OnboardingRequest { participant_id: "7".into(), request };
        self.outbox.push(Said(request.to_message(&thread, Some(&thread))));
    }

    /// The validator's operator takes the step that the record asks for.
    pub fn do_what_is_shown(&mut self, chain: &mut Chain, now: i64) {
        let Some(at) = self.flows.len().checked_sub(1) else { return };
        // The task at the link is done, and the operator hears of it elsewhere.
        let is_link_done = self.flows[at].state == FlowState::OobPending;
        if self.flows[at].pending_action(now) != PendingAction::Validator && !is_link_done {
            return;
        }
        match self.flows[at].state {
            FlowState::AwaitingValidationTx => drop(chain.validate()),
            FlowState::OobPending => self.call(8, chain, now),
            _ => self.validate(at, 0, chain, now),
        }
    }

    /// The applicant's operator sends the opening message again.
    pub fn begin_again(&mut self, chain: &Chain, now: i64) {
        let (Some(at), Some(read)) = (self.flows.len().checked_sub(1), chain.newest().participant) else { return };
        let id = self.new_id();
        if self.flows[at].state == FlowState::TerminatedByValidator {
            return self.open_without_event(&read, now);
        }
        self.change(at, |progress| progress.open_again(&id, now));
    }

    /// A line for each flow.
    pub fn summary(&self) -> Vec<String> {
        let line = |flow: &FlowRecord| {
            let stage = |credential: Option<&FlowCredential>| credential.map_or("none", |one| one.stage.as_str());
            let past: Vec<&str> = flow.past.iter().map(|past| stage(past.credential.as_ref())).collect();
            let (state, session, thread) = (flow.state.as_str(), &flow.session_id, flow.thread_id.as_deref());
            let (round, credential) = (flow.round, stage(flow.credential.as_ref()));
            format!("{state} {session} {thread:?} {round:?} {:?} {credential}, before {past:?}", flow.exchange)
        };
        self.flows.iter().map(line).collect()
    }

    /// Whether every credential that a validator has anchored was paid for.
    pub fn anchored_is_paid(&self, chain: &Chain) -> bool {
        let is_paid = |flow: &FlowRecord| {
            flow.credential.as_ref().is_none_or(|one| match one.stage {
                CredentialStage::Anchored | CredentialStage::Delivered | CredentialStage::Held => {
                    chain.has_paid(&one.session_id, one.round)
                }
                _ => true,
            })
        };
        self.flows.iter().all(is_paid)
    }

    /// Whether every credential that is held was paid for.
    pub fn accepted_is_anchored(&self, chain: &Chain) -> bool {
        let is_held = |flow: &&FlowRecord| {
            flow.credential.as_ref().is_some_and(|credential| credential.stage == CredentialStage::Held)
        };
        self.flows.iter().filter(is_held).all(|flow| chain.records(&flow.session_id) > 0)
    }
}
