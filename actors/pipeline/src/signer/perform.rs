//! The effects of the signer: requests to the node, the signature, and the order of journal and broadcast.

use std::{ops::Range, pin::pin, sync::Arc};

use svc_kit::{ActorContext, wall_clock};
use svc_net::upstream::{BroadcastOutcome, NodeClient, NodeClientError};
use svc_otel::{
    metrics,
    trace::{self, WriteStage},
};
use svc_wire::{
    chain_error::ChainErrorKind,
    proto::cosmos::base::v1beta1::Coin,
    tx::{SignedTx, SigningContext, UnsignedTx},
};
use tokio::{sync::Notify, time::Instant};
use tracing::Instrument;

use super::{
    Args, Msg,
    actor::{SigningJob, State},
    effects::{FeeOffer, SignerEffect},
};
use crate::{
    chain::{
        account::query_account,
        fee_allowance::query_fee_allowance,
        head::select_node,
        node_release::NodeRelease,
        simulation::{SimulationError, query_check_sequence, query_expected_sequence, simulate_gas},
    },
    journal::error::JournalError,
    write::{daily_fees::UtcDay, error::SubmitError, in_flight::InFlightTx, submission::SubmissionId},
};

/// Transactions that are sent to another node at once; the next doubt sends the ones after them.
const MAX_RELAYED: usize = 32;
/// The reason for which bytes do not leave.
const OTHER_HISTORY: &str = "it has another history than the journal";

impl State {
    pub(super) fn perform(&mut self, context: &ActorContext<Msg>, effect: SignerEffect) {
        match effect {
            SignerEffect::ReadAccount => self.read_account(context),
            SignerEffect::Simulate { id, sequence, with_granter } => self.simulate(context, id, sequence, with_granter),
            SignerEffect::ConfirmSequence { id } => self.confirm_sequence(context, id),
            SignerEffect::ConfirmAllowance { id } => self.confirm_allowance(context, id),
            SignerEffect::SignAndBroadcast { id, sequence, offer } => {
                let signed = match self.chain_change().or_else(|| self.not_taken(id)) {
                    Some(refusal) => Err(refusal),
                    None => self.sign_and_broadcast(context, id, sequence, &offer).ok_or(SubmitError::SigningFailed),
                };
                if let Err(failure) = signed {
                    let table = self.args.table.clone();
                    for effect in table.with(|table| self.core.on_send_failure(id, failure, table)) {
                        self.perform(context, effect);
                    }
                }
            }
            SignerEffect::AskPrice { id } => {
                let (node, prices, mailbox) = (self.args.node.clone(), self.args.prices.clone(), context.mailbox());
                context.spawn(async move {
                    prices.refresh(&node).await;
                    mailbox.send(Msg::PriceRead { id });
                });
            }
            SignerEffect::Rebroadcast { sequence } => self.rebroadcast(context, sequence),
            SignerEffect::Retract { hash } => self.retract(&hash),
            SignerEffect::Refuse { hash, refusal } => {
                if self.args.table.with(|table| table.refuse(&hash, refusal.clone())) {
                    self.args.journal.record_refused(&hash, &refusal);
                    metrics::record_tx_refused("check_tx");
                    let reason = refusal.error.raw_log.as_str();
                    tracing::warn!(tx_hash = hash, reason, "the node refused the transaction, which is followed");
                }
            }
            SignerEffect::ChooseNode => {
                let (node, clock) = (self.args.node.clone(), self.args.clock.clone());
                context.spawn(async move { select_node(&node, &clock).await });
            }
            SignerEffect::Answer { id, outcome } => {
                let not_taken = self.not_taken(id);
                let Some(job) = self.jobs.remove(&id) else { return };
                // The simulation is that of another message, and its answer names the wrong fields.
                let outcome = match (outcome, not_taken) {
                    (Err(SubmitError::Simulation(_)), Some(refusal)) => Err(refusal),
                    (outcome, _) => outcome,
                };
                let outcome = outcome.and_then(|_| self.submitted_tx(id).ok_or(SubmitError::SigningFailed));
                for reply in job.replies {
                    reply.send(outcome.clone());
                }
                for reply in job.withdrawals {
                    reply.send(outcome.clone().ok());
                }
            }
        }
    }

    /// The refusal of a message that the node's release does not take as this program means it.
    fn not_taken(&self, id: SubmissionId) -> Option<SubmitError> {
        let msg_type = self.jobs.get(&id)?.request.intent.encoded.msg_type();
        self.args.release.get().refusal_of(msg_type)
    }

    /// The refusal of every message while the node has another history than the journal.
    fn chain_change(&self) -> Option<SubmitError> {
        self.args.journal.chain_change().map(|change| SubmitError::ChainChanged(Box::new(change)))
    }

    /// Removes a transaction that was never sent.
    pub(super) fn retract(&self, hash: &str) {
        self.args.table.with(|table| table.retract(hash));
        self.args.journal.record_unsent(hash);
    }

    /// Gas limit for the gas that a simulation used.
    pub(super) fn gas_limit(&self, id: SubmissionId, simulated: u64) -> u64 {
        let Some(job) = self.jobs.get(&id) else { return simulated };
        let msg_type = job.request.intent.encoded.msg_type();
        self.args.gas.with(|gas| gas.gas_limit(msg_type, simulated)).max(job.request.min_gas_limit)
    }

    /// Reads the account. While transactions are in flight, the check state says which of them the node has: the account's sequence in
    /// the newest block would have all of them sent again.
    fn read_account(&self, context: &ActorContext<Msg>) {
        let (args, mailbox) = (Arc::clone(&self.args), context.mailbox());
        let message = args.table.with(|table| table.live().next().map(|tx| tx.intent.encoded.message.clone()));
        context.spawn(async move {
            let mut answer = query_account(&args.node, &args.identity.address.to_string()).await;
            if let (Ok(Some(account)), Some(message)) = (&mut answer, message)
                && let Some(sequence) = query_check_sequence(&args.node, message, &args.identity.public_key).await
            {
                let kept_back = std::mem::replace(&mut account.sequence, sequence)..sequence;
                mailbox.send(Msg::AccountRead { answer });
                relay_to_others(&args, kept_back).await;
            } else {
                mailbox.send(Msg::AccountRead { answer });
            }
        });
    }

    /// Asks for the sequence of the check state, by a message that cannot be refused for its contents.
    fn confirm_sequence(&self, context: &ActorContext<Msg>, id: SubmissionId) {
        let (args, mailbox) = (Arc::clone(&self.args), context.mailbox());
        context.spawn(async move {
            let expected = query_expected_sequence(&args.node, &args.identity, &args.chain.denom).await;
            mailbox.send(Msg::SequenceConfirmed { id, expected });
        });
    }

    fn confirm_allowance(&self, context: &ActorContext<Msg>, id: SubmissionId) {
        let Some(job) = self.jobs.get(&id) else { return };
        let msg_type = job.request.intent.encoded.msg_type().to_owned();
        let granter = job.request.granter.as_ref().map(|granter| granter.address.clone()).unwrap_or_default();
        let (args, mailbox) = (Arc::clone(&self.args), context.mailbox());
        let now = args.clock.with(|clock| clock.time(Instant::now())).unwrap_or_else(wall_clock::now);
        context.spawn(async move {
            let grantee = args.identity.address.to_string();
            let found = query_fee_allowance(&args.node, &granter, &grantee, &args.chain.denom).await;
            let pays = found.map(|found| found.is_some_and(|one| one.budget_for(&msg_type, &now).is_some()));
            mailbox.send(Msg::AllowanceConfirmed { id, pays });
        });
    }

    /// The transaction of a write; without `offer` as the simulation needs it.
    fn unsigned_tx(&self, job: &SigningJob, sequence: u64, with_granter: bool, offer: Option<&FeeOffer>) -> UnsignedTx {
        let args = &self.args;
        let granter = job.request.granter.as_ref().filter(|_| with_granter);
        let fee = offer.map(|offer| Coin { denom: args.chain.denom.clone(), amount: offer.fee.to_string() });
        UnsignedTx {
            messages: vec![job.request.intent.encoded.message.clone()],
            sequence,
            fee: fee.into_iter().collect(),
            gas_limit: offer.map_or(0, |offer| offer.gas_limit),
            fee_granter: granter.map(|granter| granter.address.clone()),
            timeout_height: args.clock.with(|clock| clock.timeout_height(args.tx_timeout)),
        }
    }

    fn simulate(&self, context: &ActorContext<Msg>, id: SubmissionId, sequence: u64, with_granter: bool) {
        let Some(job) = self.jobs.get(&id) else { return };
        let unsigned = self.unsigned_tx(job, sequence, with_granter, None);
        let tx_bytes = unsigned.simulation_bytes(&self.args.identity.public_key);
        let (node, mailbox) = (self.args.node.clone(), context.mailbox());
        let (release, patience) = (self.args.release.clone(), self.args.tx_timeout);
        let span = trace::stage_span(WriteStage::Simulate, &job.request.span);
        let simulate = async move {
            // Behind a new connection the same bytes may mean something else.
            let answer = match tokio::time::timeout(patience, release.await_current(&node)).await {
                Ok(compared) => simulate_gas(&compared.node, tx_bytes).await,
                Err(_) => Err(SimulationError::NoAnswer(node.unsent_error("it does not state its release"))),
            };
            mailbox.send(Msg::Simulated { id, answer });
        };
        context.spawn(simulate.instrument(span));
    }

    /// Signs a write, adds its transaction to the table, records it in the journal and only then broadcasts it. `None` when the key
    /// failed.
    fn sign_and_broadcast(
        &self,
        context: &ActorContext<Msg>,
        id: SubmissionId,
        sequence: u64,
        offer: &FeeOffer,
    ) -> Option<()> {
        let (args, job) = (&self.args, self.jobs.get(&id)?);
        let (signed, timeout_height) = self.sign(job, sequence, offer)?;
        let msg_type = job.request.intent.encoded.msg_type().to_owned();
        let tx = InFlightTx {
            submission_id: id,
            hash: signed.hash.clone(),
            bytes: signed.bytes.clone(),
            sequence,
            timeout_height,
            signed_height: args.clock.with(|clock| clock.reached_height()),
            intent: Arc::clone(&job.request.intent),
            has_granter: offer.with_granter,
            fee: offer.fee,
            signed_day: UtcDay::of(&wall_clock::now()),
            is_journaled: false,
            refusal: None,
            outcome: None,
            missing_blocks: Vec::new(),
        };
        args.table.with(|table| table.add_signed(tx.clone()));
        let span = trace::stage_span(WriteStage::Broadcast, &job.request.span);
        trace::record_tx(&span, &signed.hash);
        let (node, journal, mailbox) = (args.node.clone(), args.journal.clone(), context.mailbox());
        let (table, bytes_left) = (args.table.clone(), Arc::clone(&job.request.bytes_left));
        let (release, patience) = (args.release.clone(), args.tx_timeout);
        let broadcast = async move {
            let SignedTx { hash, bytes } = signed;
            // The node may have been replaced since the simulation.
            let current = match tokio::time::timeout(patience, release.await_current(&node)).await {
                Ok(compared) => match compared.release.refusal_of(&msg_type) {
                    None => Ok(compared),
                    Some(refusal) => Err(refusal),
                },
                Err(_) => Err(SubmitError::Node(node.unsent_error("it does not state its release"))),
            };
            let change = journal.chain_change().map(|change| SubmitError::ChainChanged(Box::new(change)));
            let compared = match change.map_or(current, Err) {
                Ok(compared) => compared,
                Err(failure) => {
                    mailbox.send(Msg::NotSent { id, hash, failure });
                    return;
                }
            };
            match journal.record_signed(tx).await {
                Ok(()) => {}
                // The next process may send it. It counts as sent, and is sent again once the journal has it.
                Err(error @ JournalError::Uncertain(_)) => {
                    let answer = Err(node.endpoints().current().protocol_error(error.to_string(), &[]).into());
                    mailbox.send(Msg::Sent { id, hash, answer });
                    return;
                }
                Err(error) => {
                    mailbox.send(Msg::NotSent { id, hash, failure: SubmitError::Journal(error.to_string()) });
                    return;
                }
            }
            table.with(|table| table.mark_journaled(&hash));
            let started = Instant::now();
            // The journal took its time. Where the connection has ended meanwhile, or another node was chosen, the bytes are sent again once
            // the release is known.
            let answer = if !release.is_still(&compared, &node) {
                Err(node.unsent_error("its release is not known any more"))
            } else if journal.has_chain_changed() {
                Err(node.unsent_error(OTHER_HISTORY))
            } else {
                broadcast(&compared.node, &bytes, &bytes_left).await
            };
            let outcome = broadcast_label(&answer);
            metrics::record_tx_broadcast(&msg_type, outcome, started.elapsed());
            tracing::info!(tx_hash = hash, sequence, timeout_height, msg_type, outcome, "transaction is broadcast");
            mailbox.send(Msg::Sent { id, hash, answer });
        };
        context.spawn(broadcast.instrument(span));
        Some(())
    }

    /// The signed transaction and its timeout height.
    fn sign(&self, job: &SigningJob, sequence: u64, offer: &FeeOffer) -> Option<(SignedTx, u64)> {
        let args = &self.args;
        let mut unsigned = self.unsigned_tx(job, sequence, offer.with_granter, Some(offer));
        let signing_context =
            SigningContext { chain_id: args.chain.chain_id.clone(), account_number: self.account_number };
        let span = trace::stage_span(WriteStage::Sign, &job.request.span);
        let sign = |unsigned: &UnsignedTx| span.in_scope(|| unsigned.sign(&args.key, &signing_context)).ok();
        let mut signed = sign(&unsigned)?;
        // The table may know the same bytes as an earlier transaction without effect. Another timeout height makes other bytes.
        while args.table.with(|table| table.get(&signed.hash).is_some()) {
            unsigned.timeout_height += 1;
            signed = sign(&unsigned)?;
        }
        trace::record_tx(&span, &signed.hash);
        Some((signed, unsigned.timeout_height))
    }

    fn rebroadcast(&self, context: &ActorContext<Msg>, sequence: u64) {
        let tx = self.args.table.with(|table| table.live_at(sequence).cloned());
        let (args, mailbox) = (Arc::clone(&self.args), context.mailbox());
        context.spawn(async move {
            // A transaction that was decided meanwhile has used its sequence.
            let Some(tx) = tx else {
                mailbox.send(Msg::Resent { hash: None, answer: Ok(BroadcastOutcome::Accepted) });
                return;
            };
            // An earlier incarnation may have died before the journal had the transaction. If the journal fails again, the
            // transaction must not be sent: its timeout height decides it.
            if args.journal.has_chain_changed() || args.journal.record_again(tx.clone()).await.is_err() {
                let answer = Err(args.node.unsent_error("the journal does not take it"));
                mailbox.send(Msg::Resent { hash: Some(tx.hash), answer });
                return;
            }
            args.table.with(|table| table.mark_journaled(&tx.hash));
            // Its bytes may mean something else to the release that runs now. One that is kept back is decided by its timeout height.
            let current = tokio::time::timeout(args.tx_timeout, args.release.await_current(&args.node)).await;
            let msg_type = tx.intent.encoded.msg_type();
            let takes_it = |release: &NodeRelease| release.refusal_of(msg_type).is_none();
            let Some(compared) = current.ok().filter(|compared| takes_it(&compared.release)) else {
                let answer = Err(args.node.unsent_error("it does not take the message as it was signed"));
                mailbox.send(Msg::Resent { hash: Some(tx.hash), answer });
                return;
            };
            let answer = match args.journal.has_chain_changed() {
                true => Err(args.node.unsent_error(OTHER_HISTORY)),
                false => compared.node.broadcast(&tx.bytes).await,
            };
            let outcome = broadcast_label(&answer);
            metrics::record_tx_resent(outcome);
            tracing::info!(tx_hash = tx.hash, sequence, outcome, "transaction is broadcast again");
            // Its own fee is signed. The next transaction pays the price of now.
            let is_too_cheap = matches!(&answer, Ok(BroadcastOutcome::Refused(error)) if error.classify() == ChainErrorKind::InsufficientFees);
            mailbox.send(Msg::Resent { hash: Some(tx.hash), answer });
            if is_too_cheap {
                args.prices.refresh(&compared.node).await;
            }
            relay_to_others(&args, sequence..sequence + 1).await;
        });
    }
}

/// Broadcasts a transaction, and notifies once its bytes leave.
async fn broadcast(node: &NodeClient, bytes: &[u8], bytes_left: &Notify) -> Result<BroadcastOutcome, NodeClientError> {
    let mut answer = pin!(node.broadcast(bytes));
    tokio::select! {
        biased;
        // A request that is refused before it leaves, by a breaker or a dispute, ends at once.
        answer = &mut answer => return answer,
        () = std::future::ready(()) => bytes_left.notify_one(),
    }
    answer.await
}

/// Whether the node's release takes the message of a transaction, as far as that is known.
fn is_taken(args: &Args, tx: &InFlightTx) -> bool {
    args.release.get().refusal_of(tx.intent.encoded.msg_type()).is_none()
}

/// Sends the live transactions with these sequences to the nodes that are not in use: the node in use may have them in its mempool and
/// not gossip them. Other nodes take the same bytes without harm, and their answers decide nothing. Only transactions that the journal
/// has are sent.
async fn relay_to_others(args: &Args, sequences: Range<u64>) {
    if args.journal.has_chain_changed() {
        return;
    }
    let bytes: Vec<Vec<u8>> = args.table.with(|table| {
        let kept_back =
            table.live().filter(|tx| tx.is_journaled && sequences.contains(&tx.sequence) && is_taken(args, tx));
        kept_back.take(MAX_RELAYED).map(|tx| tx.bytes.clone()).collect()
    });
    let relays = args.node.alternatives().into_iter().map(|node| {
        let bytes = &bytes;
        async move {
            for bytes in bytes {
                drop(node.broadcast(bytes).await);
            }
        }
    });
    futures::future::join_all(relays).await;
}

fn broadcast_label(answer: &Result<BroadcastOutcome, NodeClientError>) -> &'static str {
    match answer {
        Ok(BroadcastOutcome::Accepted) => "accepted",
        Ok(BroadcastOutcome::Refused(_)) => "refused",
        Err(_) => "unknown",
    }
}
