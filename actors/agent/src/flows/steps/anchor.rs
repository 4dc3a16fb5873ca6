//! The session of a credential: it pays the beneficiaries and anchors the digest, once. The credential is sent behind it.

use std::time::Duration;

use prost::Message as _;
use prost_types::Any;
use serde_json::Value;
use svc_didcomm::flow::{FlowCredential, FlowRecord, FlowTx, Progress, TxStatus, credential_message};
use svc_kit::wall_clock::now_millis;
use svc_otel::{metrics, trace};
use svc_pipeline::EncodedMessage;
use svc_wire::{proto::svc::pp::v1::MsgCreateOrUpdateParticipantSession, timestamp};
use uuid::Uuid;

use super::{Done, StepStop};
use crate::{
    account_write::{AccountWrite, WriteStop, WritingAccount},
    credentials::proof_method,
    flows::{
        payment::PaymentStep,
        service::{FlowChange, FlowService},
    },
    grant::WantedGrant,
    journal_key::flow_session_key,
    registry::NodeRegistry,
    store::{CredentialKind, CredentialState, StoredCredential},
};

/// Pause between two looks at the node for a digest.
const DIGEST_PAUSE: Duration = Duration::from_millis(250);
/// Pause behind a transaction that is not decided.
const UNDECIDED_PAUSE: Duration = Duration::from_secs(5);

fn sent_tx(status: TxStatus, hash: Option<String>) -> FlowTx {
    FlowTx { status, hash, height: None, reason: None, error: None }
}

impl FlowService {
    /// Pays for the credential and anchors its digest, or finds the block of an earlier attempt.
    pub(super) async fn anchor(&self, record: &FlowRecord) -> Result<Done, StepStop> {
        let credential = record.credential.clone().ok_or(StepStop::Outdated)?;
        let account = self.account()?;
        let write = AccountWrite {
            account: &account,
            key: flow_session_key(&credential.session_id, credential.round),
            origin: "flow",
            allows_repetition: false,
        };
        let silent = |_: String| {};
        let mut hash = match write.find_earlier(&silent).await {
            Ok(hash) => hash,
            Err(WriteStop::Failed(reason)) => {
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
            return Ok(Done::Later(DIGEST_PAUSE));
        }
        // Rotations of keys see it among the credentials that the DID has issued.
        let issued = issued_row(&account, record, &credential, (&body, method, hash.clone()));
        self.0.store.write_credential(&issued).await?;
        let mut progress = Progress::of(record.clone());
        progress.go_on(now_millis());
        progress.note_anchoring(sent_tx(TxStatus::Succeeded, hash), now_millis());
        self.finish(record, FlowChange::of(record, progress)).await
    }

    /// Sends the session, unless the node shows that it was paid.
    async fn pay(
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
        let granter = grant.granter();
        let session = MsgCreateOrUpdateParticipantSession {
            corporation: grant.corporation,
            operator: account.pipeline().identity().address.to_string(),
            id: credential.session_id.clone(),
            issuer_participant_id: order.issuer_participant,
            digest: credential.digest.clone().unwrap_or_default(),
            ..MsgCreateOrUpdateParticipantSession::default()
        };
        let namespace = account.access.chain.registry.namespace();
        let type_url = namespace.type_url("pp", "MsgCreateOrUpdateParticipantSession");
        let message = EncodedMessage { message: Any { type_url, value: session.encode_to_vec() }, needs_grant: true };
        let silent = |_: String| {};
        let granter = match write.choose_payer(&message, granter).await {
            Ok(granter) => granter,
            Err(WriteStop::Blocked(reason)) => return Err(WriteStop::Blocked(reason).into()),
            // The chain states a reason: the operator sees it, and calls again.
            Err(WriteStop::Failed(reason)) => {
                // A node that answers nothing has stated nothing.
                NodeRegistry(account).session(&credential.session_id).await?;
                return Ok(Paid::failed("PREFLIGHT_ERROR", reason));
            }
        };
        // An earlier incarnation may have been killed while the signer had its write.
        if let Some(hash) = write.find_earlier(&silent).await? {
            return Ok(Paid::Sent(hash));
        }
        let span = trace::anchor_span(&account.did, credential.id.as_deref().unwrap_or_default(), record.schema_id);
        match write.send(message, granter, &span, &silent).await {
            Ok(hash) => {
                if let Some(cost) = cost {
                    metrics::record_flow_session_cost(u64::try_from(cost).unwrap_or(u64::MAX));
                }
                Ok(Paid::Sent(hash))
            }
            Err(WriteStop::Blocked(reason)) => Err(WriteStop::Blocked(reason).into()),
            // Only the journal proves that no block has it.
            Err(WriteStop::Failed(reason)) => match write.find_earlier(&silent).await {
                Ok(Some(hash)) => Ok(Paid::Sent(hash)),
                Ok(None) => Ok(Paid::failed("TX_FAILED", reason)),
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
        name: format!("cs-{}", record.schema_id),
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
enum Paid {
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
