//! The record of a flow as callers and the receiver of events see it.

use serde_json::{Map, Value, json};
use svc_didcomm::flow::{FlowRecord, FlowTx, Notice, Validation, Variant};

use crate::time_text::millis_text;

/// Parts of a discount that are one.
const DISCOUNT_PARTS: f64 = 10_000.0;

/// A message that went out, and of which nothing says whether it arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnansweredMessage {
    /// Id of the message.
    pub id: String,
    /// Its type, a URI.
    pub kind: String,
    /// Time of its first sending, in seconds since the epoch.
    pub since: i64,
}

/// The record as JSON. Members without a value are left out. `now` is in milliseconds since the epoch.
pub fn flow_json(record: &FlowRecord, now: i64) -> Value {
    let id_text = |id: Option<u64>| id.map(|id| id.to_string());
    let credential = record.credential.as_ref();
    let variant = match record.variant {
        Variant::Onboarding => "onboarding-process",
        Variant::Direct => "direct-issuance",
    };
    let messages: Vec<Value> = record
        .messages
        .iter()
        .map(|kept| {
            without_nulls(json!({
                "type": kept.kind.as_str(), "text": kept.text, "at": millis_text(kept.at), "url": kept.url,
            }))
        })
        .collect();
    let link = record.oob_link.as_ref().map(|link| {
        without_nulls(json!({
            "url": link.url,
            "description": link.description,
            "expiresAt": link.expires_at.map(millis_text),
            "at": millis_text(link.at),
        }))
    });
    let blocked = record
        .blocked
        .as_ref()
        .map(|Notice { code, text, at }| json!({"reason": code, "since": millis_text(*at), "text": text}));
    let refusal = record
        .refusal
        .as_ref()
        .map(|Notice { code, text, at }| json!({"code": code, "text": text, "at": millis_text(*at)}));
    let digest = credential.and_then(|one| one.digest.clone());
    without_nulls(json!({
        "id": record.id,
        "role": if record.side == svc_didcomm::flow::Side::Applicant { "applicant" } else { "validator" },
        "variant": variant,
        "peerDid": record.peer_did,
        "applicantParticipantId": id_text(record.applicant_participant_id),
        "validatorParticipantId": id_text(record.validator_participant_id),
        "schemaId": record.schema_id.to_string(),
        "participantSessionId": record.session_id,
        "previousSessionIds": record.previous_session_ids,
        "flowState": record.state.as_str(),
        "connectionState": record.connection_state.as_str(),
        "pendingAction": record.pending_action(now).as_str(),
        "round": record.round.number,
        "lastEventAt": millis_text(record.last_event_at),
        "claims": record.claims,
        "proofs": record.proofs,
        "oobLink": link,
        "messages": messages,
        "validation": record.validation.as_ref().map(|validation| validation_json(validation, record.is_holder)),
        "issuance": credential.and_then(|one| one.tx.as_ref()).map(|tx| json!({"tx": tx_json(tx)})),
        "credentialId": credential.and_then(|one| one.id.clone()),
        "credentialDigest": digest,
        // Names of an older text, which its callers read.
        "participantId": id_text(record.applicant_participant_id),
        "oobLinkUrl": record.oob_link.as_ref().map(|link| &link.url),
        "digestJCS": digest,
        "threadId": record.thread_id,
        "connectionId": record.connection_id,
        "subprotocolThid": record.exchange.as_ref().map(|exchange| exchange.thread.clone()),
        "blocked": blocked,
        "refusal": refusal,
        "errorMessage": record.error_message,
        "createdAt": millis_text(record.created_at),
        "updatedAt": millis_text(record.updated_at),
    }))
}

/// A message of a flow of which nothing says whether it arrived.
pub fn unanswered_json(message: &UnansweredMessage) -> Value {
    json!({"messageId": message.id, "type": message.kind, "since": millis_text(message.since.saturating_mul(1000))})
}

fn validation_json(validation: &Validation, is_holder: bool) -> Value {
    let (fees, terms) = (validation.fees, validation.terms);
    let time = |seconds: Option<i64>| seconds.map(|seconds| millis_text(seconds.saturating_mul(1000)));
    let discount = |parts: u64| parts as f64 / DISCOUNT_PARTS;
    without_nulls(json!({
        "decidedAt": millis_text(validation.decided_at),
        "submission": validation.submission.as_str(),
        "fees": {
            "validationFees": fees.validation_fees,
            "issuanceFees": fees.issuance_fees,
            "verificationFees": fees.verification_fees,
            "issuanceFeeDiscount": discount(fees.issuance_fee_discount),
            "verificationFeeDiscount": discount(fees.verification_fee_discount),
        },
        "effectiveUntil": time(validation.effective_until),
        "opSummaryDigest": validation.op_summary_digest,
        // The chain takes none for a HOLDER.
        "opSummaryDigestSent": (is_holder && validation.op_summary_digest.is_some()).then_some(false),
        "credentialValidFrom": time(terms.valid_from),
        "credentialValidUntil": time(terms.valid_until),
        "presentAsLinkedVp": terms.present_as_linked_vp,
        "tx": validation.tx.as_ref().map(tx_json),
    }))
}

fn tx_json(tx: &FlowTx) -> Value {
    without_nulls(json!({
        "status": tx.status.as_str(), "hash": tx.hash, "height": tx.height, "reason": tx.reason, "error": tx.error,
    }))
}

fn without_nulls(value: Value) -> Value {
    let Value::Object(members) = value else { return value };
    Value::Object(members.into_iter().filter(|(_, value)| !value.is_null()).collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use svc_didcomm::flow::{
        CredentialStage, CredentialTerms, Fees, FlowCredential, FlowState, KeptKind, KeptMessage, OobLink, Submission,
        TxStatus,
    };

    use super::{super::testing::direct_validation, *};

    #[test]
    fn a_record_has_the_members_of_the_contract_and_none_without_a_value() {
        let record = direct_validation(1_000);
        assert_eq!(
            flow_json(&record, 1_000),
            json!({
                "id": "f", "role": "validator", "variant": "direct-issuance", "peerDid": "did:web:a",
                "validatorParticipantId": "3", "schemaId": "4", "participantSessionId": "s", "previousSessionIds": [],
                "flowState": "VALIDATING", "connectionState": "ESTABLISHED", "pendingAction": "VALIDATOR", "round": 1,
                "lastEventAt": "1970-01-01T00:00:01.000Z", "messages": [], "threadId": "t", "connectionId": "c",
                "createdAt": "1970-01-01T00:00:01.000Z", "updatedAt": "1970-01-01T00:00:01.000Z",
            })
        );

        let at = Some(5_000);
        let link = OobLink { url: "https://a".into(), description: "d".into(), expires_at: at, at: 2_000 };
        let kept = KeptMessage { kind: KeptKind::OobLink, text: "d".into(), at: 2_000, url: Some("https://a".into()) };
        let tx = FlowTx {
            status: TxStatus::Failed,
            hash: Some("AB".into()),
            height: Some(7),
            reason: Some("TX_FAILED".into()),
            error: Some("code 5".into()),
        };
        let full = FlowRecord {
            state: FlowState::CredOffered,
            oob_link: Some(link),
            messages: vec![kept],
            claims: json!({"name": "n"}).as_object().cloned(),
            validation: Some(Validation {
                decided_at: 3_000,
                submission: Submission::Agent,
                fees: Fees { issuance_fees: 12, issuance_fee_discount: 2_500, ..Fees::default() },
                effective_until: Some(9),
                op_summary_digest: None,
                terms: CredentialTerms::default(),
                attempts: 1,
                tx: None,
            }),
            credential: Some(FlowCredential {
                round: 1,
                session_id: "s".into(),
                round_changed_at: None,
                paid_before: 0,
                validated_until: None,
                stage: CredentialStage::Signed,
                id: Some("did:web:v#1".into()),
                digest: Some("sha384-x".into()),
                tx: Some(tx),
            }),
            blocked: Some(Notice { code: "NO_FEES".into(), text: "no coins".into(), at: 4_000 }),
            ..record
        };
        let shown = flow_json(&full, 4_000);
        assert_eq!(shown["validation"]["fees"]["issuanceFeeDiscount"], json!(0.25));
        assert_eq!(shown["validation"]["effectiveUntil"], "1970-01-01T00:00:09.000Z");
        assert_eq!(shown["oobLink"]["expiresAt"], "1970-01-01T00:00:05.000Z");
        let message = json!({"type": "oob-link", "text": "d", "at": "1970-01-01T00:00:02.000Z", "url": "https://a"});
        assert_eq!(shown["messages"], json!([message]));
        let failed = json!({"status": "FAILED", "hash": "AB", "height": 7, "reason": "TX_FAILED", "error": "code 5"});
        assert_eq!(shown["issuance"], json!({"tx": failed}));
        let blocked = json!({"reason": "NO_FEES", "since": "1970-01-01T00:00:04.000Z", "text": "no coins"});
        assert_eq!((&shown["blocked"], &shown["credentialDigest"]), (&blocked, &json!("sha384-x")));
    }
}
