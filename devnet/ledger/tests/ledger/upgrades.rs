//! Upgrades: the first block of a later release takes over the state, and a genesis has the form and the defaults of its generation.

use serde_json::{Value, json};
use svc_ledger::{GenesisState, UpgradePlan, export_app_state};
use svc_wire::proto_registry::NodeGeneration;

use super::{
    generations::with_rights,
    outcomes::assert_has,
    participants::{set_validated, with_root_participant},
    test_ledger::{DIGEST_SRI, TestLedger, account, merge_members},
};

const START: &str = "pp.MsgStartParticipantOP";
/// Rate of a chain of the first generation, and of later ones: scaled by 10^18.
const OLD_RATE: &str = "200000000000000000";
const NEW_RATE: &str = "50000000000000000";

/// A chain of the first generation with everything that an upgrade touches: a policy, a changed parameter, and two records of rights, the
/// second without a limit of its fees.
fn old_chain() -> TestLedger {
    let mut world = with_root_participant(json!({}));
    let policy = json!({"schema_id": 1, "role": "ISSUER", "url": "urn:policy:1", "digest_sri": DIGEST_SRI});
    world.send_as_operator("a", "cs.MsgCreateSchemaAuthorizationPolicy", policy);
    world.pass_gov_proposal(&[("ec.MsgUpdateParams", json!({"params": {"trust_unit_price": "7"}}))]);
    let first = world.create_entity("b", START, with_rights("did:web:b", json!({})));
    let other = json!({"vs_operator": account("service2"), "vs_operator_authz_fee_spend_limit": null});
    let second = world.create_entity("c", START, with_rights("did:web:c", other));
    let end = world.time_at(1_000_000);
    for applicant in [first, second] {
        set_validated(&mut world, "a", applicant, json!({"effective_until": end}));
    }
    world
}

/// Makes the first block of another generation.
fn upgrade(world: &mut TestLedger, generation: NodeGeneration) {
    let plan = UpgradePlan { generation, height: world.height + 1 };
    world.chain.upgrades.plan(plan, NodeGeneration::N0, world.height).expect("planned");
    world.chain.become_generation(generation).expect("descriptors");
    world.run_block(&[]);
}

/// The same state, as a node of the first generation shows it.
fn shown_by_old_node(world: &TestLedger) -> TestLedger {
    let mut old = world.clone();
    old.chain.become_generation(NodeGeneration::N0).expect("descriptors");
    old
}

fn record_of(world: &TestLedger, operator: &str) -> Value {
    let request = json!({"vs_operator": account(operator)});
    let found = world.query("de.ListVSOperatorAuthorizations", request);
    found["vs_operator_authorizations"][0]["records"][0].clone()
}

/// The allowance of a service's account: the type of the inner one, or null.
fn allowance_of(world: &TestLedger, corporation: &str, operator: &str) -> Value {
    let request = json!({"granter": world.saved_names[corporation], "grantee": account(operator)});
    let found = world.try_query("/cosmos.feegrant.v1beta1.Query/Allowance", request);
    found.map_or(Value::Null, |found| found["allowance"]["allowance"]["allowance"].clone())
}

#[test]
fn the_first_block_of_a_release_keeps_the_values_and_drops_what_the_release_lacks() {
    for (generation, trust_unit_price, has_own_record_limits) in
        [(NodeGeneration::N1, "7", true), (NodeGeneration::N2, "1000000", true), (NodeGeneration::N3, "1000000", false)]
    {
        let mut world = old_chain();
        let before = (world.trust_deposit("b"), record_of(&world, "service"));
        assert_eq!(allowance_of(&world, "b", "service")["@type"], "/cosmos.feegrant.v1beta1.BasicAllowance");
        assert_has(&before.1, &json!({"remaining_fee_spend": [{"denom": "usvc", "amount": "7000"}]}));
        upgrade(&mut world, generation);

        assert_eq!(world.query("td.Params", json!({}))["params"]["trust_deposit_rate"], OLD_RATE, "{generation}");
        assert_eq!(world.trust_deposit("b"), before.0, "{generation}");
        let old = shown_by_old_node(&world);
        let policies = old.query("cs.ListSchemaAuthorizationPolicies", json!({"schema_id": 1}));
        assert_eq!(policies["policies"], json!([]), "{generation}");
        let price = &old.query("ec.Params", json!({}))["params"]["trust_unit_price"];
        assert_eq!(price, trust_unit_price, "{generation}");

        let records = ["service", "service2"].map(|operator| record_of(&world, operator));
        let ends = records.iter().filter(|record| !record["expiration"].is_null()).count();
        let allowances = [("b", "service"), ("c", "service2")].map(|(of, to)| allowance_of(&world, of, to));
        if has_own_record_limits {
            assert_eq!((&records[0], ends), (&before.1, 2), "{generation}");
            let kinds = allowances.map(|allowance| allowance["@type"].clone());
            assert_eq!(kinds, ["/cosmos.feegrant.v1beta1.BasicAllowance"; 2].map(Value::from), "{generation}");
        } else {
            assert_eq!(ends, 0, "the right ends with the participant: {records:?}");
            assert_eq!(allowances[0]["@type"], "/cosmos.feegrant.v1beta1.PeriodicAllowance");
            assert_eq!(allowances[0]["period_spend_limit"], json!([{"denom": "usvc", "amount": "7000"}]));
            assert_eq!(allowances[1], Value::Null, "a record without a limit adds nothing to the allowance");
        }
        // The next block changes nothing more.
        let hash = world.state.hash();
        world.run_block(&[]);
        assert_eq!(world.state.hash(), hash, "{generation}");
    }
}

#[test]
fn the_plan_is_shown_before_its_height_and_as_applied_from_it_on() {
    let mut world = TestLedger::empty();
    let height = world.height + 2;
    let plan = UpgradePlan { generation: NodeGeneration::N2, height };
    world.chain.upgrades.plan(plan, NodeGeneration::N0, world.height).expect("planned");
    let shown = |world: &TestLedger| {
        let current = world.query("/cosmos.upgrade.v1beta1.Query/CurrentPlan", json!({}))["plan"].clone();
        let applied = world.query("/cosmos.upgrade.v1beta1.Query/AppliedPlan", json!({"name": "n2"}));
        (current["name"].clone(), current["height"].clone(), applied["height"].clone())
    };
    world.run_block(&[]);
    assert_eq!(shown(&world), (json!("n2"), json!(height.to_string()), json!("0")));
    world.chain.become_generation(NodeGeneration::N2).expect("descriptors");
    world.run_block(&[]);
    assert_eq!(shown(&world), (Value::Null, Value::Null, json!(height.to_string())));
    let unknown = world.query("/cosmos.upgrade.v1beta1.Query/AppliedPlan", json!({"name": "n3"}));
    assert_eq!(unknown["height"], "0");
}

#[test]
fn a_genesis_has_the_deposit_rate_and_the_form_of_its_generation() {
    let rounds = NodeGeneration::ALL.map(|generation| {
        let world = TestLedger::begin(generation, 0, &["member"]).expect("a genesis");
        let (chain, state) = (world.chain.clone(), world.state.clone());
        let rate = world.query("td.Params", json!({}))["params"]["trust_deposit_rate"].clone();
        let app_state = export_app_state(&state, &chain).expect("an app_state");
        // Another chain of the generation can begin with it.
        let genesis = GenesisState { app_state: Some(app_state.clone()), ..GenesisState::default() };
        assert_eq!(genesis.build_state(&chain).expect("a state").hash(), state.hash(), "{generation}");
        for module in ["co", "cs", "de", "di", "ec", "gf", "pp", "td", "xr"] {
            let name = format!("svc.{module}.v1.GenesisState");
            let read = chain.registry.encode(&name, &app_state[module]);
            assert!(read.is_ok(), "{generation}: {module}: {read:?}");
        }
        let params = &app_state["td"]["params"];
        assert_eq!(params["trust_deposit_share_value"], "1.000000000000000000", "{generation}");
        let has_burn_rate = params.get("trust_deposit_reclaim_burn_rate").is_some();
        assert_eq!(has_burn_rate, generation < NodeGeneration::N2, "{generation}");
        (generation, rate, params["trust_deposit_rate"].clone())
    });
    for (generation, rate, written) in rounds {
        let expected = if generation == NodeGeneration::N0 {
            (OLD_RATE, "0.200000000000000000")
        } else {
            (NEW_RATE, "0.050000000000000000")
        };
        assert_eq!((rate, written), (json!(expected.0), json!(expected.1)), "{generation}");
    }
}

#[test]
fn a_state_without_parameters_begins_with_those_of_its_generation() {
    let mut world = TestLedger::new();
    world.chain.become_generation(NodeGeneration::N1).expect("descriptors");
    let mut app_state = export_app_state(&world.state, &world.chain).expect("an app_state");
    app_state["td"] = merge_members(&app_state["td"], &json!({"params": null}));
    let genesis = GenesisState { app_state: Some(app_state), ..GenesisState::default() };
    world.state = genesis.build_state(&world.chain).expect("a state");
    assert_eq!(world.query("td.Params", json!({}))["params"]["trust_deposit_rate"], NEW_RATE);
}
