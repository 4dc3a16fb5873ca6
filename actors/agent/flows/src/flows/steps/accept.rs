//! The applicant's side of a credential: the offer is judged by the node, and the credential by everything that a verdict checks, before
//! it is acknowledged.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use serde_json::Value;
use svc_agent_core::{
    error::RefusalCode,
    flows::{ContentKind, FlowContent, ShownParticipant, messages_of},
    participant::state_of,
};
use svc_agent_identity::{
    account_write::WritingAccount,
    credential_settings::CredentialForm,
    credentials::{JudgeError, JudgedCredential, begin_of, import},
    document::proof_suite,
    registry::NodeRegistry,
};
use svc_agent_store::{CredentialKind, StoredCredential};
use svc_didcomm::{
    flow::{
        Cause, FlowRecord, Guard, HeldOffer, MessageParts, Outgoing, Progress, Side, Trigger, Variant, declined_offer,
    },
    protocol::credential_format::CredentialFormat,
};
use svc_kit::wall_clock::now_millis;
use svc_trust::{
    EssentialCredential, RejectionCode, RejectionReason,
    digest::{DigestAlgorithm, anchored_digest},
};
use svc_wire::{participant_state::ParticipantState, proto::svc::pp::v1::ParticipantRole, timestamp};
use uuid::Uuid;

use super::outcome::{Done, StepStop};
use crate::flows::service::{FlowChange, FlowService};

/// Pause between two looks at the node.
const LOOK_PAUSE: Duration = Duration::from_secs(1);
/// Pause between two attempts to read documents of others.
const FETCH_PAUSE: Duration = Duration::from_secs(5);

/// A credential that has passed every check.
struct CheckedCredential {
    id: String,
    digest: String,
    /// Whether it stands in the DID Document.
    is_published: bool,
}

/// The end of the checks.
enum Checked {
    Accepted(CheckedCredential),
    /// It is refused, with this reason.
    Refused(String),
    /// A node that lags may show the missing fact yet.
    Missing(String),
    /// A document of another cannot be read.
    Unread(String),
}

impl FlowService {
    /// Takes the offer that waits, once the node shows that it may be made.
    pub(super) async fn judge_offer(&self, record: &FlowRecord) -> Result<Done, StepStop> {
        let held = record.held_offer.clone().ok_or(StepStop::Outdated)?;
        let format = CredentialFormat::of_offer(&held.format).filter(|_| held.content.is_object());
        let Some(format) = format else {
            return self.decline(record, Some("credentials of this format are not taken")).await;
        };
        let account = self.account()?;
        let subject = held.content["credentialSubject"]["id"].as_str();
        if subject.is_some_and(|subject| subject != account.did) {
            return self.decline(record, Some("the offered credential is about another DID")).await;
        }
        let now = now_millis();
        let (mut progress, mut facts) = (Progress::of(record.clone()), BTreeSet::new());
        match record.applicant_participant_id {
            Some(id) => {
                let found = NodeRegistry(&account).participant_with_height(id).await?;
                if let Some((participant, height)) = found {
                    let shown = ShownParticipant { participant, height };
                    let read = shown.to_read();
                    if read.is_revoked || read.is_slashed {
                        self.read_participant(id, 0).await.map_err(StepStop::Failed)?;
                        return self.decline(record, None).await;
                    }
                    let (read, validation) = (Some(read), Some(shown.to_validation(now)));
                    progress.take_read(&Cause { read, validation, ..Cause::new(Trigger::ChainPending, now) });
                    let is_new = height >= record.round.read_at;
                    if is_new && shown.is_validated(timestamp::unix_nanos(&account.chain_time())) {
                        facts.insert(Guard::OpValidated);
                    }
                }
            }
            None => {
                if is_issuer(&account, &record.peer_did, record.schema_id).await? {
                    facts.insert(Guard::PeerIssuerActive);
                }
            }
        }
        if !facts.is_empty() {
            self.require_verdict(&record.peer_did).await?;
        }
        let cause = Cause { facts, ..Cause::new(Trigger::OfferCredential, now) };
        if progress.take_offer(&cause) {
            let messages = messages_of(Some(record), &progress, |outgoing, id| MessageParts {
                attachment: (outgoing == Outgoing::RequestCredential).then(|| format.request(id, &held.content)),
                ..MessageParts::default()
            });
            return self.finish(record, FlowChange::with_messages(progress, messages)).await;
        }
        if self.has_waited(&account, &held) {
            let text = match record.variant {
                Variant::Onboarding => "the registry does not show the validation",
                Variant::Direct => "the registry does not show an active ISSUER participant of the issuer",
            };
            return self.decline(record, Some(text)).await;
        }
        Ok(Done::Later(LOOK_PAUSE))
    }

    /// Whether an offer has waited for the node for as long as it may, by the time of the chain.
    fn has_waited(&self, account: &WritingAccount, held: &HeldOffer) -> bool {
        let limit = i64::try_from(self.0.settings.verify_time.as_millis()).unwrap_or(i64::MAX);
        account.chain_time().seconds.saturating_mul(1000) >= held.at.saturating_add(limit)
    }

    /// Takes no offer. With a text the issuer hears of it.
    async fn decline(&self, record: &FlowRecord, text: Option<&str>) -> Result<Done, StepStop> {
        let mut progress = Progress::of(record.clone());
        let declined = progress.decline_offer(now_millis()).ok_or(StepStop::Outdated)?;
        let message = |text| declined_offer(record, &declined.thread, &Uuid::new_v4().to_string(), text);
        self.finish(record, FlowChange::with_messages(progress, text.map(message).into_iter().collect())).await
    }

    /// Checks the credential that has come. It is stored before it is acknowledged.
    pub(super) async fn check_credential(&self, record: &FlowRecord, waited: Duration) -> Result<Done, StepStop> {
        let received = record.received.clone().ok_or(StepStop::Outdated)?;
        let account = self.account()?;
        let content = self.0.store.flow_content(self.key(), &record.id, ContentKind::Received, received.round).await?;
        let credential: Option<Value> = content.as_ref().and_then(|content| serde_json::from_str(&content.body).ok());
        let checked = match credential {
            None => Checked::Refused("credentials of this format are not taken".to_owned()),
            Some(credential) => self.judge_credential(&account, record, credential).await?,
        };
        let has_waited = waited >= self.0.settings.verify_time;
        let mut progress = Progress::of(record.clone());
        match checked {
            Checked::Missing(_) if !has_waited => Ok(Done::Later(LOOK_PAUSE)),
            Checked::Unread(reason) if has_waited => Err(StepStop::blocked("PEER_UNRESOLVABLE", reason)),
            Checked::Unread(_) => Ok(Done::Later(FETCH_PAUSE)),
            Checked::Refused(reason) | Checked::Missing(reason) => {
                let cause =
                    Cause { reason: Some(reason.clone()), ..Cause::new(Trigger::CredentialRefused, now_millis()) };
                if !progress.take(&cause) {
                    return Err(StepStop::Outdated);
                }
                let messages = messages_of(Some(record), &progress, |_, _| MessageParts {
                    text: Some(reason.clone()),
                    ..MessageParts::default()
                });
                self.finish(record, FlowChange::with_messages(progress, messages)).await
            }
            Checked::Accepted(CheckedCredential { id, digest, is_published }) => {
                if let Some(received) = &mut progress.record.received {
                    (received.id, received.digest) = (Some(id), Some(digest));
                }
                if !progress.take(&Cause::new(Trigger::CredentialAccepted, now_millis())) {
                    return Err(StepStop::Outdated);
                }
                let mut change = FlowChange::of(record, progress);
                // A later credential of the same round, of which nothing is proven, leaves it as it is.
                change.contents.extend(content.map(|content| FlowContent { kind: ContentKind::Held, ..content }));
                let done = self.finish(record, change).await?;
                if is_published {
                    // A later publication has it too.
                    if let Err(refusal) = self.0.issuer.keeper.publish_credentials().await {
                        tracing::warn!(reason = refusal.message, "a received credential is not in the document yet");
                    }
                }
                Ok(done)
            }
        }
    }

    async fn judge_credential(
        &self,
        account: &WritingAccount,
        record: &FlowRecord,
        credential: Value,
    ) -> Result<Checked, StepStop> {
        let issuer = credential["issuer"].as_str().or_else(|| credential["issuer"]["id"].as_str());
        if issuer != Some(record.peer_did.as_str()) {
            return Ok(Checked::Refused("the issuer of the credential is not the peer".to_owned()));
        }
        let issuing = self.issuer()?;
        // One that begins later is held from now on.
        let not_before = begin_of(&credential);
        let judged = JudgedCredential {
            subject: &account.did,
            credential: &credential,
            own_document: Arc::new(issuing.keeper.published().served_json()),
            assumed_digest: None,
            known_schema: None,
            not_before,
        };
        let accepted = match issuing.judge.judge(account, judged).await {
            Ok(accepted) => accepted,
            Err(JudgeError::Rejected(reason)) => return Ok(to_checked(&reason)),
            Err(JudgeError::Node(error)) => return Err(error.into()),
        };
        if accepted.schema_id != record.schema_id {
            return Ok(Checked::Refused(format!("the credential is one of schema {}", accepted.schema_id)));
        }
        if !self.is_paid_for(account, record).await? {
            return Ok(Checked::Missing("the session has no record of the issuer".to_owned()));
        }
        let registry = NodeRegistry(account);
        let schema = registry.schema(record.schema_id).await?;
        let schema = schema.ok_or_else(|| StepStop::Failed(format!("no schema {}", record.schema_id)))?;
        let is_wanted = self.essential(&schema).is_some_and(EssentialCredential::makes_trusted)
            || self.0.settings.published_schemas.wants(record.schema_id, record.told_to_present);
        let algorithm = DigestAlgorithm::from_name(&schema.schema.digest_algorithm);
        let digest = algorithm.and_then(|algorithm| anchored_digest(&credential, algorithm)).unwrap_or_default();
        let id = credential["id"].as_str().unwrap_or(&accepted.id).to_owned();
        let mut is_published = false;
        let begins_later = not_before.is_some_and(|begin| begin > timestamp::unix_nanos(&account.chain_time()));
        let held = self.0.store.held_credentials().await?;
        // Until it begins it takes the place of none that counts.
        let form = self.0.credentials.proofs.form_of(proof_suite(&credential));
        let is_in_place = |one: &StoredCredential| {
            let is_form = CredentialForm::of(&one.name) == form;
            one.kind != CredentialKind::Schema && one.schema_id == record.schema_id && is_form
        };
        let would_replace = begins_later && held.iter().any(is_in_place);
        if is_wanted && !would_replace {
            match import(&issuing, &self.0.credentials, credential, not_before).await {
                Ok(_) => is_published = true,
                Err(refusal) if matches!(refusal.code, RefusalCode::InvalidState | RefusalCode::InvalidInput) => {
                    tracing::warn!(
                        flow = record.id,
                        reason = refusal.message,
                        "a received credential is kept, and is not in the DID Document"
                    );
                }
                Err(refusal) => return Err(StepStop::Failed(refusal.message)),
            }
        }
        Ok(Checked::Accepted(CheckedCredential { id, digest, is_published }))
    }

    /// Whether the session of the flow has a record of an issuer's participant that counts: in an onboarding that of the validator.
    async fn is_paid_for(&self, account: &WritingAccount, record: &FlowRecord) -> Result<bool, StepStop> {
        let registry = NodeRegistry(account);
        let Some(session) = registry.session(&record.session_id).await? else { return Ok(false) };
        let issuers = registry.participants(&record.peer_did).await?;
        let now = timestamp::unix_nanos(&account.chain_time());
        let counts = |id: u64| {
            let is_wanted = record.validator_participant_id.is_none_or(|validator| validator == id);
            let issuer = issuers.iter().find(|one| one.id == id);
            is_wanted
                && issuer.is_some_and(|one| {
                    one.role() == ParticipantRole::Issuer
                        && one.schema_id == record.schema_id
                        && state_of(one, now) == ParticipantState::Active
                })
        };
        Ok(session.session_records.iter().any(|one| counts(one.issuer_participant_id)))
    }

    /// Takes a revoked credential out of the DID Document and of the store of its holder; its issuer notes that it counts no more.
    pub(super) async fn drop_revoked(&self, record: &FlowRecord) -> Result<(), StepStop> {
        let Some(credential) = &record.credential else { return Ok(()) };
        let Some(id) = &credential.id else { return Ok(()) };
        if record.side == Side::Validator {
            return Ok(self.0.store.withdraw_credentials(&[(id.clone(), "REVOKED".to_owned())]).await?);
        }
        let held = self.0.store.held_credentials().await?;
        let is_held = held.iter().any(|one| one.id == *id && one.issuer == record.peer_did);
        if is_held {
            self.0.store.withdraw_credentials(&[(id.clone(), "REVOKED".to_owned())]).await?;
            self.0.issuer.keeper.publish_credentials().await?;
        }
        for kind in [ContentKind::Held, ContentKind::Received] {
            self.0.store.forget_flow_content(&record.id, kind, credential.round).await?;
        }
        Ok(())
    }
}

/// A rejection: wrong at any time, not shown by the node yet, or about a document that was not read.
fn to_checked(reason: &RejectionReason) -> Checked {
    use RejectionCode as Code;
    let text = format!("{}: {}", reason.code.as_str(), reason.message);
    match reason.code {
        _ if reason.is_undecided() => Checked::Unread(text),
        Code::DigestNotAnchored
        | Code::IssuerNeverAuthorised
        | Code::IssuerNotEffective
        | Code::HolderNeverAuthorised
        | Code::HolderNotEffective
        | Code::SchemaUnknown
        | Code::CredentialNotYetValid
        | Code::ProofOfFuture
        | Code::KeyUnknown => Checked::Missing(text),
        _ => Checked::Refused(text),
    }
}

/// Whether a DID has an active ISSUER participant of a schema.
pub(in crate::flows) async fn is_issuer(account: &WritingAccount, did: &str, schema_id: u64) -> Result<bool, StepStop> {
    let found = NodeRegistry(account).participants(did).await?;
    let now = timestamp::unix_nanos(&account.chain_time());
    Ok(found.iter().any(|one| {
        one.role() == ParticipantRole::Issuer
            && one.schema_id == schema_id
            && state_of(one, now) == ParticipantState::Active
    }))
}
