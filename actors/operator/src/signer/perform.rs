//! The effects: what is asked of the node, what is signed, in which order it is written down and sent.

use std::sync::Arc;

use prost::Message;
use svc_kit::{
    Context,
    upstream::{BroadcastOutcome, NodeClient, NodeError},
};
use svc_otel::{
    metrics,
    trace::{self, Stage},
};
use svc_wire::{
    proto::cosmos::{
        base::v1beta1::Coin,
        tx::v1beta1::{SimulateRequest, SimulateResponse},
    },
    tx::{SignContext, Unsigned},
};
use tokio::time::Instant;
use tracing::Instrument;

use super::{
    SubmitError,
    actor::{Job, Msg, State},
    effect::Effect,
};
use crate::{
    chain::account_of,
    in_flight::{CallId, Entry},
};

impl State {
    pub(super) fn perform(&mut self, context: &Context<Msg>, effect: Effect) {
        match effect {
            Effect::Learn => self.learn(context),
            Effect::Simulate { call, sequence, with_granter } => self.simulate(context, call, sequence, with_granter),
            Effect::Send { call, sequence, with_granter, gas_limit, fee } => {
                let sent = self.send(context, call, sequence, with_granter, gas_limit, fee);
                if sent.is_none() {
                    let table = self.args.table.clone();
                    for effect in table.with(|table| self.core.unsent(call, SubmitError::Signing, table)) {
                        self.perform(context, effect);
                    }
                }
            }
            Effect::Resend { sequence } => self.resend(context, sequence),
            Effect::Retract { hash } => self.retract(&hash),
            Effect::ChooseNode => {
                let node = self.args.node.clone();
                context.spawn(async move { node.choose().await });
            }
            Effect::Answer { call, outcome } => {
                let Some(job) = self.jobs.remove(&call) else { return };
                let outcome = outcome.and_then(|_| self.known(call).ok_or(SubmitError::Signing));
                for reply in job.replies {
                    reply.send(outcome.clone());
                }
                for reply in job.withdrawals {
                    reply.send(outcome.clone().ok());
                }
            }
        }
    }

    /// A node's refusal is final for these bytes: it does not have them, and nobody else was given them.
    pub(super) fn retract(&self, hash: &str) {
        self.args.table.with(|table| table.retract(hash));
        self.args.journal.refused(hash);
    }

    /// What to sign for a simulation's answer.
    pub(super) fn gas_limit(&self, call: CallId, simulated: u64) -> u64 {
        let Some(job) = self.jobs.get(&call) else { return simulated };
        let (msg_type, least) = (job.submission.order.prepared.msg_type(), job.submission.least_gas);
        self.args.gas.with(|gas| gas.limit(msg_type, simulated)).max(least)
    }

    fn learn(&self, context: &Context<Msg>) {
        let (args, mailbox) = (Arc::clone(&self.args), context.mailbox());
        context.spawn(async move {
            let answer = account_of(&args.node, &args.identity.address.to_string()).await;
            mailbox.send(Msg::Learned(answer));
        });
    }

    fn unsigned(&self, job: &Job, sequence: u64, with_granter: bool, gas_limit: u64, fee: u128) -> Unsigned {
        let args = &self.args;
        let granter = job.submission.granter.as_ref().filter(|_| with_granter).map(|(address, _)| address.clone());
        let fee = Coin { denom: args.chain.denom.clone(), amount: fee.to_string() };
        Unsigned {
            messages: vec![job.submission.order.prepared.message.clone()],
            sequence,
            fee: if gas_limit == 0 { Vec::new() } else { vec![fee] },
            gas_limit,
            granter,
            timeout_height: args.clock.with(|clock| clock.timeout_height(args.tx_timeout)),
        }
    }

    fn simulate(&self, context: &Context<Msg>, call: CallId, sequence: u64, with_granter: bool) {
        let Some(job) = self.jobs.get(&call) else { return };
        let tx_bytes = self.unsigned(job, sequence, with_granter, 0, 0).for_simulation(&self.args.identity.public_key);
        let (node, mailbox) = (self.args.node.clone(), context.mailbox());
        let span = trace::stage_span(Stage::Simulate, &job.submission.span);
        context.spawn(
            async move {
                let answer = match simulate_gas(&node, tx_bytes).await {
                    Ok(gas) => Ok(gas),
                    Err(NodeError::Query { error, .. }) => Err(Ok(error)),
                    Err(error) => Err(Err(error)),
                };
                mailbox.send(Msg::Simulated(call, answer));
            }
            .instrument(span),
        );
    }

    /// Signs, notes the transaction as in flight, writes it down, and only then hands it over. `None` when the key failed.
    fn send(
        &self,
        context: &Context<Msg>,
        call: CallId,
        sequence: u64,
        with_granter: bool,
        gas_limit: u64,
        fee: u128,
    ) -> Option<()> {
        let (args, job) = (&self.args, self.jobs.get(&call)?);
        let mut unsigned = self.unsigned(job, sequence, with_granter, gas_limit, fee);
        let sign_context = SignContext { chain_id: args.chain.chain_id.clone(), account_number: self.account_number };
        let span = trace::stage_span(Stage::Sign, &job.submission.span);
        let sign = |unsigned: &Unsigned| span.in_scope(|| unsigned.sign(&args.key, &sign_context)).ok();
        let mut signed = sign(&unsigned)?;
        // The very bytes of an earlier transaction that came to nothing: another height makes others of them.
        while args.table.with(|table| table.get(&signed.hash).is_some()) {
            unsigned.timeout_height += 1;
            signed = sign(&unsigned)?;
        }
        trace::record_tx(&span, &signed.hash);
        drop(span);
        let msg_type = job.submission.order.prepared.msg_type().to_owned();
        let entry = Entry {
            call,
            hash: signed.hash.clone(),
            bytes: signed.bytes.clone(),
            sequence,
            timeout_height: unsigned.timeout_height,
            signed_height: args.clock.with(|clock| clock.height),
            order: Arc::clone(&job.submission.order),
            has_granter: with_granter,
            outcome: None,
        };
        args.table.with(|table| table.add(entry.clone()));
        let journal = args.journal.clone();
        let span = trace::stage_span(Stage::Broadcast, &job.submission.span);
        trace::record_tx(&span, &signed.hash);
        let (node, mailbox, timeout_height) = (args.node.clone(), context.mailbox(), unsigned.timeout_height);
        context.spawn(
            async move {
                if let Err(error) = journal.signed(entry).await {
                    mailbox.send(Msg::NotWritten(call, signed.hash, error.to_string()));
                    return;
                }
                let started = Instant::now();
                let answer = node.broadcast(&signed.bytes).await;
                let outcome = outcome_label(&answer);
                metrics::tx_broadcast(&msg_type, outcome, started.elapsed());
                tracing::info!(
                    tx_hash = signed.hash,
                    sequence,
                    timeout_height,
                    msg_type,
                    outcome,
                    "transaction is broadcast"
                );
                mailbox.send(Msg::Sent(call, signed.hash, answer));
            }
            .instrument(span),
        );
        Some(())
    }

    fn resend(&self, context: &Context<Msg>, sequence: u64) {
        let entry = self.args.table.with(|table| table.live_at(sequence).cloned());
        let (node, journal, mailbox) = (self.args.node.clone(), self.args.journal.clone(), context.mailbox());
        if let Some(entry) = &entry {
            // The node in use may have it and not pass it on. The same bytes do no harm elsewhere, and what is said there decides
            // nothing.
            for other in node.others() {
                let bytes = entry.bytes.clone();
                context.spawn(async move { drop(other.broadcast(&bytes).await) });
            }
        }
        context.spawn(async move {
            let answer = match entry {
                Some(entry) => {
                    // An earlier incarnation may have died before it was written down. If it cannot be now either, it has
                    // not left and must not: the wait goes on until its timeout height decides.
                    let answer = match journal.signed(entry.clone()).await {
                        Ok(()) => node.broadcast(&entry.bytes).await,
                        Err(_) => {
                            mailbox.send(Msg::Resent(Err(node.unsent("the journal cannot be written"))));
                            return;
                        }
                    };
                    metrics::tx_resent(outcome_label(&answer));
                    let outcome = outcome_label(&answer);
                    tracing::info!(tx_hash = entry.hash, sequence, outcome, "transaction is broadcast again");
                    answer
                }
                // Decided meanwhile: its sequence is used.
                None => Ok(BroadcastOutcome::Accepted),
            };
            mailbox.send(Msg::Resent(answer));
        });
    }
}

/// Gas a transaction uses in the node's simulation.
pub(crate) async fn simulate_gas(node: &NodeClient, tx_bytes: Vec<u8>) -> Result<u64, NodeError> {
    let request = SimulateRequest { tx_bytes, ..SimulateRequest::default() }.encode_to_vec();
    let bytes = node.query_bytes("/cosmos.tx.v1beta1.Service/Simulate", &request, 0).await?;
    let reply = SimulateResponse::decode(bytes.as_slice()).unwrap_or_default();
    Ok(reply.gas_info.map_or(0, |info| info.gas_used))
}

fn outcome_label(answer: &Result<BroadcastOutcome, NodeError>) -> &'static str {
    match answer {
        Ok(BroadcastOutcome::Accepted) => "accepted",
        Ok(BroadcastOutcome::Refused(_)) => "refused",
        Err(_) => "unknown",
    }
}
