//! x/gov: exchange rates, parameters and proposals.

use serde_json::{Value, json};

use super::{
    outcomes::{assert_event, assert_has},
    test_ledger::{TestLedger, account, coin, merge_members, unregistered},
};

fn rate(changes: Value) -> Value {
    merge_members(
        &json!({
            "base_asset_type": "TU", "base_asset": "tu", "quote_asset_type": "COIN", "quote_asset": "usvc", "rate": "1000000",
            "rate_scale": 6, "validity_duration": "3600s",
        }),
        &changes,
    )
}

#[test]
fn exchange_rates_are_governed_and_updated_by_their_operators() {
    let mut world = TestLedger::empty();
    let (create, update) = ("xr.MsgCreateExchangeRate", "xr.MsgUpdateExchangeRate");
    let message = merge_members(&rate(json!({})), &json!({"authority": account("member")}));
    for (changes, refusal) in [
        (json!({}), ("xr", 1100, "expected gov account")),
        (json!({"base_asset": "TU"}), unregistered("base asset")),
        (json!({"quote_asset": "1x"}), unregistered("quote asset")),
        (json!({"base_asset_type": "COIN", "base_asset": "usvc"}), unregistered("must differ")),
        (json!({"rate": "0"}), unregistered("positive integer")),
        (json!({"rate": "-5"}), unregistered("positive integer")),
        (json!({"rate": "9".repeat(79)}), unregistered("positive integer")),
        (json!({"rate_scale": 19}), unregistered("at most 18")),
        (json!({"validity_duration": "59s"}), unregistered("at least one minute")),
    ] {
        world.assert_refused("member", create, &merge_members(&message, &changes), refusal);
    }
    for (changes, text) in [
        (json!({"base_asset_type": "COIN", "base_asset": "unothing"}), "no supply"),
        (json!({"validity_duration": "31536001s"}), "above the maximum"),
    ] {
        let (status, reason) = world.clone().run_gov_proposal(&[(create, rate(changes))]);
        assert!(status == "PROPOSAL_STATUS_FAILED" && reason.contains(text), "{status} {reason}");
    }
    world.pass_gov_proposal(&[(create, rate(json!({"state": true})))]);
    let stored = world.query("xr.GetExchangeRate", json!({"id": 1}))["exchange_rate"].clone();
    assert_has(&stored, &json!({"state": false, "expires": world.time_at(3_600), "rate": "1000000"}));
    let created = world.block_events.iter().find(|event| event.kind == "create_exchange_rate").expect("told");
    let keys: Vec<_> = created.attributes.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(
        keys,
        [
            "id",
            "authority",
            "base_asset_type",
            "base_asset",
            "quote_asset_type",
            "quote_asset",
            "rate",
            "rate_scale",
            "validity_duration",
            "expires",
            "mode",
        ]
    );
    let (_, reason) = world.clone().run_gov_proposal(&[(create, rate(json!({})))]);
    assert!(reason.contains("pair exists"), "{reason}");

    let good = json!({"operator": account("oracle"), "id": 1, "rate": "1010000"});
    world.assert_refused("oracle", update, &merge_members(&good, &json!({"id": 9})), ("xr", 1108, "9"));
    world.assert_refused(
        "oracle",
        update,
        &merge_members(&good, &json!({"rate": "x"})),
        unregistered("positive integer"),
    );
    world.assert_refused("oracle", update, &good, ("xr", 1113, "not found"));
    let terms = |changes: Value, world: &TestLedger| {
        merge_members(
            &json!({
                "xr_id": 1, "operator": account("oracle"), "expiration": world.time_at(10_000), "min_interval": "60s", "max_deviation_bps": 100,
            }),
            &changes,
        )
    };
    let grant = "xr.MsgGrantExchangeRateAuthorization";
    for (changes, text) in [
        (json!({"xr_id": 9}), "not found"),
        (json!({"expiration": world.time_at(0)}), "future"),
        (json!({"min_interval": "0s"}), "positive"),
        (json!({"max_deviation_bps": 10_001}), "10000"),
    ] {
        let (_, reason) = world.clone().run_gov_proposal(&[(grant, terms(changes, &world))]);
        assert!(reason.contains(text), "{reason}");
    }
    let message = terms(json!({}), &world);
    world.pass_gov_proposal(&[(grant, message)]);
    world.assert_refused("oracle", update, &good, ("xr", 1109, "not active"));
    world.pass_gov_proposal(&[("xr.MsgSetExchangeRateState", json!({"id": 1, "state": true}))]);
    world.assert_refused(
        "oracle",
        update,
        &merge_members(&good, &json!({"rate": "1010001"})),
        ("xr", 1116, "100 basis points"),
    );
    let outcome = world.send_ok("oracle", update, good.clone());
    assert_event(
        &outcome,
        "update_exchange_rate",
        &[("id", "1"), ("operator", &account("oracle")), ("rate", "1010000")],
    );
    assert_eq!(world.query("xr.GetExchangeRate", json!({"id": 1}))["exchange_rate"]["expires"], world.time_at(3_600));
    world.assert_refused("oracle", update, &good, ("xr", 1115, "too soon"));
    world.advance(60);
    world.send_ok("oracle", update, good.clone());
    world.advance(20_000);
    world.assert_refused("oracle", update, &good, ("xr", 1114, "expired"));
    world.pass_gov_proposal(&[(
        "xr.MsgRevokeExchangeRateAuthorization",
        json!({"xr_id": 1, "operator": account("oracle")}),
    )]);
    world.assert_refused("oracle", update, &good, ("xr", 1113, "not found"));
}

#[test]
fn parameters_change_by_proposal_only() {
    let mut world = TestLedger::empty();
    for (module, refusal) in [
        ("co", ("gov", 13, "expected gov account")),
        ("ec", ("ec", 1100, "expected gov account")),
        ("gf", ("sdk", 4, "expected gov account")),
        ("cs", ("cs", 1100, "expected gov account")),
        ("pp", ("pp", 1100, "expected gov account")),
        ("td", ("td", 1100, "expected gov account")),
        ("de", ("de", 1100, "expected gov account")),
        ("di", ("di", 1100, "expected gov account")),
        ("xr", ("xr", 1100, "expected gov account")),
    ] {
        let name = format!("{module}.MsgUpdateParams");
        let params = world.query(&format!("{module}.Params"), json!({}))["params"].clone();
        let own = json!({"authority": account("member"), "params": {}});
        world.assert_refused("member", &name, &own, refusal);
        let (status, reason) = world.clone().run_gov_proposal(&[(&name, json!({"params": params}))]);
        assert_eq!(status, "PROPOSAL_STATUS_PASSED", "{module}: {reason}");
    }
    let message = json!({"params": {"trust_unit_price": "7"}});
    world.pass_gov_proposal(&[("ec.MsgUpdateParams", message)]);
    assert_eq!(world.query("ec.Params", json!({}))["params"], json!({"trust_unit_price": "7"}));
    let params = world.query("td.Params", json!({}))["params"].clone();
    for (changes, text) in [
        (json!({"trust_deposit_rate": "1000000000000000001"}), "between 0 and 1"),
        (json!({"trust_deposit_rate": "x"}), "between 0 and 1"),
        (json!({"yield_intermediate_pool": "x"}), "yield_intermediate_pool"),
    ] {
        let (_, reason) = world
            .clone()
            .run_gov_proposal(&[("td.MsgUpdateParams", json!({"params": merge_members(&params, &changes)}))]);
        assert!(reason.contains(text), "{reason}");
    }
    // The share value is state, not a setting: an update keeps it.
    let changes =
        json!({"trust_deposit_share_value": "5000000000000000000", "trust_deposit_rate": "300000000000000000"});
    world.pass_gov_proposal(&[("td.MsgUpdateParams", json!({"params": merge_members(&params, &changes)}))]);
    let stored = world.query("td.Params", json!({}))["params"].clone();
    assert_has(
        &stored,
        &json!({"trust_deposit_share_value": "1000000000000000000", "trust_deposit_rate": "300000000000000000"}),
    );
}

#[test]
fn proposals_need_deposit_quorum_and_their_own_signer() {
    let mut world = TestLedger::empty();
    let name = "/cosmos.gov.v1.MsgSubmitProposal";
    let inner = json!({"@type": "/svc.ec.v1.MsgUpdateParams", "authority": world.saved_names["gov"], "params": {"trust_unit_price": "1"}});
    let good = json!({"messages": [inner], "initial_deposit": [coin(1)], "proposer": account("alice"), "title": "t", "summary": "s"});
    let foreign = json!({"@type": "/cosmos.bank.v1beta1.MsgSend", "from_address": account("bob"), "to_address": account("bob"), "amount": [coin(1)]});
    for (changes, refusal) in [
        (json!({"title": ""}), ("sdk", 18, "title")),
        (json!({"summary": ""}), ("sdk", 18, "summary")),
        (json!({"messages": []}), ("gov", 11, "no messages")),
        (json!({"messages": [foreign]}), ("gov", 13, "only signer")),
        (json!({"initial_deposit": [{"denom": "uother", "amount": "1"}]}), ("gov", 23, "uother")),
    ] {
        world.assert_refused("alice", name, &merge_members(&good, &changes), refusal);
    }
    world.send_ok("alice", name, good.clone());
    let vote = |option: &str| json!({"proposal_id": 1, "voter": account("member"), "option": option});
    world.assert_refused("member", "/cosmos.gov.v1.MsgVote", &vote("VOTE_OPTION_YES"), ("gov", 3, "inactive"));
    let before = world.balance(&account("alice"), "usvc");
    let mut dropped = world.clone();
    dropped.advance(101);
    assert_eq!(dropped.balance(&account("alice"), "usvc"), before + 1, "too little deposit comes back");
    assert!(dropped.try_query("/cosmos.gov.v1.Query/Proposal", json!({"proposal_id": 1})).is_err());
    world.send_ok(
        "bob",
        "/cosmos.gov.v1.MsgDeposit",
        json!({"proposal_id": 1, "depositor": account("bob"), "amount": [coin(10_000_000)]}),
    );
    // Votes without stake have no weight.
    world.send_ok(
        "bob",
        "/cosmos.gov.v1.MsgVote",
        json!({"proposal_id": 1, "voter": account("bob"), "option": "VOTE_OPTION_YES"}),
    );
    let mut unheard = world.clone();
    unheard.advance(31);
    assert_eq!(
        unheard.query("/cosmos.gov.v1.Query/Proposal", json!({"proposal_id": 1}))["proposal"]["status"],
        "PROPOSAL_STATUS_REJECTED"
    );
    let mut vetoed = world.clone();
    vetoed.send_ok("member", "/cosmos.gov.v1.MsgVote", vote("VOTE_OPTION_NO_WITH_VETO"));
    assert_eq!(
        vetoed.query("/cosmos.gov.v1.Query/TallyResult", json!({"proposal_id": 1}))["tally"]["no_with_veto_count"],
        "1000000"
    );
    let bob = vetoed.balance(&account("bob"), "usvc");
    vetoed.advance(31);
    assert_eq!(vetoed.balance(&account("bob"), "usvc"), bob, "a vetoed deposit is burnt");
    assert_eq!(vetoed.module_balance("gov"), 0);
    world.send_ok("member", "/cosmos.gov.v1.MsgVote", vote("VOTE_OPTION_YES"));
    let bob = world.balance(&account("bob"), "usvc");
    world.advance(31);
    assert_eq!(world.query("ec.Params", json!({}))["params"]["trust_unit_price"], "1");
    assert_eq!(world.balance(&account("bob"), "usvc"), bob + 10_000_000);
    // An expedited proposal that fails continues as an ordinary one.
    let expedited = merge_members(&good, &json!({"expedited": true, "initial_deposit": [coin(50_000_000)]}));
    world.send_ok("alice", name, expedited);
    world.advance(21);
    let found = world.query("/cosmos.gov.v1.Query/Proposal", json!({"proposal_id": 2}))["proposal"].clone();
    assert_has(&found, &json!({"expedited": false, "status": "PROPOSAL_STATUS_VOTING_PERIOD"}));
}
