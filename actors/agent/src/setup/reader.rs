//! Reads the facts of a setup at the node and in the store.

use std::collections::BTreeMap;

use prost_types::Timestamp;
use svc_pipeline::{FeeBudget, query_account, query_balance, query_fee_allowance};
use svc_trust::{EssentialCredential, EssentialSchemas};
use svc_wire::{
    participant_state::ParticipantState,
    proto::svc::{
        cs::v1::IssuerOnboardingMode,
        de::v1::{
            ParticipantAuthorizationRecord, QueryListOperatorAuthorizationsRequest,
            QueryListOperatorAuthorizationsResponse, QueryListVsOperatorAuthorizationsRequest,
            QueryListVsOperatorAuthorizationsResponse,
        },
        pp::v1::{Participant, ParticipantRole},
    },
    timestamp,
};

use super::{
    SetupOptions,
    facts::{
        AccountFacts, CredentialFacts, CredentialProgress, MissingPlace, ParticipantPlace, SchemaCredentialFacts,
        SetupFacts, WantedParticipant,
    },
    plan::plan,
    step::Setup,
};
use crate::{
    account_write::{WriteStop, WritingAccount},
    credentials::CredentialMode,
    grant::{AgentAccount, read_corporation_account},
    participant::state_of,
    registry::{EssentialSource, NodeRegistry, SchemaOnChain, SchemaSources, name_of},
    store::{CredentialKind, CredentialState, StoredCredential},
};

const TRIGGER: &str = "MsgTriggerResolver";
const ISSUER_MESSAGES: [&str; 2] = ["MsgCreateOrUpdateParticipantSession", "MsgSetParticipantOPToValidated"];
/// Participants that a reason names.
const MAX_NAMED: usize = 8;

/// The agent's account, its settings, and the state of its credentials.
pub(crate) struct SetupSource<'a> {
    pub account: &'a WritingAccount,
    pub sources: &'a SchemaSources,
    pub essential_schemas: &'a EssentialSchemas,
    pub mode: &'a CredentialMode,
    pub ecosystems: &'a [String],
    /// The reasons for which credentials wait, by the names of their presentations.
    pub waiting: BTreeMap<String, String>,
}

/// Compares the needs of the DID with the node.
pub(crate) async fn read_setup(source: &SetupSource<'_>, options: &SetupOptions) -> Result<Setup, WriteStop> {
    Ok(plan(&source.read(options).await?, options))
}

fn missing(reason: impl Into<String>) -> MissingPlace {
    MissingPlace { reason: reason.into(), is_operators: false, corporation_id: None }
}

fn own_choice(reason: impl Into<String>) -> MissingPlace {
    MissingPlace { is_operators: true, ..missing(reason) }
}

impl SetupSource<'_> {
    fn registry(&self) -> NodeRegistry<'_> {
        NodeRegistry(self.account)
    }

    fn corporation_id(&self) -> u64 {
        self.account.corporation_id
    }

    fn type_urls(&self, messages: &[&str]) -> Vec<String> {
        let namespace = self.account.access.chain.registry.namespace();
        messages.iter().map(|message| namespace.type_url("pp", message)).collect()
    }

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
        let of_schemas = held.iter().filter(|one| one.kind == CredentialKind::Schema);
        let schema_credentials = of_schemas.map(|one| SchemaCredentialFacts {
            schema_id: one.schema_id,
            digest: one.digest.clone(),
            is_anchored: one.state == CredentialState::Anchored,
        });
        Ok(SetupFacts {
            agent: AgentAccount { did: self.account.did.clone(), corporation_id: self.corporation_id(), address },
            now,
            clock,
            denom: self.account.access.chain.params.denom.clone(),
            account,
            participants,
            records,
            wanted,
            credentials,
            schema_credentials: schema_credentials.collect(),
        })
    }

    /// The records of the account for the corporation, and another corporation that it acts for.
    async fn read_records(
        &self,
        address: &str,
    ) -> Result<(Vec<ParticipantAuthorizationRecord>, Option<u64>), WriteStop> {
        let request = QueryListVsOperatorAuthorizationsRequest {
            corporation_id: 0,
            vs_operator: address.to_owned(),
            response_max_size: NodeRegistry::LIST_LIMIT,
        };
        let rpc = ("de", "ListVSOperatorAuthorizations");
        let found: QueryListVsOperatorAuthorizationsResponse = self.registry().query(rpc, &request).await?;
        let all = found.vs_operator_authorizations.into_iter().filter(|one| one.vs_operator == address);
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
            response_max_size: NodeRegistry::LIST_LIMIT,
        };
        let rpc = ("de", "ListOperatorAuthorizations");
        let operators: QueryListOperatorAuthorizationsResponse = self.registry().query(rpc, &request).await?;
        let operators = operators.operator_authorizations.into_iter().filter(|one| one.operator == address);
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
                credentials.push(CredentialFacts { name: name.to_owned(), state });
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
                let found = names.into_iter().find_map(|name| Some((name, presented(name)?)));
                let (name, state) = found.unwrap_or_else(|| (names[0], awaited(None)));
                credentials.push(CredentialFacts { name: name.to_owned(), state });
            }
            CredentialMode::Delegated { parent } => {
                let name = name_of(EssentialCredential::Service);
                let state = presented(name).unwrap_or_else(|| awaited(Some(parent.clone())));
                credentials.push(CredentialFacts { name: name.to_owned(), state });
            }
            CredentialMode::Standalone { .. } | CredentialMode::Off => {}
        }
        Ok((wanted, credentials))
    }

    async fn essential(&self, essential: EssentialCredential) -> Result<EssentialSource, MissingPlace> {
        let found =
            self.sources.essential(self.account, self.ecosystems, (essential, self.essential_schemas), None).await;
        match found {
            Ok(Some(source)) => Ok(source),
            Ok(None) => Err(missing(format!(
                "no ecosystem of TRUSTED_ECS_ECOSYSTEM_DIDS has a schema of {} in use",
                essential.as_str()
            ))),
            Err(stop) => {
                Err(missing(format!("the schema of {} cannot be read: {}", essential.as_str(), stop.reason())))
            }
        }
    }

    /// The ISSUER participant of an essential schema.
    async fn want_issuer(
        &self,
        name: &str,
        essential: EssentialCredential,
        participants: &[Participant],
        now: &Timestamp,
    ) -> Result<WantedParticipant, WriteStop> {
        let source = self.essential(essential).await;
        let schemas = source.as_ref().map(|source| vec![source.schema.schema.id]).unwrap_or_default();
        let place = match source {
            Err(reason) => Err(reason),
            Ok(source) => self.issuer_place(source.schema, participants, now).await?,
        };
        // Without a schema no participant can be the wanted one.
        let schemas = if schemas.is_empty() { vec![0] } else { schemas };
        Ok(WantedParticipant {
            id: format!("{name}-issuer"),
            role: ParticipantRole::Issuer,
            msg_types: self.type_urls(&ISSUER_MESSAGES),
            place,
            schemas,
            is_validator_fixed: false,
        })
    }

    async fn issuer_place(
        &self,
        schema: SchemaOnChain,
        participants: &[Participant],
        now: &Timestamp,
    ) -> Result<Result<ParticipantPlace, MissingPlace>, WriteStop> {
        let role = match schema.schema.issuer_onboarding_mode() {
            IssuerOnboardingMode::GrantorOnboardingProcess => ParticipantRole::IssuerGrantor,
            _ => ParticipantRole::Ecosystem,
        };
        let id = schema.schema.id;
        if let Some(validator) = self.known_validator(participants, ParticipantRole::Issuer, &[id], now).await? {
            return Ok(Ok(self.place(schema, validator, ParticipantRole::Issuer).await?));
        }
        let mut found = self.usable(self.registry().participants_of(id, role).await?, now);
        // Of several roots of one ecosystem the one that lasts longest is as good as each other.
        if role == ParticipantRole::Ecosystem {
            found.sort_by_key(|one| one.effective_until.map_or(i64::MAX, |until| until.seconds));
            found.drain(..found.len().saturating_sub(1));
        }
        match choose(found, &format!("{} participant of schema {id}", role.as_str_name()), "apply to one of them") {
            Ok(validator) => Ok(Ok(self.place(schema, validator, ParticipantRole::Issuer).await?)),
            Err(reason) => Ok(Err(reason)),
        }
    }

    /// The HOLDER participant by which the document is resolved again, and by which others issue credentials to the DID.
    async fn want_holder(
        &self,
        options: &SetupOptions,
        is_complete_alone: bool,
        participants: &[Participant],
        now: &Timestamp,
    ) -> Result<WantedParticipant, WriteStop> {
        let wanted = |place, schemas, is_validator_fixed| WantedParticipant {
            id: "holder".to_owned(),
            role: ParticipantRole::Holder,
            msg_types: self.type_urls(&[TRIGGER]),
            place,
            schemas,
            is_validator_fixed,
        };
        if let Some(id) = options.apply_to {
            return Ok(wanted(self.named_place(id, now).await?, Vec::new(), true));
        }
        let (essential, issuer) = match self.mode {
            CredentialMode::Delegated { parent } => (EssentialCredential::Service, Some(parent.as_str())),
            _ if is_complete_alone => (EssentialCredential::Service, Some(self.account.did.as_str())),
            _ => (EssentialCredential::Organization, None),
        };
        let source = match self.essential(essential).await {
            Ok(source) => source,
            Err(reason) => return Ok(wanted(Err(reason), vec![0], false)),
        };
        let id = source.schema.schema.id;
        let mut schemas = vec![id];
        if issuer.is_none()
            && let Ok(persona) = self.essential(EssentialCredential::Persona).await
        {
            schemas.push(persona.schema.schema.id);
        }
        let known = self.known_validator(participants, ParticipantRole::Holder, &schemas, now).await?;
        // A credential of another issuer, or of one that has ended, would not be that of the mode.
        let is_right = |one: &Participant| {
            issuer.is_none_or(|issuer| one.did == issuer && !self.usable(vec![one.clone()], now).is_empty())
        };
        if let Some(validator) = known.filter(is_right) {
            let schema = self.registry().schema(validator.schema_id).await?.unwrap_or(source.schema);
            let place = self.place(schema, validator, ParticipantRole::Holder).await?;
            return Ok(wanted(Ok(place), schemas, issuer.is_some()));
        }
        let mut found = self.usable(self.registry().participants_of(id, ParticipantRole::Issuer).await?, now);
        found.retain(|one| issuer.is_none_or(|issuer| one.did == issuer));
        if issuer.is_some() {
            found.truncate(1);
        }
        let of_issuer = issuer.map(|issuer| format!(" with the DID {issuer}")).unwrap_or_default();
        let kind = format!("ISSUER participant of schema {id}{of_issuer}");
        let place = match choose(found, &kind, "choose with --apply-to") {
            Ok(validator) => Ok(self.place(source.schema, validator, ParticipantRole::Holder).await?),
            // The DID becomes that issuer by a step before this one.
            Err(reason) if is_complete_alone => Err(MissingPlace { is_operators: true, ..reason }),
            Err(reason) => Err(reason),
        };
        Ok(wanted(place, schemas, issuer.is_some()))
    }

    /// The place under a participant that a person has named.
    async fn named_place(&self, id: u64, now: &Timestamp) -> Result<Result<ParticipantPlace, MissingPlace>, WriteStop> {
        let found = self.registry().participant(id).await?;
        let is_issuer = |one: &Participant| one.role() == ParticipantRole::Issuer;
        let usable = self.usable(found.into_iter().filter(is_issuer).collect(), now);
        let Some(validator) = usable.into_iter().next() else {
            return Ok(Err(own_choice(format!(
                "participant {id} is no active ISSUER participant; --apply-to names it"
            ))));
        };
        let Some(schema) = self.registry().schema(validator.schema_id).await? else {
            return Ok(Err(own_choice(format!("participant {id} has no schema; --apply-to names it"))));
        };
        Ok(Ok(self.place(schema, validator, ParticipantRole::Holder).await?))
    }

    async fn place(
        &self,
        schema: SchemaOnChain,
        validator: Participant,
        role: ParticipantRole,
    ) -> Result<ParticipantPlace, WriteStop> {
        let mut siblings = self.registry().participants_under(validator.id, role).await?;
        siblings.retain(|one| one.corporation_id == self.corporation_id());
        Ok(ParticipantPlace { schema: schema.schema, validator, siblings })
    }

    /// The validator of the newest participant of the DID that is not over.
    async fn known_validator(
        &self,
        participants: &[Participant],
        role: ParticipantRole,
        schemas: &[u64],
        now: &Timestamp,
    ) -> Result<Option<Participant>, WriteStop> {
        let is_over = |one: &Participant| {
            let state = state_of(one, timestamp::unix_nanos(now));
            !matches!(state, ParticipantState::Active | ParticipantState::Future | ParticipantState::Inactive)
        };
        let known = participants.iter().filter(|one| {
            one.role() == role
                && one.corporation_id == self.corporation_id()
                && schemas.contains(&one.schema_id)
                && !is_over(one)
        });
        match known.max_by_key(|one| one.id) {
            Some(known) => Ok(self.registry().participant(known.validator_participant_id).await?),
            None => Ok(None),
        }
    }

    fn usable(&self, found: Vec<Participant>, now: &Timestamp) -> Vec<Participant> {
        let now = timestamp::unix_nanos(now);
        let is_usable =
            |one: &Participant| one.effective_from.is_some() && state_of(one, now) == ParticipantState::Active;
        found.into_iter().filter(is_usable).collect()
    }
}

/// The only one of several participants. `kind` says which were looked for, and `choice` how one of several is chosen.
fn choose(mut found: Vec<Participant>, kind: &str, choice: &str) -> Result<Participant, MissingPlace> {
    if found.len() > 1 {
        let named: Vec<String> = found.iter().take(MAX_NAMED).map(|one| format!("{} ({})", one.id, one.did)).collect();
        let count = found.len();
        return Err(own_choice(format!("the registry has {count} active {kind}: {choice}: {}", named.join(", "))));
    }
    found.pop().ok_or_else(|| missing(format!("the registry has no active {kind}")))
}
