//! Reads the facts of a setup at the node and in the store.

use std::collections::BTreeSet;

use prost_types::Timestamp;
use svc_agent_core::grant::AgentAccount;
use svc_agent_store::{CredentialKind, CredentialState, StoredCredential};
use svc_net::upstream::{LIST_LIMIT, NodeClientError, require_whole};
use svc_pipeline::{FeeBudget, query_account, query_balance, query_fee_allowance};
use svc_trust::EssentialCredential;
use svc_wire::proto::svc::{
    de::v1::{
        ParticipantAuthorizationRecord, QueryListOperatorAuthorizationsRequest, QueryListOperatorAuthorizationsResponse,
    },
    pp::v1::Participant,
};

use super::{
    facts::{AccountFacts, CredentialFacts, CredentialProgress, SchemaCredentialFacts, SetupFacts, WantedParticipant},
    options::SetupOptions,
    plan::plan,
    source::{SetupSource, TRIGGER},
    step::Setup,
};
use crate::{
    account_write::WriteStop,
    credential_settings::{CredentialForm, CredentialMode, MAX_SCHEMAS},
    grant::{read_authorizations, read_corporation_account},
    registry::{SchemaOnChain, name_of},
};

/// Compares the needs of the DID with the node.
pub(crate) async fn read_setup(source: &SetupSource<'_>, options: &SetupOptions) -> Result<Setup, WriteStop> {
    Ok(plan(&source.read(options).await?, options))
}

impl SetupSource<'_> {
    async fn read(&self, options: &SetupOptions) -> Result<SetupFacts, WriteStop> {
        let address = self.account.pipeline().identity().address.to_string();
        // A simulation judges by the newest block: a participant that begins behind it has not begun.
        let clock = self.account.chain_time();
        let now = self.account.pipeline().clock().head_time().unwrap_or(clock);
        let participants = self.registry().participants(&self.account.did).await?;
        let (records, serves) = self.read_records(&address).await?;
        let account = self.read_account(&address, &records, serves, &now).await?;
        let held = self.account.store.held_credentials().await?;
        let (wanted, credentials) = self.read_wanted(options, &participants, &held, &now).await?;
        let schema_credentials = self.read_schema_credentials(&held).await?;
        let not_taken = self.not_taken(&wanted);
        Ok(SetupFacts {
            agent: AgentAccount { did: self.account.did.clone(), corporation_id: self.corporation_id(), address },
            now,
            clock,
            block_interval: self.account.pipeline().clock().interval(),
            denom: self.account.access.chain.params.denom.clone(),
            generation: self.account.pipeline().release().generation,
            account,
            participants,
            records,
            wanted,
            credentials,
            not_taken,
            schema_credentials,
        })
    }

    /// The messages of the wanted records that the node does not take, each with the reason.
    fn not_taken(&self, wanted: &[WantedParticipant]) -> Vec<(String, String)> {
        let release = self.account.pipeline().release();
        let types: BTreeSet<&String> = wanted.iter().flat_map(|one| &one.msg_types).collect();
        let name_of = |url: &str| url.rsplit('.').next().unwrap_or(url).to_owned();
        types.into_iter().filter_map(|url| Some((name_of(url), release.problem_of(url)?))).collect()
    }

    /// The credentials of the schemas of own ecosystems. The node is asked for a digest first: another tool may have stored it, and it would
    /// be paid for a second time.
    async fn read_schema_credentials(
        &self,
        held: &[StoredCredential],
    ) -> Result<Vec<SchemaCredentialFacts>, WriteStop> {
        let on_chain = self.registry().own_schemas().await?;
        let mut found = Vec::new();
        for one in held.iter().filter(|one| one.kind == CredentialKind::Schema) {
            let is_presented = one.state == CredentialState::Anchored;
            let is_anchored = is_presented || self.registry().anchored_at(&one.digest).await?.is_some();
            let is_it = |known: &&SchemaOnChain| known.schema.id == one.schema_id;
            let is_archived = on_chain.iter().find(is_it).is_some_and(|known| known.schema.archived.is_some());
            found.push(SchemaCredentialFacts {
                schema_id: one.schema_id,
                name: one.name.clone(),
                digest: Some(self.account.access.anchored(&one.digest)),
                is_anchored,
                is_presented,
                is_archived,
            });
        }
        let in_use = on_chain.iter().filter(|one| one.schema.archived.is_none()).take(MAX_SCHEMAS);
        let in_use = in_use.map(|one| one.schema.id);
        let unsigned: Vec<u64> = in_use.filter(|id| found.iter().all(|known| known.schema_id != *id)).collect();
        found.extend(unsigned.into_iter().map(|schema_id| SchemaCredentialFacts {
            schema_id,
            name: schema_id.to_string(),
            digest: None,
            is_anchored: false,
            is_presented: false,
            is_archived: false,
        }));
        Ok(found)
    }

    /// The records of the account for the corporation, and another corporation that it acts for.
    async fn read_records(
        &self,
        address: &str,
    ) -> Result<(Vec<ParticipantAuthorizationRecord>, Option<u64>), WriteStop> {
        let (node, chain) = (self.account.pipeline().node(), &self.account.access.chain);
        let all = read_authorizations(node, chain, 0, address).await?;
        let all = all.into_iter().filter(|one| one.vs_operator == address);
        let (own, other): (Vec<_>, Vec<_>) = all.partition(|one| one.corporation_id == self.corporation_id());
        let serves = other.first().map(|one| one.corporation_id);
        Ok((own.into_iter().flat_map(|one| one.records).collect(), serves))
    }

    async fn read_account(
        &self,
        address: &str,
        records: &[ParticipantAuthorizationRecord],
        serves: Option<u64>,
        now: &Timestamp,
    ) -> Result<AccountFacts, WriteStop> {
        let (node, chain) = (self.account.pipeline().node(), &self.account.access.chain);
        let denom = &chain.params.denom;
        let exists = query_account(node, address).await?.is_some();
        let request = QueryListOperatorAuthorizationsRequest {
            corporation_id: 0,
            operator: address.to_owned(),
            response_max_size: LIST_LIMIT,
        };
        let rpc = ("de", "ListOperatorAuthorizations");
        let operators: QueryListOperatorAuthorizationsResponse = self.registry().query(rpc, &request).await?;
        let path = chain.registry.namespace().query_path(rpc.0, rpc.1);
        let operators = require_whole(&path, operators.operator_authorizations).map_err(NodeClientError::from)?;
        let operators = operators.into_iter().filter(|one| one.operator == address);
        let corporation = read_corporation_account(node, chain, self.corporation_id()).await?;
        let has_allowance = if records.is_empty() {
            None
        } else {
            let found = query_fee_allowance(node, &corporation, address, denom).await?;
            let msg_type = chain.registry.namespace().type_url("pp", TRIGGER);
            let budget = found.and_then(|allowance| allowance.budget_for(&msg_type, now));
            Some(budget.is_some_and(|budget| budget != FeeBudget::UpTo(0)))
        };
        let coins = if exists { query_balance(node, address, denom).await? } else { 0 };
        let corporation_coins = query_balance(node, &corporation, denom).await?;
        Ok(AccountFacts {
            exists,
            operator_of: operators.map(|one| one.corporation_id).collect(),
            serves,
            coins,
            corporation,
            corporation_coins,
            has_allowance,
        })
    }

    async fn read_wanted(
        &self,
        options: &SetupOptions,
        participants: &[Participant],
        held: &[StoredCredential],
        now: &Timestamp,
    ) -> Result<(Vec<WantedParticipant>, Vec<CredentialFacts>), WriteStop> {
        let (mut wanted, mut credentials) = (Vec::new(), Vec::new());
        let presented = |name: &str| {
            let found = held.iter().find(|one| one.name == name && one.state == CredentialState::Anchored);
            found.map(|one| CredentialProgress::Presented(one.valid_until))
        };
        // That of another issuer has one form.
        let received = |name: &str| {
            let forms = [CredentialForm::Main, CredentialForm::Second];
            forms.into_iter().find_map(|form| presented(&form.name(name)))
        };
        let problems_of = |name: &str| self.claims.get(name).cloned().unwrap_or_default();
        let mut is_complete_alone = false;
        if let CredentialMode::Standalone { claims } = self.mode {
            for essential in claims.keys() {
                let name = name_of(*essential);
                wanted.push(self.want_issuer(name, *essential, participants, now).await?);
                is_complete_alone |= *essential != EssentialCredential::Service;
                let reason = self.waiting.get(name).cloned();
                let state = presented(name).unwrap_or_else(|| {
                    CredentialProgress::Issuing(reason.unwrap_or_else(|| "the agent issues it once it may".to_owned()))
                });
                credentials.push(CredentialFacts { name: name.to_owned(), state, claims: problems_of(name) });
                let second = CredentialForm::Second.name(name);
                let waits = self.waiting.get(&second).cloned().map(CredentialProgress::Issuing);
                if let Some(state) = waits.or_else(|| presented(&second)) {
                    credentials.push(CredentialFacts { name: second, state, claims: Vec::new() });
                }
            }
        }
        let holder = self.want_holder(options, is_complete_alone, participants, now).await?;
        let validator = holder.place.as_ref().ok().map(|place| place.validator.clone());
        wanted.push(holder);
        let awaited = |issuer: Option<String>| CredentialProgress::Awaited {
            issuer: issuer.or(validator.as_ref().map(|one| one.did.clone())),
            corporation_id: validator.as_ref().map(|one| one.corporation_id),
        };
        match self.mode {
            CredentialMode::Standalone { .. } if !is_complete_alone => {
                let names = [EssentialCredential::Organization, EssentialCredential::Persona].map(name_of);
                let found = names.into_iter().find_map(|name| Some((name, received(name)?)));
                let (name, state) = found.unwrap_or_else(|| (names[0], awaited(None)));
                credentials.push(CredentialFacts { name: name.to_owned(), state, claims: Vec::new() });
            }
            CredentialMode::Delegated { parent, .. } => {
                let name = name_of(EssentialCredential::Service);
                let state = received(name).unwrap_or_else(|| awaited(Some(parent.clone())));
                credentials.push(CredentialFacts { name: name.to_owned(), state, claims: problems_of(name) });
            }
            CredentialMode::Standalone { .. } | CredentialMode::Off => {}
        }
        Ok((wanted, credentials))
    }
}
