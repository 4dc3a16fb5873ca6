//! The amino JSON of messages (`SIGN_MODE_LEGACY_AMINO_JSON`): the text that a wallet with a hardware key shows and signs.
//!
//! Names follow the packages, but for those that were shortened to forty characters. Fields with their default value are left out, but
//! for those that are declared otherwise.

use prost::Message as _;
use prost_reflect::{DynamicMessage, MapKey, ReflectMessage, Value as Reflected};
use prost_types::{Any, Timestamp};
use serde_json::{Map, Value, json};

use super::registry::{ProtoRegistry, ProtoRegistryError};
use crate::{
    amino_json::amino_json,
    proto::cosmos::tx::v1beta1::{Fee, TxBody},
    timestamp,
    tx::SigningContext,
};

/// Names that are not `<package>/x/<module>/<message>`, by module and message.
const SHORT_NAMES: [(&str, &str); 13] = [
    ("cs.MsgCreateSchemaAuthorizationPolicy", "MsgCreateSchemaAuthPolicy"),
    ("cs.MsgIncreaseActiveSchemaAuthorizationPolicyVersion", "MsgIncSchemaAuthPolicyVer"),
    ("cs.MsgRevokeSchemaAuthorizationPolicy", "MsgRevokeSchemaAuthPolicy"),
    ("pp.MsgSetParticipantOPToValidated", "MsgSetPartOPValidated"),
    ("pp.MsgCancelParticipantOPLastRequest", "MsgCancelPartOPLastReq"),
    ("pp.MsgSetParticipantEffectiveUntil", "MsgSetPartEffectiveUntil"),
    ("pp.MsgCreateOrUpdateParticipantSession", "MsgCreateOrUpdatePartSess"),
    ("pp.MsgSlashParticipantTrustDeposit", "MsgSlashParticipantTD"),
    ("pp.MsgRepayParticipantSlashedTrustDeposit", "MsgRepayPartSlashedTD"),
    ("de.MsgGrantOperatorAuthorization", "MsgGrantOpAuthorization"),
    ("de.MsgRevokeOperatorAuthorization", "MsgRevokeOpAuthorization"),
    ("xr.MsgGrantExchangeRateAuthorization", "MsgGrantXrAuthz"),
    ("xr.MsgRevokeExchangeRateAuthorization", "MsgRevokeXrAuthz"),
];

/// Names of the SDK's types, by full name.
const SDK_NAMES: [(&str, &str); 20] = [
    ("cosmos.bank.v1beta1.MsgSend", "cosmos-sdk/MsgSend"),
    ("cosmos.feegrant.v1beta1.AllowedMsgAllowance", "cosmos-sdk/AllowedMsgAllowance"),
    ("cosmos.feegrant.v1beta1.BasicAllowance", "cosmos-sdk/BasicAllowance"),
    ("cosmos.feegrant.v1beta1.MsgGrantAllowance", "cosmos-sdk/MsgGrantAllowance"),
    ("cosmos.feegrant.v1beta1.MsgRevokeAllowance", "cosmos-sdk/MsgRevokeAllowance"),
    ("cosmos.feegrant.v1beta1.PeriodicAllowance", "cosmos-sdk/PeriodicAllowance"),
    ("cosmos.gov.v1.MsgDeposit", "cosmos-sdk/v1/MsgDeposit"),
    ("cosmos.gov.v1.MsgSubmitProposal", "cosmos-sdk/v1/MsgSubmitProposal"),
    ("cosmos.gov.v1.MsgVote", "cosmos-sdk/v1/MsgVote"),
    ("cosmos.gov.v1.MsgVoteWeighted", "cosmos-sdk/v1/MsgVoteWeighted"),
    ("cosmos.group.v1.MsgExec", "cosmos-sdk/group/MsgExec"),
    ("cosmos.group.v1.MsgSubmitProposal", "cosmos-sdk/group/MsgSubmitProposal"),
    ("cosmos.group.v1.MsgUpdateGroupMembers", "cosmos-sdk/MsgUpdateGroupMembers"),
    ("cosmos.group.v1.MsgUpdateGroupMetadata", "cosmos-sdk/MsgUpdateGroupMetadata"),
    ("cosmos.group.v1.MsgUpdateGroupPolicyDecisionPolicy", "cosmos-sdk/MsgUpdateGroupDecisionPolicy"),
    ("cosmos.group.v1.MsgUpdateGroupPolicyMetadata", "cosmos-sdk/MsgUpdateGroupPolicyMetadata"),
    ("cosmos.group.v1.MsgVote", "cosmos-sdk/group/MsgVote"),
    ("cosmos.group.v1.MsgWithdrawProposal", "cosmos-sdk/group/MsgWithdrawProposal"),
    ("cosmos.group.v1.PercentageDecisionPolicy", "cosmos-sdk/PercentageDecisionPolicy"),
    ("cosmos.group.v1.ThresholdDecisionPolicy", "cosmos-sdk/ThresholdDecisionPolicy"),
];

/// Fields that are there with their default value too, by the full name without the namespace.
const ALWAYS_THERE: [&str; 28] = [
    "co.v1.MsgCreateCorporation.members",
    "cosmos.bank.v1beta1.MsgSend.amount",
    "cosmos.feegrant.v1beta1.BasicAllowance.spend_limit",
    "cosmos.feegrant.v1beta1.PeriodicAllowance.basic",
    "cosmos.feegrant.v1beta1.PeriodicAllowance.period",
    "cosmos.feegrant.v1beta1.PeriodicAllowance.period_can_spend",
    "cosmos.feegrant.v1beta1.PeriodicAllowance.period_reset",
    "cosmos.feegrant.v1beta1.PeriodicAllowance.period_spend_limit",
    "cosmos.gov.v1.MsgDeposit.amount",
    "cosmos.gov.v1.MsgSubmitProposal.initial_deposit",
    "cosmos.group.v1.DecisionPolicyWindows.min_execution_period",
    "cosmos.group.v1.DecisionPolicyWindows.voting_period",
    "cosmos.group.v1.MsgUpdateGroupMembers.member_updates",
    "pp.v1.MsgCreateOrUpdateParticipantSession.agent_participant_id",
    "pp.v1.MsgCreateOrUpdateParticipantSession.wallet_agent_participant_id",
    "pp.v1.MsgCreateRootParticipant.issuance_fees",
    "pp.v1.MsgCreateRootParticipant.validation_fees",
    "pp.v1.MsgCreateRootParticipant.verification_fees",
    "pp.v1.MsgCreateRootParticipant.vs_operator_authz_fee_spend_limit",
    "pp.v1.MsgCreateRootParticipant.vs_operator_authz_spend_limit",
    "pp.v1.MsgSelfCreateParticipant.validator_participant_id",
    "pp.v1.MsgSelfCreateParticipant.vs_operator_authz_fee_spend_limit",
    "pp.v1.MsgSelfCreateParticipant.vs_operator_authz_spend_limit",
    "pp.v1.MsgSetParticipantOPToValidated.issuance_fees",
    "pp.v1.MsgSetParticipantOPToValidated.op_summary_digest",
    "pp.v1.MsgSetParticipantOPToValidated.validation_fees",
    "pp.v1.MsgSetParticipantOPToValidated.verification_fees",
    "pp.v1.MsgStartParticipantOP.validator_participant_id",
];
/// Those of the same kind that a list above has no room for by name: spend limits of an application, and parameters.
fn is_always_there(local: &str) -> bool {
    ALWAYS_THERE.binary_search(&local).is_ok()
        || local.ends_with(".MsgUpdateParams.params")
        || local.starts_with("pp.v1.MsgStartParticipantOP.vs_operator_authz_") && local.ends_with("spend_limit")
}

impl ProtoRegistry {
    /// The bytes that a signer signs: the amino JSON of the transaction. `fee` and `sequence` are those of its `AuthInfo`.
    ///
    /// # Errors
    /// For a message without an amino name, and for bytes that are no such message.
    pub fn amino_sign_bytes(
        &self,
        body: &TxBody,
        fee: &Fee,
        sequence: u64,
        context: &SigningContext,
    ) -> Result<Vec<u8>, ProtoRegistryError> {
        let messages: Vec<Value> =
            body.messages.iter().map(|message| self.amino_any(message)).collect::<Result<_, _>>()?;
        let amount: Vec<Value> =
            fee.amount.iter().map(|coin| json!({"amount": coin.amount, "denom": coin.denom})).collect();
        let mut paid = json!({"amount": amount, "gas": fee.gas_limit.to_string()});
        for (name, account) in [("granter", &fee.granter), ("payer", &fee.payer)] {
            if !account.is_empty() {
                paid[name] = account.as_str().into();
            }
        }
        let mut document = json!({
            "account_number": context.account_number.to_string(), "chain_id": context.chain_id, "fee": paid, "memo": body.memo,
            "msgs": messages, "sequence": sequence.to_string(),
        });
        if body.timeout_height > 0 {
            document["timeout_height"] = body.timeout_height.to_string().into();
        }
        Ok(amino_json(&document).into_bytes())
    }

    /// The amino name of a message.
    pub fn amino_name(&self, full_name: &str) -> Option<String> {
        let word = self.namespace().as_str();
        let Some(local) = full_name.strip_prefix(word).and_then(|rest| rest.strip_prefix('.')) else {
            let found = SDK_NAMES.binary_search_by_key(&full_name, |(name, _)| name).ok()?;
            return Some(SDK_NAMES[found].1.to_owned());
        };
        let (module, message) = local.split_once(".v1.")?;
        let key = format!("{module}.{message}");
        let short = SHORT_NAMES.iter().find(|(name, _)| *name == key).map_or(message, |(_, short)| short);
        Some(format!("{word}/x/{module}/{short}"))
    }

    fn amino_any(&self, packed: &Any) -> Result<Value, ProtoRegistryError> {
        let descriptor = self.message_descriptor(&packed.type_url)?;
        let name = descriptor.full_name().to_owned();
        let unnamed = || ProtoRegistryError::UnknownType(format!("{name}, which has no amino name"));
        let amino = self.amino_name(&name).ok_or_else(unnamed)?;
        let message = DynamicMessage::decode(descriptor, packed.value.as_slice())
            .map_err(|error| ProtoRegistryError::Bytes { type_name: name.clone(), reason: error.to_string() })?;
        Ok(json!({"type": amino, "value": self.amino_message(&message)?}))
    }

    fn amino_message(&self, message: &DynamicMessage) -> Result<Value, ProtoRegistryError> {
        let descriptor = message.descriptor();
        let number = |name: &str| message.get_field_by_name(name).and_then(|value| value.as_i64()).unwrap_or_default();
        let nanos = message.get_field_by_name("nanos").and_then(|value| value.as_i32()).unwrap_or_default();
        match descriptor.full_name() {
            "google.protobuf.Timestamp" => {
                return Ok(timestamp::rfc3339_nanos(&Timestamp { seconds: number("seconds"), nanos }).into());
            }
            "google.protobuf.Duration" => {
                let all = i128::from(number("seconds")) * 1_000_000_000 + i128::from(nanos);
                return Ok(all.to_string().into());
            }
            "google.protobuf.Any" => {
                let packed = Any::decode(message.encode_to_vec().as_slice())
                    .map_err(|error| ProtoRegistryError::Descriptors(error.to_string()))?;
                return self.amino_any(&packed);
            }
            _ => {}
        }
        let word = format!("{}.", self.namespace().as_str());
        let mut members = Map::new();
        for field in descriptor.fields() {
            let full = field.full_name();
            let is_kept = is_always_there(full.strip_prefix(&word).unwrap_or(full));
            if message.has_field(&field) || is_kept {
                let value = self.amino_value(&message.get_field(&field))?;
                members.insert(field.name().to_owned(), value);
            }
        }
        Ok(Value::Object(members))
    }

    fn amino_value(&self, value: &Reflected) -> Result<Value, ProtoRegistryError> {
        use base64::{Engine, engine::general_purpose::STANDARD};
        Ok(match value {
            Reflected::Bool(flag) => (*flag).into(),
            Reflected::I32(number) => (*number).into(),
            Reflected::U32(number) => (*number).into(),
            Reflected::EnumNumber(number) => (*number).into(),
            // Numbers of 64 bits are texts.
            Reflected::I64(number) => number.to_string().into(),
            Reflected::U64(number) => number.to_string().into(),
            Reflected::F32(number) => (*number).into(),
            Reflected::F64(number) => (*number).into(),
            Reflected::String(text) => text.as_str().into(),
            Reflected::Bytes(bytes) => STANDARD.encode(bytes).into(),
            Reflected::Message(inner) => self.amino_message(inner)?,
            Reflected::List(items) => {
                Value::Array(items.iter().map(|item| self.amino_value(item)).collect::<Result<_, _>>()?)
            }
            Reflected::Map(entries) => {
                let mut members = Map::new();
                for (key, item) in entries {
                    if let MapKey::String(name) = key {
                        members.insert(name.clone(), self.amino_value(item)?);
                    }
                }
                Value::Object(members)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto_registry::Namespace;

    fn registry() -> ProtoRegistry {
        ProtoRegistry::compiled(&Namespace::compiled()).expect("descriptors")
    }

    #[test]
    fn names_and_kept_fields_are_those_of_the_contract() {
        let registry = registry();
        let contract = include_str!("../../tests/fixtures/messages.json");
        let contract: Value = serde_json::from_str(contract).expect("JSON");
        let mut named = 0;
        for message in contract["messages"].as_array().expect("a list") {
            if message["kind"] != "msg_request" {
                continue;
            }
            let full = message["name"].as_str().expect("a name");
            assert_eq!(registry.amino_name(full).as_deref(), message["amino_name"].as_str(), "{full}");
            named += 1;
            for field in message["fields"].as_array().expect("a list") {
                let notes = field["notes"].as_array().map(Vec::as_slice).unwrap_or_default();
                let name = format!("{}.{}", full.trim_start_matches("svc."), field["name"].as_str().expect("a name"));
                assert_eq!(is_always_there(&name), notes.contains(&"amino_dont_omitempty".into()), "{name}");
            }
        }
        assert_eq!(named, 45);
        assert!(ALWAYS_THERE.is_sorted() && SDK_NAMES.is_sorted());
    }

    /// The form that CosmJS documents for a payment.
    #[test]
    fn a_payment_has_the_text_that_wallets_sign() {
        let registry = registry();
        let sent = json!({"from_address": "a", "to_address": "b", "amount": [{"denom": "usvc", "amount": "5"}]});
        let message = Any {
            type_url: "/cosmos.bank.v1beta1.MsgSend".into(),
            value: registry.encode("cosmos.bank.v1beta1.MsgSend", &sent).expect("encodes"),
        };
        let body = TxBody { messages: vec![message], memo: "<hi>".into(), timeout_height: 9, ..TxBody::default() };
        let coin = crate::proto::cosmos::base::v1beta1::Coin { denom: "usvc".into(), amount: "7".into() };
        let fee = Fee { amount: vec![coin], gas_limit: 200_000, ..Fee::default() };
        let context = SigningContext { chain_id: "c".into(), account_number: 3 };
        let bytes = registry.amino_sign_bytes(&body, &fee, 4, &context).expect("a document");
        assert_eq!(
            String::from_utf8(bytes).expect("a text"),
            concat!(
                r#"{"account_number":"3","chain_id":"c","fee":{"amount":[{"amount":"7","denom":"usvc"}],"gas":"200000"},"#,
                r#""memo":"\u003chi\u003e","msgs":[{"type":"cosmos-sdk/MsgSend","value":{"amount":[{"amount":"5","denom":"usvc"}],"#,
                r#""from_address":"a","to_address":"b"}}],"sequence":"4","timeout_height":"9"}"#
            )
        );
    }

    #[test]
    fn values_have_their_amino_form() {
        let registry = registry();
        let value = |name: &str, given: Value| {
            let packed = Any { type_url: format!("/{name}"), value: registry.encode(name, &given).expect("encodes") };
            registry.amino_any(&packed).expect("a value")["value"].clone()
        };
        let validated = value(
            "svc.pp.v1.MsgSetParticipantOPToValidated",
            json!({"corporation": "c", "id": "7", "effective_until": "2031-01-01T00:00:00.5Z"}),
        );
        assert_eq!(
            validated,
            json!({"corporation": "c", "id": "7", "effective_until": "2031-01-01T00:00:00.5Z", "validation_fees": "0",
                "issuance_fees": "0", "verification_fees": "0", "op_summary_digest": ""})
        );
        let founded = value(
            "svc.co.v1.MsgCreateCorporation",
            json!({"signer": "s", "decision_policy": {"@type": "/cosmos.group.v1.PercentageDecisionPolicy", "percentage": "0.5",
                "windows": {"voting_period": "60s"}}}),
        );
        assert_eq!(
            founded["decision_policy"],
            json!({"type": "cosmos-sdk/PercentageDecisionPolicy", "value": {"percentage": "0.5",
                "windows": {"voting_period": "60000000000", "min_execution_period": "0"}}})
        );
        assert_eq!(founded["members"], json!([]));
    }
}
