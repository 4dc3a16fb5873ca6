//! One pass over the credentials that the DID holds: those that the registry has taken away are withdrawn, own ones are issued, renewed
//! and anchored, those of schemas follow the schemas on the chain, and issued ones that wait are anchored.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    pin::pin,
};

use futures::StreamExt;
use svc_agent_core::grant::BlockedReason;
use svc_agent_store::{CredentialKind, CredentialState, KEY_REMOVED, StoredCredential};
use svc_didcomm::flow::CredentialTerms;
use svc_trust::{EssentialCredential, did_document::ProofPurpose, proof::ProofSuite};
use svc_wire::timestamp;

use super::{
    core::{
        HeldFacts, OwnSituation, OwnStep, find_held, is_of_another, is_unwanted, next_own_step, reason_to_withdraw,
    },
    issuance::IssueRequest,
    issuer::CredentialIssuer,
    report::{OwnEnd, OwnStop, PassReport},
    unsigned::subject_of,
};
use crate::{
    account_write::WriteStop,
    credential_settings::{
        ConfiguredClaims, CredentialForm, CredentialMode, CredentialSettings, FormChange, FoundForm, claims_digest,
        claims_for, plain_name, unused_settings,
    },
    document::proof_suite,
    registry::{NodeRegistry, all_to_evidence, name_of},
};

/// Issued credentials that one pass anchors, and those that are sent at once: one that a node forgets holds up none of the others.
const MAX_ANCHORED: u32 = 64;
const ANCHORED_AT_ONCE: usize = 16;

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
    pub(super) fn did(&self) -> &str {
        &self.issuer.account.did
    }

    pub(super) fn registry(&self) -> NodeRegistry<'_> {
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

    /// Whether an own credential would be signed with another suite now.
    fn has_other_suite(&self, held: &StoredCredential) -> bool {
        let body = held.json();
        let suite = self.issuer.suite_for(&body["credentialSubject"], CredentialForm::of(&held.name));
        held.kind == CredentialKind::Own && proof_suite(&body) != suite
    }

    /// Runs the pass. Fails when the store or the node does, before anything was decided.
    pub async fn run(&self) -> Result<PassReport, WriteStop> {
        let mut report = PassReport::default();
        self.withdraw_unproven().await?;
        self.settle_doubts().await?;
        self.name_forms().await?;
        self.withdraw().await?;
        // A revoked credential is out of the document before anything is sent. A publication that failed is repeated so, too.
        self.publish(&mut report).await;
        match &self.settings.mode {
            CredentialMode::Standalone { claims } => {
                for (essential, configured) in claims {
                    for form in self.issuer.proofs.forms() {
                        let end = self.take_own_step((*essential, *form), configured).await;
                        report.note(&form.name(name_of(*essential)), end);
                    }
                }
            }
            CredentialMode::Delegated { claims, .. } if !claims.is_empty() => {
                report.note(name_of(EssentialCredential::Service), self.judge_asked(claims).await);
            }
            CredentialMode::Delegated { .. } | CredentialMode::Off => {}
        }
        if report.waiting.values().any(|reason| reason == BlockedReason::NoParticipant.as_str()) {
            report.begins_in = self.next_beginning().await?;
        }
        if let Err(stop) = self.follow_schemas().await {
            report.wait("schemas", &stop);
        }
        self.publish(&mut report).await;
        let waiting = self.issuer.account.store.waiting_credentials(MAX_ANCHORED).await?;
        let mut anchored =
            pin!(futures::stream::iter(waiting).map(|row| self.anchor_issued(row)).buffer_unordered(ANCHORED_AT_ONCE));
        while let Some((id, ended)) = anchored.next().await {
            if let Err(stop) = ended {
                report.wait(&id, &stop);
            }
        }
        Ok(report)
    }

    /// Has the document present the credentials of the store.
    async fn publish(&self, report: &mut PassReport) {
        if let Err(refusal) = self.issuer.keeper.publish_credentials().await {
            report.wait("document", &WriteStop::Failed(refusal.message));
        }
    }

    /// Anchors a credential that was issued to another, if it still counts.
    async fn anchor_issued(&self, row: StoredCredential) -> (String, Result<(), WriteStop>) {
        let anchored = async {
            match self.issuer.reason_against(&row).await? {
                Some(reason) if self.issuer.give_up(&row).await? => {
                    tracing::warn!(credential = row.id, reason, "a credential that waited is given up");
                }
                _ => drop(self.issuer.anchor(&row).await?),
            }
            Ok(())
        };
        let ended = anchored.await;
        (row.id, ended)
    }

    /// Withdraws the credentials whose proof has a key that the document lacks: after a rotation of compromised keys.
    async fn withdraw_unproven(&self) -> Result<(), WriteStop> {
        let store = &self.issuer.account.store;
        let published = self.issuer.keeper.published();
        for kind in [CredentialKind::Issued, CredentialKind::Schema] {
            for method in store.proof_methods(kind).await? {
                if !published.document.allows_assertion(&method) {
                    tracing::warn!(method, "credentials are withdrawn whose key has left the document");
                    store.withdraw_of_method(kind, &method, KEY_REMOVED).await?;
                }
            }
        }
        Ok(())
    }

    /// Looks at the node for the digests of presented credentials whose blocks the chain has lost. One that is not there waits for its
    /// digest.
    async fn settle_doubts(&self) -> Result<(), WriteStop> {
        let store = &self.issuer.account.store;
        for one in store.doubtful_credentials().await? {
            let is_shown = self.registry().anchored_at(&one.digest).await?.is_some();
            tracing::info!(
                credential = one.id,
                is_shown,
                "the digest of a credential is looked for on the changed chain"
            );
            store.settle_doubt(&one.id, is_shown).await?;
        }
        Ok(())
    }

    /// Seconds until the next participant of the DID begins.
    async fn next_beginning(&self) -> Result<Option<u64>, WriteStop> {
        let now = self.now();
        let own = self.registry().participants(self.did()).await?;
        let begins = own.iter().filter_map(|one| one.effective_from.as_ref()).map(|from| from.seconds);
        Ok(begins.filter(|from| *from > now).min().and_then(|from| u64::try_from(from - now).ok()))
    }

    /// Withdraws the credentials that the settings do not want any more, and those whose participants the node states as ended, revoked or
    /// slashed.
    async fn withdraw(&self) -> Result<(), WriteStop> {
        let held = self.issuer.account.store.held_credentials().await?;
        let held = held.into_iter().filter(|one| one.kind != CredentialKind::Schema);
        let time = self.issuer.account.chain_time();
        let (now, nanos) = (time.seconds, timestamp::unix_nanos(&time));
        let (mut schemas, mut participants) = (BTreeMap::new(), BTreeMap::new());
        let mut withdrawn = Vec::new();
        for one in held {
            if is_unwanted(self.settings, &one) {
                tracing::warn!(credential = one.id, "the settings do not want a credential any more");
                withdrawn.push((one.id, "NOT_WANTED".to_owned()));
                continue;
            }
            if !self.handles_events {
                continue;
            }
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
        Ok(())
    }

    /// Takes the next step for one form of a credential that the DID issues itself.
    async fn take_own_step(
        &self,
        (essential, form): (EssentialCredential, CredentialForm),
        configured: &ConfiguredClaims,
    ) -> Result<OwnEnd, OwnStop> {
        let (account, store) = (&self.issuer.account, &self.issuer.account.store);
        let known = &self.issuer.judge.essential_schemas;
        let ecosystems = &self.settings.trusted_ecosystems;
        let stored = store.held_credentials().await?;
        let name = form.name(name_of(essential));
        let present = stored.iter().find(|one| one.kind == CredentialKind::Own && one.name == name);
        let present = present.map(|one| one.schema_id);
        let source = self.issuer.sources.essential(account, ecosystems, (essential, known), present).await?;
        let Some(source) = source else {
            let missing = self.registry().missing_schema(ecosystems, (essential, known)).await;
            return Err(WriteStop::Failed(missing.to_string()).into());
        };
        let json_schema = &source.schema.schema.json_schema;
        let found = claims_for(json_schema, essential, configured).map_err(OwnStop::Claims)?;
        let digest = claims_digest(&found.claims);
        let schema_id = source.schema.schema.id;
        if stored.iter().any(|one| is_of_another(one, schema_id, self.did())) {
            self.end_own_form(&stored, &name, "REPLACED").await?;
            return Ok(OwnEnd::Done);
        }
        let (waiting, held) = find_held(&stored, (schema_id, form), self.did());
        let terms = CredentialTerms::default();
        let request = IssueRequest {
            did: self.did().to_owned(),
            schema_id,
            claims: found.claims.clone(),
            valid_until: None,
            terms,
        };
        if form == CredentialForm::Second && !self.issuer.has_form(&subject_of(&request), form) {
            self.end_second_form(&stored, name_of(essential)).await?;
            return Ok(OwnEnd::Done);
        }
        let authority = self.issuer.read_authority(self.did(), &source.schema, CredentialKind::Own).await;
        let now = account.chain_time();
        let next_end = authority.as_ref().ok().map(|one| self.issuer.end_of_validity(one, None, &now));
        let published = self.issuer.keeper.published();
        let situation = OwnSituation {
            held,
            waiting,
            has_waiting_key: waiting.is_none_or(|one| published.document.allows_assertion(&one.proof_method)),
            claims_digest: &digest,
            last_issue: store.last_own_issue(schema_id, &name).await?,
            issuer: authority.as_ref().ok().map(|one| one.grant.participant.id),
            next_end,
            is_asked_for: held.is_some_and(|held| self.is_asked_for(held)),
            has_waiting_suite: waiting.is_none_or(|one| !self.has_other_suite(one)),
            has_other_suite: held.is_some_and(|one| self.has_other_suite(one)),
            renew_days: self.settings.renew_days,
            now: self.now(),
        };
        let row = match (next_own_step(&situation), waiting) {
            (OwnStep::Keep, _) => return Ok(OwnEnd::Done),
            (OwnStep::WaitForTomorrow, _) => return Ok(OwnEnd::Tomorrow),
            (OwnStep::Anchor, Some(waiting)) => waiting.clone(),
            (OwnStep::GiveUp, Some(waiting)) => {
                if self.issuer.give_up(waiting).await? {
                    return Err(
                        WriteStop::Failed("the one that waited was given up; the next follows".to_owned()).into()
                    );
                }
                waiting.clone()
            }
            (OwnStep::Anchor | OwnStep::GiveUp | OwnStep::Issue, _) => {
                let is_own = source.schema.ecosystem_did == self.did();
                if form == CredentialForm::Second && is_own && !source.credentials.has_suite(ProofSuite::EddsaJcs2022) {
                    let reason = format!("the credential of schema {schema_id} is not presented in this form yet");
                    return Err(WriteStop::Failed(reason).into());
                }
                // It is known before a participant is paid for whether the claims can be signed.
                self.issuer.documents.check(&found).await?;
                // Without a grant nothing is signed that could not be anchored.
                let authority = authority?;
                let unused = unused_settings(json_schema, essential, configured);
                if !unused.is_empty() {
                    tracing::warn!(settings = unused.join(", "), schema_id, "the schema has no claims of these names");
                }
                let with = (&source.schema, &source.credentials);
                self.issuer.sign_and_store(&request, with, (CredentialKind::Own, form), &authority).await?
            }
        };
        self.issuer.anchor(&row).await?;
        Ok(OwnEnd::Done)
    }

    /// Gives the credentials the names of their forms: the setting may have changed since they were issued.
    async fn name_forms(&self) -> Result<(), WriteStop> {
        let store = &self.issuer.account.store;
        let stored = store.held_credentials().await?;
        for one in stored.iter().filter(|one| matches!(one.kind, CredentialKind::Own | CredentialKind::Received)) {
            let body = one.json();
            let plain = plain_name(&one.name);
            let is_other = |other: &&StoredCredential| other.kind != CredentialKind::Schema && other.id != one.id;
            let found = FoundForm {
                suite: proof_suite(&body),
                is_own: one.kind == CredentialKind::Own,
                has_second: self.issuer.has_form(&body["credentialSubject"], CredentialForm::Second),
                is_free: !stored.iter().filter(is_other).any(|other| plain_name(&other.name) == plain),
            };
            match self.issuer.proofs.change_of(&one.name, found) {
                Some(FormChange::Rename(form)) => store.rename_credential(one, &form.name(plain)).await?,
                Some(FormChange::Withdraw) => {
                    store.withdraw_credentials(&[(one.id.clone(), "REPLACED".to_owned())]).await?;
                }
                None => {}
            }
        }
        Ok(())
    }

    /// Takes the second form of a credential away, whose claims have one form now, once that one is presented.
    async fn end_second_form(&self, stored: &[StoredCredential], plain: &str) -> Result<(), WriteStop> {
        let is_older_main = |one: &StoredCredential| {
            let is_presented = one.kind == CredentialKind::Own && one.state == CredentialState::Anchored;
            is_presented && one.name == plain && proof_suite(&one.json()) == ProofSuite::Ed25519Signature2020
        };
        if stored.iter().any(is_older_main) {
            return Ok(());
        }
        self.end_own_form(stored, &CredentialForm::Second.name(plain), "NOT_WANTED").await
    }

    /// Withdraws the DID's own credentials of a name. One whose session was sent already waits on.
    async fn end_own_form(&self, stored: &[StoredCredential], name: &str, reason: &str) -> Result<(), WriteStop> {
        for one in stored.iter().filter(|one| one.kind == CredentialKind::Own && one.name == name) {
            if one.state == CredentialState::Anchored {
                let withdrawn = [(one.id.clone(), reason.to_owned())];
                self.issuer.account.store.withdraw_credentials(&withdrawn).await?;
            } else {
                self.issuer.give_up(one).await?;
            }
        }
        Ok(())
    }
}
