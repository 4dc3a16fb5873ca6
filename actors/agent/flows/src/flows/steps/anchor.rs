//! The session of a credential: it pays the beneficiaries and anchors the digest, once. The credential is sent behind it.

use std::time::Duration;

use prost::Message as _;
use prost_types::Any;
use serde_json::Value;
use svc_agent_core::{flows::PaymentStep, grant::WantedGrant, journal_key::flow_session_key};
use svc_agent_identity::{
    account_write::{AccountWrite, Decided, WriteStop, WritingAccount},
    credentials::proof_method,
    registry::NodeRegistry,
};
use svc_agent_store::{CredentialKind, CredentialState, StoredCredential};
use svc_didcomm::flow::{
    ALREADY_ISSUED, ConnectionState, CredentialStage, FlowCredential, FlowRecord, FlowTx, Progress, TxStatus,
    credential_message,
};
use svc_kit::wall_clock::now_millis;
use svc_otel::{metrics, trace};
use svc_pipeline::EncodedMessage;
use svc_wire::{proto::svc::pp::v1::MsgCreateOrUpdateParticipantSession, timestamp};
use tracing::Span;
use uuid::Uuid;

use super::outcome::{Done, StepStop, peer_has_gone};
use crate::flows::service::{FlowChange, FlowService};

/// Pause between two looks at the node for a digest.
pub(super) const DIGEST_PAUSE: Duration = Duration::from_millis(250);
/// Pause behind a transaction that is not decided.
pub(super) const UNDECIDED_PAUSE: Duration = Duration::from_secs(5);

/// The write that pays for a credential.
pub(super) fn session_write<'a>(account: &'a WritingAccount, credential: &FlowCredential) -> AccountWrite<'a> {
    AccountWrite {
        account,
        key: flow_session_key(&credential.session_id, credential.round, credential.paid_before),
        origin: "flow",
        allows_repetition: false,
    }
}

fn sent_tx(status: TxStatus, hash: Option<String>) -> FlowTx {
    FlowTx { status, hash, height: None, reason: None, error: None }
}

impl FlowService {
    /// Pays for the credential and anchors its digest, or finds the block of an earlier attempt.
    pub(super) async fn anchor(&self, record: &FlowRecord, waited: Duration) -> Result<Done, StepStop> {
        let credential = record.credential.clone().ok_or(StepStop::Outdated)?;
        let account = self.account()?;
        let write = session_write(&account, &credential);
        let silent = |_: String| {};
        let mut hash = match write.find_earlier(&silent).await {
            Ok(hash) => hash,
            Err(WriteStop::Failed(reason) | WriteStop::Unanswered(reason)) => {
                tracing::debug!(flow = record.id, reason, "a session is not decided");
                return Ok(Done::Later(UNDECIDED_PAUSE));
            }
            Err(stop) => return Err(stop.into()),
        };
        let (_, body) = self.signed_credential(record, credential.round).await?;
        let method = proof_method(&body);
        if hash.is_none() && !self.0.issuer.keeper.published().document.allows_assertion(&method) {
            // Its key was taken out of the document after it was signed: no verdict would accept it.
            let mut progress = Progress::of(record.clone());
            progress.forget_unpaid(now_millis());
            return self.finish(record, FlowChange::of(record, progress)).await;
        }
        if hash.is_none() {
            match self.pay(&account, record, &credential, &write).await? {
                Paid::Sent(sent) => hash = Some(sent),
                Paid::Before => {}
                Paid::Undecided => return Ok(Done::Later(UNDECIDED_PAUSE)),
                Paid::Failed(tx) => {
                    let mut progress = Progress::of(record.clone());
                    progress.note_anchoring(tx, now_millis());
                    return self.finish(record, FlowChange::of(record, progress)).await;
                }
            }
        }
        let digest = credential.digest.clone().unwrap_or_default();
        if NodeRegistry(&account).anchored_at(&digest).await?.is_none() {
            // A block has the session and the digest together: the record of the session is that of another credential. The journal may name
            // one that a later state of this store has signed.
            return self.await_digest(waited);
        }
        // Rotations of keys see it among the credentials that the DID has issued.
        let issued = issued_row(&account, record, &credential, (&body, method, hash.clone()));
        self.0.store.write_credential(&issued).await?;
        let mut progress = Progress::of(record.clone());
        progress.go_on(now_millis());
        progress.note_anchoring(sent_tx(TxStatus::Succeeded, hash), now_millis());
        self.finish(record, FlowChange::of(record, progress)).await
    }

    /// The session has a record, and the node does not show the digest.
    pub(super) fn await_digest(&self, waited: Duration) -> Result<Done, StepStop> {
        if waited >= self.0.settings.verify_time {
            return Err(StepStop::blocked(
                ALREADY_ISSUED,
                "the session at the node has a record that this agent does not know, and not the digest of this credential",
            ));
        }
        Ok(Done::Later(DIGEST_PAUSE))
    }

    /// The record in which the signed credentials are noted whose sessions a block has: those of earlier rounds too, since a renewal can come
    /// while one is on its way. Nothing where none is new. Fails while one of them is not decided.
    pub(in crate::flows) async fn settle_payments(&self, record: &FlowRecord) -> Result<Option<FlowRecord>, StepStop> {
        let account = self.account()?;
        let mut settled = record.clone();
        for credential in settled.credentials_mut().filter(|one| one.stage == CredentialStage::Signed) {
            match session_write(&account, credential).find_decided().await? {
                Decided::Included(hash) => {
                    credential.stage = CredentialStage::Anchored;
                    credential.tx = Some(sent_tx(TxStatus::Succeeded, Some(hash)));
                }
                Decided::NotSent => {}
                Decided::Open(hash) => {
                    return Err(StepStop::Failed(format!("the transaction {hash} of a session is not decided yet")));
                }
            }
        }
        Ok((settled != *record).then_some(settled))
    }

    /// Sends the session, unless the node shows that it was paid.
    pub(super) async fn pay(
        &self,
        account: &WritingAccount,
        record: &FlowRecord,
        credential: &FlowCredential,
        write: &AccountWrite<'_>,
    ) -> Result<Paid, StepStop> {
        let order = match self.order(record).await {
            Err(StepStop::Outdated) => return self.follow_applicant(record).await.map(|_| Paid::Undecided),
            order => order?,
        };
        // One that its holder has needs no connection.
        if credential.stage == CredentialStage::Signed && record.connection_state != ConnectionState::Established {
            return Err(peer_has_gone());
        }
        match self.payment(record, &credential.session_id, order.issuer_participant).await?.before_sending() {
            PaymentStep::GoOn => {}
            PaymentStep::FindDigest => return Ok(Paid::Before),
            PaymentStep::Block(code) => {
                return Err(StepStop::blocked(
                    code,
                    "the session at the node has records that this agent does not know",
                ));
            }
        }
        let cost = self.check_cost(&order).await?;
        let grant =
            account.read_grant(&WantedGrant::to_issue(record.schema_id, Some(order.issuer_participant))).await?;
        let session = MsgCreateOrUpdateParticipantSession {
            corporation: grant.corporation.clone(),
            operator: account.pipeline().identity().address.to_string(),
            id: credential.session_id.clone(),
            issuer_participant_id: order.issuer_participant,
            digest: account.access.anchored(credential.digest.as_deref().unwrap_or_default()),
            ..MsgCreateOrUpdateParticipantSession::default()
        };
        let namespace = account.access.chain.registry.namespace();
        let type_url = namespace.type_url("pp", "MsgCreateOrUpdateParticipantSession");
        let message = EncodedMessage { message: Any { type_url, value: session.encode_to_vec() }, needs_grant: true };
        let silent = |_: String| {};
        let payment = match write.choose_payer(&message, &grant).await {
            Ok(payment) => payment,
            Err(stop @ WriteStop::Blocked(_)) => return Err(stop.into()),
            // The chain states a reason: the operator sees it, and calls again.
            Err(WriteStop::Failed(reason)) => return Ok(Paid::failed("PREFLIGHT_ERROR", reason)),
            Err(stop @ WriteStop::Unanswered(_)) => return Err(stop.into()),
        };
        // An earlier incarnation may have been killed while the signer had its write.
        if let Some(hash) = write.find_earlier(&silent).await? {
            return Ok(Paid::Sent(hash));
        }
        let span = trace::anchor_span(
            &Span::current(),
            &account.did,
            credential.id.as_deref().unwrap_or_default(),
            record.schema_id,
        );
        match write.send(message, payment, &span, &silent).await {
            Ok(hash) => {
                if let Some(cost) = cost {
                    metrics::record_flow_session_cost(u64::try_from(cost).unwrap_or(u64::MAX));
                }
                Ok(Paid::Sent(hash))
            }
            Err(stop @ WriteStop::Blocked(_)) => Err(stop.into()),
            // Only the journal proves that no block has it, and without an answer the chain has refused nothing.
            Err(stop @ (WriteStop::Failed(_) | WriteStop::Unanswered(_))) => match write.find_earlier(&silent).await {
                Ok(Some(hash)) => Ok(Paid::Sent(hash)),
                Ok(None) => match stop {
                    WriteStop::Failed(reason) => Ok(Paid::failed("TX_FAILED", reason)),
                    stop => Err(stop.into()),
                },
                Err(_) => Ok(Paid::Undecided),
            },
        }
    }

    /// Sends the credential.
    pub(super) async fn deliver(&self, record: &FlowRecord) -> Result<Done, StepStop> {
        let credential = record.credential.as_ref().ok_or(StepStop::Outdated)?;
        let (format, body) = self.signed_credential(record, credential.round).await?;
        let attachment = format.credential(&Uuid::new_v4().to_string(), &body);
        let message = credential_message(record, &Uuid::new_v4().to_string(), attachment).ok_or(StepStop::Outdated)?;
        let mut progress = Progress::of(record.clone());
        progress.go_on(now_millis());
        progress.note_delivered(now_millis());
        self.finish(record, FlowChange::with_messages(progress, vec![message])).await
    }
}

/// The credential among those that the DID has issued. Its content stays with the flow, encrypted.
fn issued_row(
    account: &WritingAccount,
    record: &FlowRecord,
    credential: &FlowCredential,
    (body, proof_method, tx_hash): (&Value, String, Option<String>),
) -> StoredCredential {
    let end = body["validUntil"].as_str().or_else(|| body["expirationDate"].as_str());
    StoredCredential {
        id: credential.id.clone().unwrap_or_default(),
        kind: CredentialKind::Issued,
        name: record.schema_id.to_string(),
        schema_id: record.schema_id,
        issuer: account.did.clone(),
        subject: record.peer_did.clone(),
        issuer_participant: record.validator_participant_id.unwrap_or_default(),
        digest: credential.digest.clone().unwrap_or_default(),
        // A request of a caller never finds it.
        claims_digest: String::new(),
        proof_method,
        body: String::new(),
        state: CredentialState::Anchored,
        reason: None,
        tx_hash,
        valid_until: end.and_then(timestamp::parse_rfc3339).map(|end| end.seconds),
        created_at: account.chain_time().seconds,
    }
}

/// The end of the payment.
pub(super) enum Paid {
    /// A block has this transaction.
    Sent(String),
    /// The node shows it, by an attempt that this agent does not know any more.
    Before,
    /// It may be on its way.
    Undecided,
    /// No block has it, and none will.
    Failed(FlowTx),
}

impl Paid {
    fn failed(reason: &str, error: String) -> Self {
        let tx = sent_tx(TxStatus::Failed, None);
        Self::Failed(FlowTx { reason: Some(reason.to_owned()), error: Some(error), ..tx })
    }
}
