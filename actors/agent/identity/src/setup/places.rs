//! The places of the participants that the DID needs: their schemas, and the participants under which they are made.

use prost_types::Timestamp;
use svc_agent_core::participant::state_of;
use svc_trust::EssentialCredential;
use svc_wire::{
    participant_state::ParticipantState,
    proto::svc::{
        cs::v1::IssuerOnboardingMode,
        pp::v1::{Participant, ParticipantRole},
    },
    timestamp,
};

use super::{
    facts::{GapEnd, MissingPlace, ParticipantPlace, WantedParticipant},
    options::SetupOptions,
    place_gap::{PlaceGap, choose},
    source::{SESSION, SetupSource, TRIGGER},
};
use crate::{
    account_write::WriteStop,
    credential_settings::CredentialMode,
    registry::{EssentialSource, SchemaOnChain},
};

/// Messages that the record of an ISSUER lists.
const ISSUER_MESSAGES: [&str; 2] = [SESSION, "MsgSetParticipantOPToValidated"];

/// The reason for which a participant has no place.
enum PlaceError {
    /// The place is not known.
    Gap(PlaceGap),
    /// The registry cannot be read.
    Unread(WriteStop),
}

impl PlaceError {
    /// The reason for the setup. Fails when the registry could not be read.
    fn into_missing(self) -> Result<MissingPlace, WriteStop> {
        match self {
            Self::Gap(gap) => Ok(gap.into()),
            Self::Unread(stop) => Err(stop),
        }
    }
}

impl From<PlaceGap> for PlaceError {
    fn from(gap: PlaceGap) -> Self {
        Self::Gap(gap)
    }
}

impl<S: Into<WriteStop>> From<S> for PlaceError {
    fn from(stop: S) -> Self {
        Self::Unread(stop.into())
    }
}

impl SetupSource<'_> {
    async fn essential(&self, essential: EssentialCredential) -> Result<EssentialSource, MissingPlace> {
        let found =
            self.sources.essential(self.account, self.ecosystems, (essential, self.essential_schemas), None).await;
        match found {
            Ok(Some(source)) => Ok(source),
            Ok(None) => {
                let wanted = (essential, self.essential_schemas);
                Err(PlaceGap::from(self.registry().missing_schema(self.ecosystems, wanted).await).into())
            }
            Err(stop) => {
                let (kind, reason) = (essential.as_str(), stop.reason().into_owned());
                Err(PlaceGap::Unreadable { kind, reason, is_own: self.has_own_ecosystem() }.into())
            }
        }
    }

    /// Whether the agent's DID is that of an ecosystem whose schemas it uses.
    fn has_own_ecosystem(&self) -> bool {
        self.ecosystems.contains(&self.account.did)
    }

    /// The ISSUER participant of an essential schema.
    pub(super) async fn want_issuer(
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
            Ok(source) => match self.issuer_place(source.schema, participants, now).await {
                Ok(place) => Ok(place),
                Err(error) => Err(error.into_missing()?),
            },
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
    ) -> Result<ParticipantPlace, PlaceError> {
        let role = match schema.schema.issuer_onboarding_mode() {
            IssuerOnboardingMode::GrantorOnboardingProcess => ParticipantRole::IssuerGrantor,
            _ => ParticipantRole::Ecosystem,
        };
        let id = schema.schema.id;
        if let Some(validator) = self.known_validator(participants, ParticipantRole::Issuer, &[id], now).await? {
            return Ok(self.place(schema, validator, ParticipantRole::Issuer).await?);
        }
        let all = self.registry().participants_of(id, role).await?;
        let next = next_to_begin(&all, now);
        let mut found = usable(all, now);
        // Of several roots of one ecosystem the one that lasts longest is as good as each other.
        if role == ParticipantRole::Ecosystem {
            found.sort_by_key(|one| one.effective_until.map_or(i64::MAX, |until| until.seconds));
            found.drain(..found.len().saturating_sub(1));
        }
        let kind = format!("{} participant of schema {id}", role.as_str_name());
        let is_own_root = role == ParticipantRole::Ecosystem && schema.ecosystem_did == self.account.did;
        let validator = choose(found, &kind, "apply to one of them").map_err(|gap| match gap {
            PlaceGap::Participant { .. } if next.is_none() && is_own_root => PlaceGap::OwnRoot { schema: id },
            gap => gap.until(next.as_ref()),
        })?;
        Ok(self.place(schema, validator, ParticipantRole::Issuer).await?)
    }

    /// The HOLDER participant by which the document is resolved again, and by which others issue credentials to the DID.
    pub(super) async fn want_holder(
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
            let place = match self.named_place(id, now).await {
                Ok(place) => Ok(place),
                Err(error) => Err(error.into_missing()?),
            };
            return Ok(wanted(place, Vec::new(), true));
        }
        let (essential, issuer) = match self.mode {
            CredentialMode::Delegated { parent, .. } => (EssentialCredential::Service, Some(parent.as_str())),
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
            issuer.is_none_or(|issuer| one.did == issuer && !usable(vec![one.clone()], now).is_empty())
        };
        if let Some(validator) = known.filter(is_right) {
            let schema = self.registry().schema(validator.schema_id).await?.unwrap_or(source.schema);
            let place = self.place(schema, validator, ParticipantRole::Holder).await?;
            return Ok(wanted(Ok(place), schemas, issuer.is_some()));
        }
        let mut all = self.registry().participants_of(id, ParticipantRole::Issuer).await?;
        all.retain(|one| issuer.is_none_or(|issuer| one.did == issuer));
        let next = next_to_begin(&all, now);
        let mut found = usable(all, now);
        if issuer.is_some() {
            found.truncate(1);
        }
        let of_issuer = issuer.map(|issuer| format!(" with the DID {issuer}")).unwrap_or_default();
        let kind = format!("ISSUER participant of schema {id}{of_issuer}");
        let place = match choose(found, &kind, "choose with --apply-to") {
            Ok(validator) => Ok(self.place(source.schema, validator, ParticipantRole::Holder).await?),
            Err(gap) => {
                let missing = MissingPlace::from(gap.until(next.as_ref()));
                // The DID becomes that issuer by a step before this one.
                let is_own = is_complete_alone && missing.end == GapEnd::Other;
                Err(if is_own { MissingPlace { end: GapEnd::Operator, ..missing } } else { missing })
            }
        };
        Ok(wanted(place, schemas, issuer.is_some()))
    }

    /// The place under a participant that a person has named.
    async fn named_place(&self, id: u64, now: &Timestamp) -> Result<ParticipantPlace, PlaceError> {
        let found = self.registry().participant(id).await?;
        let is_issuer = |one: &Participant| one.role() == ParticipantRole::Issuer;
        let usable = usable(found.into_iter().filter(is_issuer).collect(), now);
        let Some(validator) = usable.into_iter().next() else {
            return Err(PlaceGap::NamedInactive { id }.into());
        };
        let Some(schema) = self.registry().schema(validator.schema_id).await? else {
            return Err(PlaceGap::NamedWithoutSchema { id }.into());
        };
        Ok(self.place(schema, validator, ParticipantRole::Holder).await?)
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
}

/// The participant that is the next one to begin.
fn next_to_begin(found: &[Participant], now: &Timestamp) -> Option<Participant> {
    let nanos = timestamp::unix_nanos(now);
    let later = found.iter().filter(|one| state_of(one, nanos) == ParticipantState::Future);
    later.min_by_key(|one| one.effective_from.as_ref().map(timestamp::unix_nanos)).cloned()
}

/// The participants that are active at the node.
fn usable(found: Vec<Participant>, now: &Timestamp) -> Vec<Participant> {
    let now = timestamp::unix_nanos(now);
    found.into_iter().filter(|one| state_of(one, now) == ParticipantState::Active).collect()
}
