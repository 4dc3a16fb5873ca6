//! A credential that another DID has issued to this one, received as a file: judged as an indexer's verdict judges it, then presented.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::Value;
use svc_agent_core::error::{AgentPart, Refusal, RefusalCode};
use svc_agent_store::{CredentialKind, CredentialState, StoredCredential};
use svc_didcomm::protocol::credential_format::MAX_CREDENTIAL_BYTES;
use svc_trust::{
    RejectionCode, RejectionReason,
    digest::{DigestAlgorithm, anchored_digest},
};

use super::{
    issuer::{CredentialIssuer, presentation_name, proof_method},
    judge::{JudgeError, JudgedCredential},
};
use crate::{
    credential_settings::{CredentialMode, CredentialSettings, claims_digest, plain_name},
    document::proof_suite,
    keeper::MAX_PRESENTED,
    registry::{NodeRegistry, name_of},
};

fn invalid(code: RejectionCode, message: &str) -> Refusal {
    Refusal::of_member(RefusalCode::InvalidInput, "credential", format!("{}: {message}", code.as_str()))
}

/// The refusal of a credential that no verdict would accept.
fn refusal_of(reason: &RejectionReason) -> Refusal {
    if reason.is_undecided() {
        let message = format!("{}: {}", reason.code.as_str(), reason.message);
        return Refusal { retry_after: Some(5), ..Refusal::new(RefusalCode::ResolverUnavailable, message) };
    }
    invalid(reason.code, &reason.message)
}

/// Judges a credential, and stores it in place of the one of the same schema.
pub async fn import(
    issuer: &CredentialIssuer,
    settings: &CredentialSettings,
    credential: Value,
    not_before: Option<i128>,
) -> Result<StoredCredential, Refusal> {
    let account = &issuer.account;
    let body = credential.to_string();
    if body.len() > MAX_CREDENTIAL_BYTES {
        let message = format!("it has {} bytes; at most {MAX_CREDENTIAL_BYTES} are taken", body.len());
        return Err(invalid(RejectionCode::TooLarge, &message));
    }
    // The id is text of its issuer, and stands in logs and lists.
    let is_plain = |id: &&str| !id.is_empty() && id.len() <= 2_048 && id.bytes().all(|byte| byte.is_ascii_graphic());
    let id = credential["id"].as_str().filter(is_plain);
    let id = id.ok_or_else(|| invalid(RejectionCode::CredentialInvalid, "it has no id that is a URL"))?.to_owned();
    let judged = JudgedCredential {
        subject: &account.did,
        credential: &credential,
        own_document: Arc::new(issuer.keeper.published().served_json()),
        assumed_digest: None,
        known_schema: None,
        not_before,
    };
    let unavailable = |error: String| Refusal {
        waiting: vec![AgentPart::Node],
        retry_after: Some(5),
        ..Refusal::new(RefusalCode::ResolverUnavailable, format!("the registry cannot be read: {error}"))
    };
    let accepted = issuer.judge.judge(account, judged).await.map_err(|error| match error {
        JudgeError::Rejected(reason) => refusal_of(&reason),
        JudgeError::Node(error) => unavailable(error.to_string()),
    })?;
    if accepted.issuer == account.did {
        return Err(invalid(
            RejectionCode::CredentialInvalid,
            "this DID has issued it, which is presented without an import",
        ));
    }
    let schema =
        NodeRegistry(account).schema(accepted.schema_id).await.map_err(|error| unavailable(error.to_string()))?;
    let schema = schema.ok_or_else(|| invalid(RejectionCode::SchemaUnknown, "the registry has no such schema"))?;
    let plain = presentation_name(&schema, &issuer.judge);
    check_mode(settings, &plain, &accepted.issuer)?;
    let name = settings.proofs.form_of(proof_suite(&credential)).name(&plain);
    let store_failed =
        |error: svc_agent_store::AgentStoreError| Refusal::not_ready(AgentPart::Store, error.to_string(), 5);
    let held = account.store.held_credentials().await.map_err(store_failed)?;
    let presented = held.iter().filter(|one| one.kind != CredentialKind::Schema).map(|one| one.name.as_str());
    // Those that the agent issues itself keep their places.
    if !has_place(own_names(settings).into_iter().chain(presented), &plain) {
        let message = format!("{MAX_PRESENTED} credentials are presented, and indexers look at no more; remove one");
        return Err(Refusal::new(RefusalCode::InvalidState, message));
    }
    let algorithm = DigestAlgorithm::from_name(&schema.schema.digest_algorithm);
    let digest = algorithm.and_then(|algorithm| anchored_digest(&credential, algorithm)).unwrap_or_default();
    let claims = accepted.subject.as_object().cloned().unwrap_or_default();
    let until = accepted.valid_until.map(|until| i64::try_from(until.div_euclid(1_000_000_000)).unwrap_or(i64::MAX));
    let row = StoredCredential {
        id,
        kind: CredentialKind::Received,
        name,
        schema_id: accepted.schema_id,
        issuer: accepted.issuer,
        subject: account.did.clone(),
        issuer_participant: accepted.issuer_participant_id,
        digest,
        claims_digest: claims_digest(&claims),
        proof_method: proof_method(&credential),
        body,
        state: CredentialState::Anchored,
        reason: None,
        tx_hash: None,
        valid_until: until,
        created_at: account.chain_time().seconds,
    };
    if !account.store.replace_received(&row).await.map_err(store_failed)? {
        let message = format!("another credential of the store has the id {:?}", row.id);
        return Err(invalid(RejectionCode::CredentialInvalid, &message));
    }
    tracing::info!(credential = row.id, issuer = row.issuer, schema = row.schema_id, "a credential was imported");
    Ok(row)
}

/// Whether a credential of this name may stand beside the presented ones. Both forms of one have one place.
fn has_place<'a>(presented: impl Iterator<Item = &'a str>, plain: &str) -> bool {
    let others: BTreeSet<&str> = presented.map(plain_name).filter(|name| *name != plain).collect();
    others.len() < MAX_PRESENTED
}

/// The names of the credentials that the agent issues itself.
fn own_names(settings: &CredentialSettings) -> BTreeSet<&'static str> {
    match &settings.mode {
        CredentialMode::Standalone { claims } => claims.keys().map(|essential| name_of(*essential)).collect(),
        CredentialMode::Delegated { .. } | CredentialMode::Off => BTreeSet::new(),
    }
}

/// The service credential is that of the mode: the agent's own, or the parent's.
fn check_mode(settings: &CredentialSettings, name: &str, issuer: &str) -> Result<(), Refusal> {
    match &settings.mode {
        CredentialMode::Standalone { .. } if name == "service" => {
            let message = "AGENT_MODE is standalone: the agent issues its service credential itself";
            Err(Refusal::new(RefusalCode::InvalidState, message))
        }
        CredentialMode::Delegated { parent, .. } if name == "service" && issuer != parent => {
            let message = format!("{issuer} has issued it; AGENT_DELEGATED_PARENT_VS_DID is {parent}");
            Err(invalid(RejectionCode::ParentNotTrusted, &message))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credential_settings::CredentialForm;

    #[test]
    fn a_credential_has_a_place_while_fewer_others_are_presented_than_indexers_look_at() {
        let names = |count: usize| (0..count).map(|place| format!("schema-{place}")).collect::<Vec<_>>();
        for (count, name, expected) in [
            (0, "schema-x", true),
            (MAX_PRESENTED - 1, "schema-x", true),
            (MAX_PRESENTED, "schema-x", false),
            // It takes the place of itself.
            (MAX_PRESENTED, "schema-0", true),
            (MAX_PRESENTED + 1, "schema-0", false),
        ] {
            let main = names(count);
            let second: Vec<String> = main.iter().map(|plain| CredentialForm::Second.name(plain)).collect();
            assert_eq!(has_place(main.iter().map(String::as_str), name), expected, "{count} {name}");
            assert_eq!(
                has_place(main.iter().chain(&second).map(String::as_str), name),
                expected,
                "{count} in both forms"
            );
        }
    }

    #[test]
    fn a_server_that_does_not_answer_is_asked_again_and_evidence_that_is_wrong_is_not() {
        for (code, expected) in [
            (RejectionCode::DidUnresolvable, RefusalCode::ResolverUnavailable),
            (RejectionCode::ResourceUnavailable, RefusalCode::ResolverUnavailable),
            (RejectionCode::TooLarge, RefusalCode::InvalidInput),
            (RejectionCode::DigestNotAnchored, RefusalCode::InvalidInput),
            (RejectionCode::ProofInvalid, RefusalCode::InvalidInput),
        ] {
            let refused = refusal_of(&RejectionReason::new(code, "detail"));
            let is_repeated = expected == RefusalCode::ResolverUnavailable;
            assert_eq!((refused.code, refused.retry_after.is_some()), (expected, is_repeated), "{code:?}");
        }
    }
}
