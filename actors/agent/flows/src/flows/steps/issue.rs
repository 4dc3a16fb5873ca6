//! The validator's side of a credential, up to its signature: it is offered, requested, signed and stored.

use std::time::Duration;

use serde_json::Value;
use svc_agent_core::{
    error::{Refusal, RefusalCode},
    flows::{
        ContentKind, FlowContent, PaymentStep, PeerGeneration, SessionPayment, ShownParticipant, messages_of,
        session_payment,
    },
};
use svc_agent_identity::{
    credentials::{Authority, CredentialIssuer, IssueRequest, IssueStop},
    registry::{NodeRegistry, SchemaCredentials, SchemaOnChain},
};
use svc_didcomm::{
    flow::{
        ALREADY_ISSUED, Cause, ConnectionState, FlowRecord, Guard, MessageParts, Outgoing, Progress, Side, Trigger,
        Variant,
    },
    protocol::{credential_format::CredentialFormat, vt_flow::VtFlow},
};
use svc_kit::wall_clock::now_millis;
use svc_trust::{EssentialCredential, proof::ProofSuite};
use svc_wire::{proto::svc::pp::v1::Participant, timestamp};
use uuid::Uuid;

use super::outcome::{Done, RETRY_PAUSE, StepStop, peer_has_gone};
use crate::flows::service::{FlowChange, FlowService};

/// Parts of a discount that are one.
const DISCOUNT_PARTS: u128 = 10_000;
/// Time for which an offer waits for the protocols of its peer. One that does not say them gets the format of the settings.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);

/// Everything that is needed to offer or to sign the credential of a flow, read just now.
pub(in crate::flows) struct CredentialOrder {
    pub issuer: CredentialIssuer,
    pub schema: SchemaOnChain,
    credentials: SchemaCredentials,
    authority: Authority,
    pub issuer_participant: u64,
    /// The applicant's participant; none in a direct issuance.
    pub applicant: Option<ShownParticipant>,
}

fn suite_of(format: CredentialFormat) -> ProofSuite {
    match format {
        CredentialFormat::DataIntegrity => ProofSuite::EddsaJcs2022,
        CredentialFormat::LdProof => ProofSuite::Ed25519Signature2020,
    }
}

impl CredentialOrder {
    fn request(&self, record: &FlowRecord) -> IssueRequest {
        IssueRequest {
            did: record.peer_did.clone(),
            schema_id: record.schema_id,
            claims: record.claims.clone().unwrap_or_default(),
            valid_until: None,
            terms: record.validation.as_ref().map(|validation| validation.terms).unwrap_or_default(),
        }
    }

    /// The credential as it would be signed. Its claims fit the schema, or the request is refused.
    pub fn draft(&self, record: &FlowRecord, format: CredentialFormat) -> Result<Value, IssueStop> {
        let named = (&self.schema, &self.credentials);
        Ok(self.issuer.draft(&self.request(record), named, &self.authority, suite_of(format))?.body)
    }
}

impl FlowService {
    /// Reads at the node everything that a credential needs. A participant that is not validated, a right that is missing or a peer that
    /// is not trusted stops it.
    pub(in crate::flows) async fn order(&self, record: &FlowRecord) -> Result<CredentialOrder, StepStop> {
        let issuer = self.issuer()?;
        let registry = issuer.registry();
        let participant = record.validator_participant_id.ok_or(StepStop::Outdated)?;
        let found = registry.schema(record.schema_id).await?;
        let Some(schema) = found.filter(|schema| schema.schema.archived.is_none()) else {
            return Err(StepStop::blocked("ISSUER_NOT_ACTIVE", "the registry has no such schema in use"));
        };
        let mut applicant = None;
        if let Some(id) = record.applicant_participant_id {
            let (participant, height) = registry.participant_with_height(id).await?.ok_or_else(unshown)?;
            let shown = ShownParticipant { participant, height };
            let now = timestamp::unix_nanos(&issuer.account.chain_time());
            // A node that lags says nothing, and one that shows another end has the flow follow it.
            if height < record.round.read_at {
                return Err(unshown());
            }
            if shown.has_expired(now) {
                let text = format!("participant {id} of the applicant has expired: a renewal by the applicant goes on");
                return Err(StepStop::blocked("PEER_NOT_TRUSTED", text));
            }
            if !shown.is_validated(now) {
                return Err(unshown());
            }
            applicant = Some(shown);
        }
        let holder: Option<&Participant> = applicant.as_ref().map(|shown| &shown.participant);
        let authority = issuer.flow_authority((record.schema_id, participant), holder).await?;
        self.require_peer(record, &schema).await?;
        let credentials = issuer.sources.credentials_of(&issuer.account, &schema).await?;
        Ok(CredentialOrder {
            issuer: issuer.clone(),
            schema,
            credentials,
            authority,
            issuer_participant: participant,
            applicant,
        })
    }

    /// The format of an offer: that of the settings, or the older one for an agent of the first generation, which takes no other and says
    /// nothing about it. A peer whose document does not tell is asked for its protocols.
    pub(in crate::flows) async fn offer_format(&self, record: &FlowRecord) -> Result<CredentialFormat, StepStop> {
        let peer = &record.peer_did;
        let document = self.0.peers.document_of(peer).await;
        let document = document.map_err(|error| StepStop::Failed(format!("the document of {peer}: {error}")))?;
        let generation = match (PeerGeneration::of_document(&document), &record.connection_id) {
            (None, Some(connection_id)) => {
                let answered = self.0.peers.ask_protocols(connection_id, ANSWER_PATIENCE).await?;
                answered.as_deref().map(PeerGeneration::of_protocols)
            }
            (generation, _) => generation,
        };
        match generation {
            Some(PeerGeneration::First) => Ok(CredentialFormat::LdProof),
            Some(PeerGeneration::Later) | None => Ok(self.0.settings.format.to_wire()),
        }
    }

    /// The peer is a verifiable service, or becomes one by this credential.
    async fn require_peer(&self, record: &FlowRecord, schema: &SchemaOnChain) -> Result<(), StepStop> {
        let makes_trusted = self.essential(schema).is_some_and(EssentialCredential::makes_trusted);
        if record.variant == Variant::Onboarding && makes_trusted {
            return Ok(());
        }
        self.require_verdict(&record.peer_did).await
    }

    /// The session of the flow at the node, beside the record.
    pub(in crate::flows) async fn payment(
        &self,
        record: &FlowRecord,
        session_id: &str,
        issuer_participant: u64,
    ) -> Result<SessionPayment, StepStop> {
        let account = self.account()?;
        let session = NodeRegistry(&account).session(session_id).await?;
        Ok(session_payment(record, session_id, session.as_ref(), &account.agent(), issuer_participant))
    }

    /// Whether another flow has issued on the validation of a participant.
    pub(in crate::flows) async fn has_other_issued(
        &self,
        record: &FlowRecord,
        applicant: Option<&ShownParticipant>,
    ) -> Result<bool, StepStop> {
        let Some(applicant) = applicant else { return Ok(false) };
        let read = applicant.to_read();
        let flows = self.0.store.flows_of_applicant(Side::Validator, applicant.participant.id).await?;
        Ok(flows.iter().any(|flow| flow.id != record.id && flow.has_issued_on(&read)))
    }

    /// The fees that beneficiaries of the session get, in base units of the denomination of fees. Where no bound is set nothing is asked.
    pub(super) async fn check_cost(&self, order: &CredentialOrder) -> Result<Option<u128>, StepStop> {
        let Some(most) = self.0.settings.session_cost else { return Ok(None) };
        let registry = order.issuer.registry();
        let discount = u128::from(order.authority.grant.participant.issuance_fee_discount).min(DISCOUNT_PARTS);
        let mut cost: u128 = 0;
        for one in registry.beneficiaries(order.issuer_participant).await? {
            let fees = u128::from(one.issuance_fees) * (DISCOUNT_PARTS - discount) / DISCOUNT_PARTS;
            let fees = u64::try_from(fees).unwrap_or(u64::MAX);
            if fees > 0 {
                cost = cost.saturating_add(registry.price_in_fees(&order.schema.schema, fees).await?);
            }
        }
        if cost > most {
            let text = format!("the session costs {cost}; FLOW_MAX_SESSION_COST is {most}");
            return Err(StepStop::blocked("SESSION_COST", text));
        }
        Ok(Some(cost))
    }

    /// Offers a credential, or waits for claims that fit.
    pub(super) async fn offer(&self, record: &FlowRecord) -> Result<Done, StepStop> {
        let order = match self.order(record).await {
            Err(StepStop::Outdated) => return self.follow_applicant(record).await,
            order => order?,
        };
        if let Some(settled) = self.settle_payments(record).await? {
            return self.finish(record, FlowChange::of(record, Progress::of(settled))).await;
        }
        if self.has_other_issued(record, order.applicant.as_ref()).await? {
            return Err(StepStop::blocked(
                ALREADY_ISSUED,
                "a credential of this validation was paid under another session",
            ));
        }
        let payment = self.payment(record, &record.session_id, order.issuer_participant).await?;
        if let PaymentStep::Block(code) = payment.before_signing() {
            return Err(StepStop::blocked(code, "the session at the node has records that this agent does not know"));
        }
        let format = self.offer_format(record).await?;
        match self.offer_by(record, Trigger::ClaimsFit, (&order, format)) {
            Ok(change) => self.finish(record, change.ok_or(StepStop::Outdated)?).await,
            Err(IssueStop::Refused(refusal)) => {
                let mut progress = Progress::of(record.clone());
                if !progress.take(&Cause::new(Trigger::ClaimsMissing, now_millis())) {
                    return Err(StepStop::Outdated);
                }
                progress.record.refusal = None;
                tracing::info!(
                    flow = record.id,
                    reason = refusal.message,
                    "the claims of a flow do not fit its schema"
                );
                self.finish(record, FlowChange::of(record, progress)).await
            }
            Err(IssueStop::Stopped(stop)) => Err(stop.into()),
        }
    }

    /// The flow with an offer, by a trigger. Nothing where the table has no such step.
    pub(in crate::flows) fn offer_by(
        &self,
        record: &FlowRecord,
        trigger: Trigger,
        (order, format): (&CredentialOrder, CredentialFormat),
    ) -> Result<Option<FlowChange>, IssueStop> {
        let offered = order.draft(record, format)?;
        let mut progress = Progress::of(record.clone());
        progress.go_on(now_millis());
        let cause = Cause { new_id: Uuid::new_v4().to_string(), ..Cause::new(trigger, now_millis()) };
        if !progress.take(&cause.with_facts([Guard::ClaimsFit, Guard::OwnIssuerActive])) {
            return Ok(None);
        }
        let mut messages = messages_of(Some(record), &progress, |outgoing, id| MessageParts {
            attachment: (outgoing == Outgoing::OfferCredential).then(|| format.offer(id, &offered)),
            ..MessageParts::default()
        });
        if self.0.settings.sends_terms {
            let decided = record.validation.as_ref().and_then(|validation| validation.terms.present_as_linked_vp);
            let present_as_linked_vp = decided.unwrap_or(true);
            let terms = VtFlow::CredentialTerms { credential_format: "JSON_LD".to_owned(), present_as_linked_vp };
            messages.insert(0, terms.to_message(&Uuid::new_v4().to_string(), record.thread_id.as_deref()));
        }
        let content = FlowContent {
            kind: ContentKind::Offered,
            round: record.round.number,
            format: format.offer_name().to_owned(),
            body: offered.to_string(),
        };
        Ok(Some(FlowChange::with_messages(progress, messages).with_content(content)))
    }

    /// The applicant's participant is read, since it is not as the record has it.
    pub(super) async fn follow_applicant(&self, record: &FlowRecord) -> Result<Done, StepStop> {
        if let Some(id) = record.applicant_participant_id {
            self.read_participant(id, 0).await.map_err(StepStop::Failed)?;
        }
        let now = self.0.store.flow(&record.id).await?;
        if now.as_ref() == Some(record) { Ok(Done::Later(RETRY_PAUSE)) } else { Err(StepStop::Outdated) }
    }

    /// Signs the credential that was requested, and stores it before anything is paid.
    pub(super) async fn sign(&self, record: &FlowRecord) -> Result<Done, StepStop> {
        let order = match self.order(record).await {
            Err(StepStop::Outdated) => return self.follow_applicant(record).await,
            order => order?,
        };
        if record.connection_state != ConnectionState::Established {
            return Err(peer_has_gone());
        }
        if let Some(settled) = self.settle_payments(record).await? {
            return self.finish(record, FlowChange::of(record, Progress::of(settled))).await;
        }
        let payment = self.payment(record, &record.session_id, order.issuer_participant).await?;
        if let PaymentStep::Block(code) = payment.before_signing() {
            return Err(StepStop::blocked(code, "the session at the node has records that this agent does not know"));
        }
        self.check_cost(&order).await?;
        let offered =
            self.0.store.flow_content(self.key(), &record.id, ContentKind::Offered, record.round.number).await?;
        // The claims are those that were offered: the operator has decided about them, and the applicant may have sent others since.
        let missing = || StepStop::Failed("the store has no offer of the round".to_owned());
        let offered = offered.ok_or_else(missing)?;
        let format = CredentialFormat::of_offer(&offered.format).ok_or_else(missing)?;
        let body: Value = serde_json::from_str(&offered.body).map_err(|_| missing())?;
        let claims = body["credentialSubject"].as_object().cloned().ok_or_else(missing)?;
        let request = IssueRequest { claims, ..order.request(record) };
        let (named, suite) = ((&order.schema, &order.credentials), suite_of(format));
        let unsigned = order.issuer.draft(&request, named, &order.authority, suite)?.or_offered(body);
        let signed = order.issuer.sign_checked(unsigned, (&request.did, &order.schema), suite).await?;
        let mut progress = Progress::of(record.clone());
        let now = now_millis();
        progress.go_on(now);
        let read = order.applicant.as_ref().map(ShownParticipant::to_read);
        progress.note_signed(&signed.id, &signed.digest, read.as_ref(), now);
        let content = FlowContent {
            kind: ContentKind::Signed,
            round: record.round.number,
            format: format.credential_name().to_owned(),
            body: signed.body.to_string(),
        };
        self.finish(record, FlowChange::of(record, progress).with_content(content)).await
    }

    /// The signed credential of a round, with its format.
    pub(super) async fn signed_credential(
        &self,
        record: &FlowRecord,
        round: u32,
    ) -> Result<(CredentialFormat, Value), StepStop> {
        let content = self.0.store.flow_content(self.key(), &record.id, ContentKind::Signed, round).await?;
        let missing = || StepStop::Failed("the store has no signed credential of the round".to_owned());
        let content = content.ok_or_else(missing)?;
        let credential: Value = serde_json::from_str(&content.body).map_err(|_| missing())?;
        Ok((CredentialFormat::of_credential(&content.format).ok_or_else(missing)?, credential))
    }
}

/// The node shows no validation that a credential could be issued on.
fn unshown() -> StepStop {
    StepStop::Outdated
}

/// The refusal of a call that a credential is ordered by.
pub(in crate::flows) fn order_refused(stop: StepStop) -> Refusal {
    match stop {
        StepStop::Blocked(code, text, _) => {
            let refusal = match code.as_str() {
                "PEER_NOT_TRUSTED" => RefusalCode::PeerNotAuthorized,
                "VERDICT_UNKNOWN" | "PEER_UNRESOLVABLE" => RefusalCode::ResolverUnavailable,
                _ => RefusalCode::NotAuthorized,
            };
            Refusal::new(refusal, format!("{code}: {text}"))
        }
        StepStop::Outdated => {
            Refusal::new(RefusalCode::InvalidState, "the node does not show the applicant's participant as validated")
        }
        StepStop::Failed(reason) => {
            Refusal { retry_after: Some(5), ..Refusal::new(RefusalCode::ResolverUnavailable, reason) }
        }
    }
}
