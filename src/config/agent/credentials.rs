//! The credentials of an agent: the party that issues them, the ecosystems whose schemas count, and the claims.

use svc_agent::{ClaimSettings, CredentialMode, CredentialSettings, OWN_DID, PublishedProofs};
use svc_trust::EssentialCredential;

use super::claims::read_claims;
use crate::{
    config::{
        dids::parse_did,
        environment::{Environment, EnvironmentReader},
        essential::read_essential_schemas,
    },
    settings::agent::{self, AGENT_DELEGATED_PARENT_VS_DID},
};

/// Reads the credentials, and the claims.
pub(super) fn read_credentials<E: Environment>(
    reader: &mut EnvironmentReader<'_, E>,
    warnings: &mut Vec<String>,
) -> Option<(CredentialSettings, ClaimSettings)> {
    let is_delegated = reader.read_choice(agent::AGENT_MODE, "delegated");
    let no_ecosystems = Some(Vec::new()).filter(|_| is_delegated != Some(false));
    let ecosystems = agent::TRUSTED_ECS_ECOSYSTEM_DIDS;
    let trusted_ecosystems =
        reader.read_allowed(ecosystems, &ecosystems.kind.allowed(), no_ecosystems, parse_ecosystems);
    let essential_schemas = read_essential_schemas(reader);
    let (days, renew_days) = read_days(reader);
    let (mode, claims) = match is_delegated {
        None => (None, None),
        Some(true) => {
            let parent = reader.read(AGENT_DELEGATED_PARENT_VS_DID, parse_did);
            // The parent is asked for a credential with these claims.
            let claims = read_claims(reader, warnings, ClaimSettings::new());
            let of_service = |all: &ClaimSettings| all.get(&EssentialCredential::Service).cloned().unwrap_or_default();
            let mode = parent.zip(claims.as_ref().map(of_service));
            (mode.map(|(parent, claims)| CredentialMode::Delegated { parent, claims }), claims)
        }
        Some(false) => {
            if reader.get(AGENT_DELEGATED_PARENT_VS_DID).is_some() {
                let (parent, mode) = (AGENT_DELEGATED_PARENT_VS_DID.name, agent::AGENT_MODE.name);
                warnings.push(format!("{parent} is not used: {mode} is standalone"));
            }
            // The form alone is known before the schemas are read.
            let service = ClaimSettings::from([(EssentialCredential::Service, Default::default())]);
            let claims = read_claims(reader, warnings, service);
            (claims.clone().map(|claims| CredentialMode::Standalone { claims }), claims)
        }
    };
    let (trusted_ecosystems, known) = (trusted_ecosystems?, essential_schemas?);
    let essential_schemas = if known.is_empty() { known.in_ecosystems(trusted_ecosystems.clone()) } else { known };
    let proofs = reader.read(agent::PUBLISHED_PROOFS, PublishedProofs::parse);
    let settings = CredentialSettings {
        proofs: proofs?,
        mode: mode?,
        trusted_ecosystems,
        essential_schemas,
        days: days?,
        renew_days: renew_days?,
    };
    Some((settings, claims?))
}

/// Reads the longest validity, and the days of the renewal before its end.
fn read_days<E: Environment>(reader: &mut EnvironmentReader<'_, E>) -> (Option<u32>, Option<u32>) {
    let (setting, all_days) = (agent::AGENT_CREDENTIAL_RENEW_DAYS, agent::AGENT_CREDENTIAL_DAYS);
    let (days, renew_days) = (reader.read_number(all_days), reader.read_number(setting));
    if let (Some(days), Some(renew_days)) = (days, renew_days)
        && renew_days >= days
    {
        reader.refuse(setting, format!("{renew_days}, and {} is {days}", all_days.name));
    }
    (days, renew_days)
}

fn parse_ecosystems(text: &str) -> Option<Vec<String>> {
    text.split(',')
        .map(str::trim)
        .map(|did| if did == OWN_DID { Some(did.to_owned()) } else { parse_did(did) })
        .collect()
}
