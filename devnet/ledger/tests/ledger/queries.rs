//! Queries: limits, orders, filters and error codes.

use serde_json::{Value, json};

use super::{
    participants::{start_onboarding, with_all_roles},
    test_ledger::{TestLedger, account, ecosystem},
};

/// Returns codespace and code of a refused query.
fn refusal(world: &TestLedger, path: &str, request: Value) -> (String, u32) {
    let (codespace, code, _) = world.try_query(path, request).expect_err("refused");
    (codespace, code)
}

#[test]
fn failed_queries_have_the_codes_of_abci_query() {
    let world = TestLedger::new();
    let (missing, invalid, other) = (("sdk".to_owned(), 22), ("sdk".to_owned(), 18), ("sdk".to_owned(), 6));
    for (path, request, expected) in [
        ("co.GetCorporation", json!({"corporation_id": 99}), &missing),
        ("ec.GetEcosystem", json!({"id": 99}), &missing),
        ("gf.GetGovernanceFrameworkVersion", json!({"id": 99}), &missing),
        ("gf.ListGovernanceFrameworkVersions", json!({}), &invalid),
        ("gf.ListGovernanceFrameworkVersions", json!({"ecosystem_id": 1, "corporation_id": 1}), &invalid),
        ("cs.GetCredentialSchema", json!({"id": 99}), &missing),
        ("cs.RenderJsonSchema", json!({"id": 99}), &missing),
        ("cs.GetSchemaAuthorizationPolicy", json!({"id": 99}), &missing),
        ("pp.GetParticipant", json!({"id": 99}), &other),
        ("pp.GetParticipantSession", json!({"id": "x"}), &missing),
        ("pp.FindBeneficiaries", json!({}), &invalid),
        ("pp.FindBeneficiaries", json!({"issuer_participant_id": 99}), &missing),
        ("de.GetOperatorAuthorization", json!({"id": 99}), &missing),
        ("de.GetVSOperatorAuthorization", json!({"id": 99}), &missing),
        ("di.GetDigest", json!({"digest": "sha256-AA"}), &missing),
        ("di.GetDigest", json!({}), &invalid),
        ("td.GetTrustDeposit", json!({"corporation_id": 1}), &missing),
        ("td.GetTrustDeposit", json!({}), &invalid),
        ("xr.GetExchangeRate", json!({"id": 9}), &missing),
        ("xr.GetExchangeRate", json!({"base_asset_type": "TU"}), &invalid),
        ("xr.ListExchangeRates", json!({"base_asset_type": "TU", "base_asset": "tu"}), &invalid),
        ("xr.GetPrice", json!({"amount": "0"}), &invalid),
        ("xr.GetPrice", json!({"amount": "-1"}), &invalid),
        (
            "xr.GetPrice",
            json!({"base_asset_type": "TU", "base_asset": "tu", "quote_asset_type": "COIN", "quote_asset": "usvc", "amount": "1"}),
            &missing,
        ),
        (
            "/cosmos.feegrant.v1beta1.Query/Allowance",
            json!({"granter": account("alice"), "grantee": account("bob")}),
            &other,
        ),
        ("/cosmos.auth.v1beta1.Query/Account", json!({"address": "svc1x"}), &missing),
        ("/cosmos.group.v1.Query/Proposal", json!({"proposal_id": 99}), &missing),
        ("/cosmos.gov.v1.Query/Proposal", json!({"proposal_id": 99}), &missing),
    ] {
        assert_eq!(refusal(&world, path, request.clone()), *expected, "{path} {request}");
    }
    for path in [
        "co.ListCorporations",
        "ec.ListEcosystems",
        "cs.ListCredentialSchemas",
        "pp.ListParticipants",
        "pp.ListParticipantSessions",
        "de.ListOperatorAuthorizations",
        "de.ListVSOperatorAuthorizations",
        "xr.ListExchangeRates",
    ] {
        assert_eq!(refusal(&world, path, json!({"response_max_size": 1_025})), invalid, "{path}");
        world.query(path, json!({"response_max_size": 1_024}));
    }
    let unknown = svc_ledger::query(&world.state, &world.chain, world.block(), "/svc.co.v1.Query/Nothing", &[]);
    let error = unknown.expect_err("refused");
    assert_eq!((error.codespace, error.code), ("sdk", 6));
    let malformed =
        svc_ledger::query(&world.state, &world.chain, world.block(), "/svc.co.v1.Query/GetCorporation", &[0xff]);
    assert_eq!(malformed.expect_err("refused").code, 18);
}

#[test]
fn every_query_of_the_registry_is_answered() {
    let world = TestLedger::new();
    let paths: Vec<String> = world
        .chain
        .registry
        .rpc_methods()
        .map(|rpc| rpc.path)
        .filter(|path| path.starts_with("/svc.") && path.contains("Query/"))
        .collect();
    assert_eq!(paths.len(), 34);
    for path in paths {
        let answer = svc_ledger::query(&world.state, &world.chain, world.block(), &path, &[]);
        assert!(!answer.is_err_and(|error| error.text.contains("unknown query path")), "{path}");
    }
}

#[test]
fn lists_are_limited_and_ordered() {
    let mut world = TestLedger::new();
    for index in 0..70 {
        world.send_as_operator("a", "ec.MsgCreateEcosystem", ecosystem(&format!("did:web:e{index}")));
    }
    let ids = |found: &Value, list: &str| -> Vec<String> {
        found[list]
            .as_array()
            .expect("a list")
            .iter()
            .map(|one| one["id"].as_str().expect("an id").to_owned())
            .collect()
    };
    let all = world.query("ec.ListEcosystems", json!({}));
    assert_eq!(
        (ids(&all, "ecosystems").len(), ids(&all, "ecosystems")[0].as_str()),
        (64, "1"),
        "64 by default, ascending"
    );
    // Quirk: newest first if modified_after is set; the filter is exclusive.
    let after = world.time_at(-3);
    let found = world.query("ec.ListEcosystems", json!({"modified_after": after}));
    assert_eq!(ids(&found, "ecosystems"), ["70", "69", "68"]);
    let corporations = world.query("co.ListCorporations", json!({}));
    assert_eq!(ids(&corporations, "corporations"), ["3", "2", "1"], "newest first");
}

#[test]
fn participants_are_filtered_with_the_quirks_of_the_chain() {
    let (mut world, ids) = with_all_roles(json!({}));
    let pending = start_onboarding(&mut world, "b", "HOLDER", ids.issuer, json!({}));
    let list = |world: &TestLedger, request: Value| -> Vec<u64> {
        let found = world.query("pp.ListParticipants", request);
        let found = found["participants"].as_array().expect("a list").iter();
        found.map(|one| one["id"].as_str().expect("an id").parse().expect("a number")).collect()
    };
    assert_eq!(list(&world, json!({"participant_id": ids.grantor})), [ids.issuer], "the validator's id");
    assert_eq!(list(&world, json!({"grantee": account("service2")})), [ids.verifier], "the VS operator");
    assert_eq!(list(&world, json!({"op_state": "PENDING"})), [pending]);
    assert_eq!(list(&world, json!({"role": "ECOSYSTEM", "only_valid": true})), [1]);
    assert_eq!(
        list(&world, json!({"role": "ECOSYSTEM", "only_valid": true, "when": "1970-01-01T00:00:00Z"})),
        [] as [u64; 0]
    );
    assert_eq!(list(&world, json!({"modified_after": world.time_at(0)})), [pending], "inclusive");
    world.send_as_operator(
        "b",
        "pp.MsgSlashParticipantTrustDeposit",
        json!({"id": ids.issuer, "amount": 1, "reason": "r"}),
    );
    assert_eq!(list(&world, json!({"only_slashed": true})), [ids.issuer]);
    assert_eq!(list(&world, json!({"schema_id": 1})).last(), Some(&ids.issuer), "by the time of their change");
}

#[test]
fn sdk_queries_return_pages() {
    let world = TestLedger::new();
    let grants = "/cosmos.feegrant.v1beta1.Query/Allowances";
    assert_eq!(world.query(grants, json!({"grantee": account("alice")}))["allowances"], json!([]));
    let balances = "/cosmos.bank.v1beta1.Query/AllBalances";
    let first =
        world.query(balances, json!({"address": account("alice"), "pagination": {"limit": 1, "count_total": true}}));
    assert_eq!((first["balances"].as_array().map(Vec::len), &first["pagination"]["total"]), (Some(1), &json!("2")));
    let key = first["pagination"]["next_key"].clone();
    let second = world.query(balances, json!({"address": account("alice"), "pagination": {"key": key, "limit": 1}}));
    assert_eq!(second["balances"][0]["denom"], "usvc");
    assert_eq!(second["pagination"]["next_key"], Value::Null);
    assert_eq!(
        refusal(&world, balances, json!({"address": account("alice"), "pagination": {"key": key, "offset": 1}})).1,
        18
    );
    let metadata = world.query("/cosmos.bank.v1beta1.Query/DenomsMetadata", json!({}))["metadatas"][0].clone();
    assert_eq!((&metadata["base"], &metadata["denom_units"][1]["exponent"]), (&json!("usvc"), &json!(6)));
    let params = world.query("/cosmos.mint.v1beta1.Query/Params", json!({}))["params"].clone();
    assert_eq!((&params["blocks_per_year"], &params["mint_denom"]), (&json!("17280"), &json!("usvc")));
    assert_eq!(world.query("/cosmos.staking.v1beta1.Query/Params", json!({}))["params"]["bond_denom"], "usvc");
    let none = world
        .query("/cosmos.authz.v1beta1.Query/Grants", json!({"granter": account("alice"), "grantee": account("bob")}));
    assert_eq!(none["grants"], json!([]));
}
