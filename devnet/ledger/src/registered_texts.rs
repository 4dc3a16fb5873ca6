//! The registered text of each error code of the registry's modules: a wrapped error is its detail, and this text behind it.

/// Codespace, code and text, in the order of both.
const TEXTS: [(&str, u32, &str); 101] = [
    ("co", 1100, "expected gov account as only signer"),
    ("co", 1101, "signing account is not the policy_address of a registered Corporation"),
    ("co", 1102, "DID is already registered by another Corporation"),
    ("co", 1103, "policy_address is already bound to an existing Corporation"),
    ("co", 1104, "invalid BCP 47 language tag"),
    ("co", 1105, "invalid URL"),
    ("co", 1106, "invalid digest_sri"),
    ("co", 1107, "invalid decision_policy"),
    ("co", 1108, "invalid members list"),
    ("co", 1109, "invalid DID syntax"),
    ("co", 1110, "corporation not found"),
    ("co", 1111, "invalid corporation timestamp"),
    ("co", 1112, "invalid active_version"),
    ("co", 1113, "invalid corporation_counter"),
    ("co", 1114, "did is claimed by an entity owned by a different corporation"),
    ("cs", 1100, "expected gov account as only signer for proposal message"),
    ("cs", 1102, "credential schema not found"),
    ("cs", 1103, "invalid JSON schema"),
    ("de", 1100, "expected gov account as only signer for proposal message"),
    ("de", 1101, "invalid or non-delegable message type"),
    ("de", 1102, "expiration must be in the future"),
    (
        "de",
        1103,
        "VSOperatorAuthorization already exists for this corporation/grantee pair; mutual exclusivity violated",
    ),
    ("de", 1104, "invalid spend limit"),
    ("de", 1105, "operator authorization not found for this corporation/operator pair"),
    ("de", 1106, "operator authorization has expired"),
    ("de", 1107, "operator authorization does not include requested message type"),
    ("de", 1108, "operator authorization spend limit exceeded"),
    ("de", 1109, "operator authorization not found for this corporation/grantee pair"),
    (
        "de",
        1110,
        "OperatorAuthorization already exists for this corporation/vs_operator pair; mutual exclusivity violated",
    ),
    ("de", 1111, "response_max_size must be between 1 and 1024"),
    ("de", 1112, "a ParticipantAuthorizationRecord already exists for this participant_id; must be globally unique"),
    (
        "de",
        1113,
        "vs_operator already has a VSOperatorAuthorization from a different corporation; single-corp constraint violated",
    ),
    ("de", 1114, "VS operator authorization not found"),
    ("de", 1115, "VS operator authorization record does not enable fee grant"),
    ("de", 1116, "participant is not an active participant"),
    ("de", 1117, "fee_spend_limit must be set and strictly positive iff with_feegrant is true"),
    ("di", 1100, "expected gov account as only signer for proposal message"),
    ("di", 1101, "digest must not be empty"),
    ("di", 1102, "delegation keeper is required but not set"),
    ("di", 1103, "digest already exists"),
    ("ec", 1100, "expected gov account as authority for proposal message"),
    ("ec", 1101, "ecosystem not found"),
    ("ec", 1102, "signing account is not the policy_address of a registered Corporation"),
    ("ec", 1103, "signing corporation does not control this ecosystem"),
    ("ec", 1104, "did already bound to an ecosystem controlled by a different corporation"),
    ("ec", 1105, "ecosystem already in target archive state"),
    ("ec", 1106, "invalid DID"),
    ("ec", 1107, "invalid language tag"),
    ("ec", 1108, "invalid URL"),
    ("ec", 1109, "invalid digest_sri"),
    ("ec", 1110, "invalid subject id"),
    ("ec", 1111, "invalid ecosystem timestamp"),
    ("gf", 1100, "expected gov account as only signer"),
    ("gf", 1101, "invalid GF subject: must be either ecosystem_id or corporation"),
    ("gf", 1102, "GF subject not found"),
    ("gf", 1103, "signing corporation is not the controller of the target subject"),
    ("gf", 1104, "invalid governance framework version"),
    ("gf", 1105, "invalid BCP 47 language tag"),
    ("gf", 1106, "invalid URL"),
    ("gf", 1107, "invalid digest_sri"),
    ("gf", 1108, "no governance framework version available to activate"),
    ("gf", 1109, "no document found for the default language of this version"),
    ("poa", 2, "expected council authority as signer"),
    ("poa", 3, "address is not a council member"),
    ("poa", 4, "max validators reached"),
    ("poa", 5, "address already has a validator with bonded tokens"),
    ("poa", 6, "address has delegations"),
    ("poa", 7, "address is not a validator"),
    ("poa", 8, "invalid validator status"),
    ("poa", 9, "staking message not allowed under proof of authority"),
    ("poa", 10, "genesis validator bond must equal the fixed council bond"),
    ("poa", 11, "cannot remove the last bonded validator"),
    ("poa", 12, "message would break the council's self-administration"),
    ("pp", 1100, "expected gov account as only signer for proposal message"),
    ("pp", 1101, "sample error"),
    ("pp", 1102, "did is controlled by a different corporation"),
    ("td", 1100, "expected gov account as only signer for proposal message"),
    ("td", 1101, "sample error"),
    ("td", 1103, "invalid amount"),
    ("td", 1104, "trust deposit not found"),
    ("td", 1105, "insufficient trust deposit"),
    ("xr", 1100, "expected gov account as only signer for proposal message"),
    ("xr", 1101, "invalid pricing asset type"),
    ("xr", 1102, "invalid asset value"),
    ("xr", 1103, "invalid rate"),
    ("xr", 1104, "rate_scale must be <= 18"),
    ("xr", 1105, "validity_duration must be >= 1 minute"),
    ("xr", 1106, "exchange rate pair already exists"),
    ("xr", 1107, "base and quote asset pair must not be identical"),
    ("xr", 1108, "exchange rate not found"),
    ("xr", 1109, "exchange rate is not active"),
    ("xr", 1110, "exchange rate is expired"),
    ("xr", 1111, "invalid amount"),
    ("xr", 1112, "invalid request"),
    ("xr", 1113, "exchange rate authorization not found"),
    ("xr", 1114, "exchange rate authorization is expired"),
    ("xr", 1115, "exchange rate updated too soon (min_interval not elapsed)"),
    ("xr", 1116, "exchange rate change exceeds max_deviation_bps"),
    ("xr", 1117, "expiration must be in the future"),
    ("xr", 1118, "max_deviation_bps must be in range (0, 10000]"),
    ("xr", 1119, "min_interval must be a strictly positive duration"),
];

/// The registered text of a code; nothing for codes of other codespaces.
pub fn registered_text(codespace: &str, code: u32) -> Option<&'static str> {
    let found = TEXTS.binary_search_by_key(&(codespace, code), |(codespace, code, _)| (codespace, *code)).ok()?;
    Some(TEXTS[found].2)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn the_texts_are_those_of_the_contract() {
        let contract = include_str!("../../../wire/tests/fixtures/errors.json");
        let contract: Value = serde_json::from_str(contract).expect("JSON");
        let mut known = 0;
        let rows = |name: &str| contract[name].as_array().expect("a list").iter();
        for row in rows("modules").chain(rows("newer")) {
            let Some(text) = row["text"].as_str() else { continue };
            let code = u32::try_from(row["code"].as_u64().expect("a code")).expect("small");
            assert_eq!(registered_text(row["codespace"].as_str().expect("a codespace"), code), Some(text), "{row}");
            known += 1;
        }
        assert_eq!(known, TEXTS.len());
        assert_eq!(registered_text("sdk", 5), None);
    }
}
