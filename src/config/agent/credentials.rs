//! The credentials of an agent: the party that issues them, the ecosystems whose schemas count, and the claims.

use svc_agent::{ClaimSettings, CredentialMode, CredentialSettings, OWN_DID, PublishedProofs};
use svc_trust::EssentialCredential;

use super::claims::read_claims;
use crate::config::{
    environment::{Environment, EnvironmentReader},
    essential::read_essential_schemas,
};

const PARENT: &str = "AGENT_DELEGATED_PARENT_VS_DID";
const DID: &str = "a DID of the method web or webvh";
const DIDS: &str = "a comma-separated list of DIDs of the methods web and webvh, or self for this agent's; one or more in mode standalone";
/// Longest DID, in bytes.
const MAX_DID_BYTES: usize = 2_048;
const MAX_DAYS: u32 = 3_650;

/// Reads the credentials, and the claims.
pub(super) fn read_credentials<E: Environment>(
    reader: &mut EnvironmentReader<'_, E>,
    warnings: &mut Vec<String>,
) -> Option<(CredentialSettings, ClaimSettings)> {
    let is_delegated = reader.read_parsed("AGENT_MODE", "standalone, delegated", Some(false), |text| match text {
        "standalone" => Some(false),
        "delegated" => Some(true),
        _ => None,
    });
    let no_ecosystems = Some(Vec::new()).filter(|_| is_delegated != Some(false));
    let trusted_ecosystems = reader.read_parsed("TRUSTED_ECS_ECOSYSTEM_DIDS", DIDS, no_ecosystems, parse_ecosystems);
    let essential_schemas = read_essential_schemas(reader);
    let (days, renew_days) = read_days(reader);
    let (mode, claims) = match is_delegated {
        None => (None, None),
        Some(true) => {
            let parent = reader.read_parsed(PARENT, DID, None, parse_did);
            // The parent is asked for a credential with these claims.
            let claims = read_claims(reader, warnings, ClaimSettings::new());
            let of_service = |all: &ClaimSettings| all.get(&EssentialCredential::Service).cloned().unwrap_or_default();
            let mode = parent.zip(claims.as_ref().map(of_service));
            (mode.map(|(parent, claims)| CredentialMode::Delegated { parent, claims }), claims)
        }
        Some(false) => {
            if reader.environment.get(PARENT).is_some() {
                warnings.push(format!("{PARENT} is not used: AGENT_MODE is standalone"));
            }
            // The form alone is known before the schemas are read.
            let service = ClaimSettings::from([(EssentialCredential::Service, Default::default())]);
            let claims = read_claims(reader, warnings, service);
            (claims.clone().map(|claims| CredentialMode::Standalone { claims }), claims)
        }
    };
    let (trusted_ecosystems, known) = (trusted_ecosystems?, essential_schemas?);
    let essential_schemas = if known.is_empty() { known.in_ecosystems(trusted_ecosystems.clone()) } else { known };
    let proofs = reader.read_parsed(
        "PUBLISHED_PROOFS",
        "ed25519-2020, data-integrity, both",
        Some(PublishedProofs::Ed25519Signature2020),
        PublishedProofs::parse,
    );
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
    let days = reader.read_parsed(
        "AGENT_CREDENTIAL_DAYS",
        &format!("days, 1 to {MAX_DAYS}"),
        Some(CredentialSettings::DEFAULT_DAYS),
        |text| text.parse().ok().filter(|days| (1..=MAX_DAYS).contains(days)),
    );
    let variable = "AGENT_CREDENTIAL_RENEW_DAYS";
    let allowed = "days, fewer than those of AGENT_CREDENTIAL_DAYS";
    let renew_days = reader
        .read_parsed(variable, allowed, Some(CredentialSettings::DEFAULT_RENEW_DAYS), |text| text.parse::<u32>().ok());
    if let (Some(days), Some(renew_days)) = (days, renew_days)
        && renew_days >= days
    {
        reader.add_problem(variable, format!("{renew_days}, and AGENT_CREDENTIAL_DAYS is {days}"), allowed);
    }
    (days, renew_days)
}

fn parse_ecosystems(text: &str) -> Option<Vec<String>> {
    text.split(',')
        .map(str::trim)
        .map(|did| if did == OWN_DID { Some(did.to_owned()) } else { parse_did(did) })
        .collect()
}

/// Parses a DID that the agent can resolve.
fn parse_did(text: &str) -> Option<String> {
    let id = text.strip_prefix("did:web:").or_else(|| text.strip_prefix("did:webvh:"))?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-:%".contains(&byte);
    let is_did = !id.is_empty() && text.len() <= MAX_DID_BYTES && id.bytes().all(is_plain);
    is_did.then(|| text.to_owned())
}
