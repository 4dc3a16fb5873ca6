//! One pass over the credentials that the DID holds: those that the registry has taken away are withdrawn, own ones are issued, renewed
//! and anchored, those of schemas follow the schemas on the chain, and issued ones that wait are anchored.

use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

use serde_json::{Value, json};
use svc_trust::{
    EssentialCredential,
    did_document::ProofPurpose,
    digest::{DigestAlgorithm, anchored_digest, sri_digest},
    issuance::{CredentialDraft, sign_credential},
    proof::ProofSuite,
};
use svc_wire::timestamp;
use uuid::Uuid;

use super::{
    claims::{claims_digest, claims_for},
    core::{HeldFacts, OwnSituation, OwnStep, find_held, next_own_step, reason_to_withdraw},
    issuer::{CredentialIssuer, IssueRequest, IssueStop, proof_method},
    settings::{CredentialMode, CredentialSettings},
};
use crate::{
    account_write::WriteStop,
    grant::{BlockedReason, WantedGrant},
    registry::{NodeRegistry, SchemaOnChain, all_to_evidence, name_of},
    store::{CredentialKind, CredentialState, StoredCredential},
};

/// Issued credentials that one pass anchors.
const MAX_ANCHORED: u32 = 64;
/// Schemas of own ecosystems whose credentials are presented: a document has room for no more.
const MAX_SCHEMAS: usize = 100;

/// The end of a pass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PassReport {
    /// The reasons for which credentials wait, by the names of their presentations.
    pub waiting: BTreeMap<String, String>,
    /// Whether a later pass may succeed without an event.
    pub has_failure: bool,
    /// Whether the presented credentials have changed.
    pub has_change: bool,
    /// Seconds until a participant of the DID begins: no event announces that.
    pub begins_in: Option<u64>,
}

impl PassReport {
    fn wait(&mut self, name: &str, stop: &WriteStop) {
        self.has_failure |= matches!(stop, WriteStop::Failed(_));
        self.waiting.insert(name.to_owned(), stop.reason().to_owned());
    }
}

/// A pass.
pub(super) struct Pass<'a> {
    pub issuer: &'a CredentialIssuer,
    pub settings: &'a CredentialSettings,
    /// Public URL.
    pub base_url: &'a str,
    /// Names of own credentials that a person has asked for.
    pub asked_for: BTreeSet<String>,
    /// Whether the registry's facts may take credentials away.
    pub handles_events: bool,
}

impl Pass<'_> {
    fn did(&self) -> &str {
        &self.issuer.account.did
    }

    fn registry(&self) -> NodeRegistry<'_> {
        NodeRegistry(&self.issuer.account)
    }

    fn now(&self) -> i64 {
        self.issuer.account.chain_time().seconds
    }

    /// Whether a person wants another credential in place of an own one: because of its old key, which the document may lack by now.
    fn is_asked_for(&self, held: &StoredCredential) -> bool {
        let prover = self.issuer.keeper.prover(ProofPurpose::AssertionMethod);
        let has_old_proof = prover.is_some_and(|prover| prover.verification_method != held.proof_method);
        let published = self.issuer.keeper.published();
        has_old_proof
            && (self.asked_for.contains(&held.name) || !published.document.allows_assertion(&held.proof_method))
    }

    /// Runs the pass. Fails when the store or the node does, before anything was decided.
    pub async fn run(&self) -> Result<PassReport, WriteStop> {
        let mut report = PassReport::default();
        if self.handles_events {
            report.has_change = self.withdraw().await?;
        }
        if let CredentialMode::Standalone { claims } = &self.settings.mode {
            for (essential, texts) in claims {
                let name = name_of(*essential);
                match self.take_own_step(*essential, texts).await {
                    Ok(has_change) => report.has_change |= has_change,
                    Err(IssueStop::Stopped(stop)) => report.wait(name, &stop),
                    Err(IssueStop::Refused(refusal)) => {
                        report.wait(name, &WriteStop::Failed(refusal.message));
                    }
                }
            }
        }
        if report.waiting.values().any(|reason| reason == BlockedReason::NoParticipant.as_str()) {
            report.begins_in = self.next_beginning().await?;
        }
        match self.follow_schemas().await {
            Ok(has_change) => report.has_change |= has_change,
            Err(stop) => report.wait("schemas", &stop),
        }
        for row in self.issuer.account.store.waiting_credentials(MAX_ANCHORED).await? {
            if let Err(stop) = self.issuer.anchor(&row).await {
                report.wait(&row.id, &stop);
            }
        }
        Ok(report)
    }

    /// Seconds until the next participant of the DID begins.
    async fn next_beginning(&self) -> Result<Option<u64>, WriteStop> {
        let now = self.now();
        let own = self.registry().participants(self.did()).await?;
        let begins = own.iter().filter_map(|one| one.effective_from.as_ref()).map(|from| from.seconds);
        Ok(begins.filter(|from| *from > now).min().and_then(|from| u64::try_from(from - now).ok()))
    }

    /// Withdraws the credentials whose participants the node states as ended, revoked or slashed. Returns whether there was any.
    async fn withdraw(&self) -> Result<bool, WriteStop> {
        let held = self.issuer.account.store.held_credentials().await?;
        let held = held.into_iter().filter(|one| one.kind != CredentialKind::Schema);
        let (now, mut schemas, mut participants) = (self.now(), BTreeMap::new(), BTreeMap::new());
        let nanos = i128::from(now) * 1_000_000_000;
        let mut withdrawn = Vec::new();
        for one in held {
            if let Entry::Vacant(place) = schemas.entry(one.schema_id) {
                let found = self.registry().schema(one.schema_id).await?;
                place.insert(found.map(|schema| schema.to_evidence()));
            }
            for did in [self.did(), &one.issuer] {
                if let Entry::Vacant(place) = participants.entry(did.to_owned()) {
                    let found = self.registry().participants(did).await?;
                    place.insert(all_to_evidence(&found, nanos));
                }
            }
            let facts = HeldFacts {
                holders: participants.get(self.did()).map_or(&[], Vec::as_slice),
                issuers: participants.get(&one.issuer).map_or(&[], Vec::as_slice),
                schema: schemas.get(&one.schema_id).and_then(Option::as_ref),
                anchored_at: self.registry().anchored_at(&one.digest).await?,
                now,
            };
            if let Some(code) = reason_to_withdraw(&one, &facts) {
                tracing::warn!(credential = one.id, reason = code.as_str(), "a credential is withdrawn");
                withdrawn.push((one.id, code.as_str().to_owned()));
            }
        }
        if !withdrawn.is_empty() {
            self.issuer.account.store.withdraw_credentials(&withdrawn).await?;
        }
        Ok(!withdrawn.is_empty())
    }

    /// Takes the next step for one credential that the DID issues itself. Returns whether a credential became presentable.
    async fn take_own_step(
        &self,
        essential: EssentialCredential,
        texts: &BTreeMap<String, String>,
    ) -> Result<bool, IssueStop> {
        let (account, store) = (&self.issuer.account, &self.issuer.account.store);
        let known = &self.issuer.judge.essential_schemas;
        let ecosystems = &self.settings.trusted_ecosystems;
        let source = self.issuer.sources.essential(account, ecosystems, (essential, known)).await?;
        let source = source.ok_or_else(|| {
            let kind = essential.as_str();
            WriteStop::Failed(format!("no ecosystem of TRUSTED_ECS_ECOSYSTEM_DIDS has a schema of {kind} in use"))
        })?;
        let claims = claims_for(&source.schema.schema.json_schema, texts).map_err(|problems| {
            let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
            WriteStop::Failed(format!("the claims do not fit the schema on the chain: {}", problems.join("; ")))
        })?;
        let digest = claims_digest(&claims);
        let stored = store.held_credentials().await?;
        let schema_id = source.schema.schema.id;
        let (waiting, held) = find_held(&stored, schema_id, self.did());
        let grant = account.read_grant(&WantedGrant::to_issue(schema_id, None)).await;
        let situation = OwnSituation {
            held,
            waiting,
            claims_digest: &digest,
            last_issue: store.last_own_issue(schema_id).await?,
            issuer: grant.as_ref().ok().map(|grant| grant.participant.id),
            is_asked_for: held.is_some_and(|held| self.is_asked_for(held)),
            renew_days: self.settings.renew_days,
            now: self.now(),
        };
        let row = match (next_own_step(&situation), waiting) {
            (OwnStep::Keep, _) => return Ok(false),
            (OwnStep::WaitForTomorrow, _) => {
                let reason = "a credential of this schema was issued within the last day".to_owned();
                return Err(WriteStop::Failed(reason).into());
            }
            (OwnStep::Anchor, Some(waiting)) => waiting.clone(),
            (OwnStep::Anchor | OwnStep::Issue, _) => {
                // Without a grant nothing is signed that could not be anchored.
                grant?;
                let request = IssueRequest { did: self.did().to_owned(), schema_id, claims, valid_until: None };
                let with = (&source.schema, &source.credential);
                self.issuer.sign_and_store(&request, with, CredentialKind::Own).await?
            }
        };
        self.issuer.anchor(&row).await?;
        Ok(true)
    }

    /// Keeps the credentials of the schemas of own ecosystems equal to the schemas on the chain. Returns whether one became presentable,
    /// or is presented no more.
    async fn follow_schemas(&self) -> Result<bool, WriteStop> {
        let store = &self.issuer.account.store;
        let on_chain = self.registry().own_schemas().await?;
        let stored = store.held_credentials().await?;
        let stored: Vec<&StoredCredential> = stored.iter().filter(|one| one.kind == CredentialKind::Schema).collect();
        let in_use = |schema: &&SchemaOnChain| schema.schema.archived.is_none();
        let (mut has_change, mut withdrawn) = (false, Vec::new());
        for one in &stored {
            let schema = on_chain.iter().find(|schema| schema.schema.id == one.schema_id);
            if schema.is_some_and(|schema| schema.schema.archived.is_some()) {
                withdrawn.push((one.id.clone(), "SCHEMA_ARCHIVED".to_owned()));
            }
        }
        if !withdrawn.is_empty() {
            store.withdraw_credentials(&withdrawn).await?;
            has_change = true;
        }
        for schema in on_chain.iter().filter(in_use).take(MAX_SCHEMAS) {
            let text_digest = sri_digest(schema.schema.json_schema.as_bytes(), DigestAlgorithm::Sha384);
            let known = stored.iter().find(|one| one.schema_id == schema.schema.id && one.claims_digest == text_digest);
            let row = match known {
                Some(known) if known.state != CredentialState::Signed => continue,
                Some(known) => StoredCredential::clone(known),
                None => self.sign_schema(schema, text_digest).await?,
            };
            // The operator anchors it: a VS operator cannot store a digest alone.
            if self.registry().anchored_at(&row.digest).await?.is_some() {
                store.note_anchored(&row, None).await?;
                has_change = true;
            }
        }
        Ok(has_change)
    }

    async fn sign_schema(&self, schema: &SchemaOnChain, text_digest: String) -> Result<StoredCredential, WriteStop> {
        let failed = |reason: &str| WriteStop::Failed(reason.to_owned());
        let (account, now) = (&self.issuer.account, self.issuer.account.chain_time());
        let chain = &account.access.chain;
        let id = schema.schema.id;
        let reference = format!("vpr:{}:{}:cs:{id}", chain.registry.namespace(), chain.params.chain_id);
        // A new credential has a new URL: those that name the old one by its digest find it unchanged or not at all.
        let part = Uuid::new_v4().simple().to_string();
        let draft = CredentialDraft {
            id: format!("{}/vt/cs-{id}-{}-jsc.json", self.base_url, &part[..8]),
            issuer: self.did().to_owned(),
            kind: "JsonSchemaCredential".to_owned(),
            subject: json!({
                "id": reference, "type": "JsonSchema", "jsonSchema": {"$ref": reference}, "digestSRI": text_digest,
            }),
            schema: None,
            valid_from: timestamp::iso_seconds(&now),
            valid_until: None,
        };
        let prover = self.issuer.keeper.prover(ProofPurpose::AssertionMethod);
        let prover = prover.ok_or_else(|| failed("the document has no key for assertions"))?;
        let mut body: Value = draft.into_credential(ProofSuite::EddsaJcs2022);
        sign_credential(&mut body, &prover, ProofSuite::EddsaJcs2022, &timestamp::iso_seconds(&now))
            .map_err(|reason| WriteStop::Failed(reason.message))?;
        let algorithm = DigestAlgorithm::from_name(&schema.schema.digest_algorithm);
        let algorithm = algorithm.ok_or_else(|| failed("the schema names no digest algorithm"))?;
        let digest = anchored_digest(&body, algorithm).ok_or_else(|| failed("it has no canonical form"))?;
        let row = StoredCredential {
            id: body["id"].as_str().unwrap_or_default().to_owned(),
            kind: CredentialKind::Schema,
            name: format!("cs-{id}"),
            schema_id: id,
            issuer: self.did().to_owned(),
            subject: reference,
            issuer_participant: 0,
            digest,
            claims_digest: text_digest,
            proof_method: proof_method(&body),
            body: body.to_string(),
            state: CredentialState::Signed,
            reason: None,
            tx_hash: None,
            valid_until: None,
            created_at: now.seconds,
        };
        account.store.write_credential(&row).await?;
        Ok(row)
    }
}
