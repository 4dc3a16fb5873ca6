//! One attempt to have a version of the document resolved: the reads at the node, and the transaction.

use prost::Message;
use prost_types::Any;
use svc_agent_core::{
    grant::{WantedGrant, time_to_refill},
    journal_key::resolution_key,
};
use svc_otel::trace;
use svc_pipeline::EncodedMessage;
use svc_wire::proto::svc::pp::v1::MsgTriggerResolver;

use super::core::AttemptEnd;
use crate::account_write::{AccountWrite, Block, WriteStop, WritingAccount};

/// An attempt for one version.
pub(super) struct Attempt {
    pub account: WritingAccount,
    pub version: u64,
}

impl Attempt {
    /// Runs the attempt. `sent` hears of the hash of each transaction that is on its way.
    pub async fn run(&self, sent: impl Fn(String)) -> AttemptEnd {
        match self.run_to_end(&sent).await {
            Ok(tx_hash) => AttemptEnd::Done { tx_hash },
            Err(WriteStop::Blocked(Block { reason, refills_at })) => {
                let refills_in = refills_at.map(|at| time_to_refill(&at, &self.account.chain_time()));
                AttemptEnd::Blocked { reason, refills_in }
            }
            Err(WriteStop::Failed(reason) | WriteStop::Unanswered(reason)) => AttemptEnd::Failed(reason),
        }
    }

    async fn run_to_end(&self, sent: &impl Fn(String)) -> Result<String, WriteStop> {
        let write = AccountWrite {
            account: &self.account,
            key: resolution_key(&self.account.did, self.version),
            origin: "resolution",
            // The same message says the same thing again.
            allows_repetition: true,
        };
        if let Some(tx_hash) = write.find_earlier(sent).await? {
            return Ok(tx_hash);
        }
        let grant = self.account.read_grant(&WantedGrant::TRIGGER).await?;
        let trigger = MsgTriggerResolver {
            corporation: grant.corporation.clone(),
            operator: self.account.pipeline().identity().address.to_string(),
            id: grant.participant.id,
        };
        let namespace = self.account.access.chain.registry.namespace();
        let type_url = namespace.type_url("pp", WantedGrant::TRIGGER.message);
        let message = EncodedMessage { message: Any { type_url, value: trigger.encode_to_vec() }, needs_grant: true };
        let payment = write.choose_payer(&message, &grant).await?;
        // An earlier incarnation may have been killed while the signer had its write.
        if let Some(tx_hash) = write.find_earlier(sent).await? {
            return Ok(tx_hash);
        }
        self.account.store.begin_resolution(self.version).await?;
        let span = trace::trigger_span(&self.account.did, self.version);
        write.send(message, payment, &span, sent).await
    }
}
