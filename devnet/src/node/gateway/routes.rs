//! The routes of REST, by the method that answers.

use svc_wire::proto_registry::NodeGeneration;

/// Methods of the registry, without its namespace, with their paths at a node of the first generation. A first segment `svc` is the namespace.
const REGISTRY: [(&str, &str); 35] = [
    ("co.v1.Query/Params", "/co/v1/params"),
    ("co.v1.Query/GetCorporation", "/co/v1/get"),
    ("co.v1.Query/ListCorporations", "/co/v1/list"),
    ("ec.v1.Query/Params", "/ec/v1/params"),
    ("ec.v1.Query/GetEcosystem", "/ec/v1/get"),
    ("ec.v1.Query/ListEcosystems", "/ec/v1/list"),
    ("gf.v1.Query/Params", "/svc/gf/v1/params"),
    ("gf.v1.Query/GetGovernanceFrameworkVersion", "/gf/v1/get"),
    ("gf.v1.Query/ListGovernanceFrameworkVersions", "/gf/v1/list"),
    ("cs.v1.Query/Params", "/cs/v1/params"),
    ("cs.v1.Query/ListCredentialSchemas", "/svc/cs/v1/list"),
    ("cs.v1.Query/GetCredentialSchema", "/svc/cs/v1/get/{id}"),
    ("cs.v1.Query/RenderJsonSchema", "/svc/cs/v1/js/{id}"),
    ("cs.v1.Query/GetSchemaAuthorizationPolicy", "/svc/cs/v1/sap/get/{id}"),
    ("cs.v1.Query/ListSchemaAuthorizationPolicies", "/svc/cs/v1/sap/list"),
    ("pp.v1.Query/Params", "/svc/pp/v1/params"),
    ("pp.v1.Query/ListParticipants", "/svc/pp/v1/list"),
    ("pp.v1.Query/GetParticipant", "/svc/pp/v1/get/{id}"),
    ("pp.v1.Query/GetParticipantSession", "/svc/pp/v1/session/get/{id}"),
    ("pp.v1.Query/ListParticipantSessions", "/svc/pp/v1/list_session"),
    ("pp.v1.Query/FindBeneficiaries", "/svc/pp/v1/beneficiaries"),
    ("de.v1.Query/Params", "/svc/de/v1/params"),
    ("de.v1.Query/ListOperatorAuthorizations", "/svc/de/v1/authz/list"),
    ("de.v1.Query/ListVSOperatorAuthorizations", "/svc/de/v1/vs-authz/list"),
    ("de.v1.Query/GetOperatorAuthorization", "/svc/de/v1/authz/get/{id}"),
    ("de.v1.Query/GetVSOperatorAuthorization", "/svc/de/v1/vs-authz/get/{id}"),
    ("di.v1.Query/Params", "/svc/di/v1/params"),
    ("di.v1.Query/GetDigest", "/svc/di/v1/get"),
    ("td.v1.Query/Params", "/td/v1/params"),
    ("td.v1.Query/GetTrustDeposit", "/svc/td/v1/get/{corporation_id}"),
    ("xr.v1.Query/Params", "/svc-labs/svc/xr/v1/params"),
    ("xr.v1.Query/GetExchangeRate", "/svc/xr/v1/get"),
    ("xr.v1.Query/ListExchangeRates", "/svc/xr/v1/list"),
    ("xr.v1.Query/GetPrice", "/svc/xr/v1/price"),
    ("poa.v1.Query/Council", "/poa/v1/council"),
];

/// Methods of the SDK with their paths.
const SDK: [(&str, &str); 66] = [
    ("cosmos.auth.v1beta1.Query/Account", "/cosmos/auth/v1beta1/accounts/{address}"),
    ("cosmos.auth.v1beta1.Query/AccountInfo", "/cosmos/auth/v1beta1/account_info/{address}"),
    ("cosmos.auth.v1beta1.Query/Params", "/cosmos/auth/v1beta1/params"),
    ("cosmos.auth.v1beta1.Query/Bech32Prefix", "/cosmos/auth/v1beta1/bech32"),
    ("cosmos.authz.v1beta1.Query/Grants", "/cosmos/authz/v1beta1/grants"),
    ("cosmos.authz.v1beta1.Query/GranterGrants", "/cosmos/authz/v1beta1/grants/granter/{granter}"),
    ("cosmos.authz.v1beta1.Query/GranteeGrants", "/cosmos/authz/v1beta1/grants/grantee/{grantee}"),
    ("cosmos.bank.v1beta1.Query/Balance", "/cosmos/bank/v1beta1/balances/{address}/by_denom"),
    ("cosmos.bank.v1beta1.Query/AllBalances", "/cosmos/bank/v1beta1/balances/{address}"),
    ("cosmos.bank.v1beta1.Query/SupplyOf", "/cosmos/bank/v1beta1/supply/by_denom"),
    ("cosmos.bank.v1beta1.Query/DenomsMetadata", "/cosmos/bank/v1beta1/denoms_metadata"),
    ("cosmos.base.node.v1beta1.Service/Config", "/cosmos/base/node/v1beta1/config"),
    ("cosmos.base.node.v1beta1.Service/Status", "/cosmos/base/node/v1beta1/status"),
    ("cosmos.feegrant.v1beta1.Query/Allowance", "/cosmos/feegrant/v1beta1/allowance/{granter}/{grantee}"),
    ("cosmos.feegrant.v1beta1.Query/Allowances", "/cosmos/feegrant/v1beta1/allowances/{grantee}"),
    ("cosmos.feegrant.v1beta1.Query/AllowancesByGranter", "/cosmos/feegrant/v1beta1/issued/{granter}"),
    ("cosmos.gov.v1.Query/Params", "/cosmos/gov/v1/params/{params_type}"),
    ("cosmos.gov.v1.Query/Proposal", "/cosmos/gov/v1/proposals/{proposal_id}"),
    ("cosmos.gov.v1.Query/Proposals", "/cosmos/gov/v1/proposals"),
    ("cosmos.gov.v1.Query/Votes", "/cosmos/gov/v1/proposals/{proposal_id}/votes"),
    ("cosmos.gov.v1.Query/TallyResult", "/cosmos/gov/v1/proposals/{proposal_id}/tally"),
    ("cosmos.group.v1.Query/GroupInfo", "/cosmos/group/v1/group_info/{group_id}"),
    ("cosmos.group.v1.Query/GroupPolicyInfo", "/cosmos/group/v1/group_policy_info/{address}"),
    ("cosmos.group.v1.Query/GroupMembers", "/cosmos/group/v1/group_members/{group_id}"),
    ("cosmos.group.v1.Query/GroupsByMember", "/cosmos/group/v1/groups_by_member/{address}"),
    ("cosmos.group.v1.Query/Proposal", "/cosmos/group/v1/proposal/{proposal_id}"),
    ("cosmos.group.v1.Query/ProposalsByGroupPolicy", "/cosmos/group/v1/proposals_by_group_policy/{address}"),
    ("cosmos.group.v1.Query/VotesByProposal", "/cosmos/group/v1/votes_by_proposal/{proposal_id}"),
    ("cosmos.group.v1.Query/TallyResult", "/cosmos/group/v1/proposals/{proposal_id}/tally"),
    ("cosmos.mint.v1beta1.Query/Params", "/cosmos/mint/v1beta1/params"),
    ("cosmos.staking.v1beta1.Query/Params", "/cosmos/staking/v1beta1/params"),
    ("cosmos.tx.v1beta1.Service/GetTx", "/cosmos/tx/v1beta1/txs/{hash}"),
    ("cosmos.tx.v1beta1.Service/GetTxsEvent", "/cosmos/tx/v1beta1/txs"),
    ("cosmos.auth.v1beta1.Query/Accounts", "/cosmos/auth/v1beta1/accounts"),
    ("cosmos.auth.v1beta1.Query/ModuleAccounts", "/cosmos/auth/v1beta1/module_accounts"),
    ("cosmos.auth.v1beta1.Query/ModuleAccountByName", "/cosmos/auth/v1beta1/module_accounts/{name}"),
    ("cosmos.auth.v1beta1.Query/AccountAddressByID", "/cosmos/auth/v1beta1/address_by_id/{id}"),
    ("cosmos.bank.v1beta1.Query/Params", "/cosmos/bank/v1beta1/params"),
    ("cosmos.bank.v1beta1.Query/SendEnabled", "/cosmos/bank/v1beta1/send_enabled"),
    ("cosmos.bank.v1beta1.Query/TotalSupply", "/cosmos/bank/v1beta1/supply"),
    ("cosmos.bank.v1beta1.Query/SpendableBalances", "/cosmos/bank/v1beta1/spendable_balances/{address}"),
    ("cosmos.bank.v1beta1.Query/DenomOwners", "/cosmos/bank/v1beta1/denom_owners/{denom}"),
    ("cosmos.consensus.v1.Query/Params", "/cosmos/consensus/v1/params"),
    ("cosmos.distribution.v1beta1.Query/Params", "/cosmos/distribution/v1beta1/params"),
    ("cosmos.group.v1.Query/Groups", "/cosmos/group/v1/groups"),
    ("cosmos.group.v1.Query/GroupsByAdmin", "/cosmos/group/v1/groups_by_admin/{admin}"),
    ("cosmos.group.v1.Query/GroupPoliciesByGroup", "/cosmos/group/v1/group_policies_by_group/{group_id}"),
    ("cosmos.group.v1.Query/GroupPoliciesByAdmin", "/cosmos/group/v1/group_policies_by_admin/{admin}"),
    ("cosmos.group.v1.Query/VotesByVoter", "/cosmos/group/v1/votes_by_voter/{voter}"),
    ("cosmos.slashing.v1beta1.Query/Params", "/cosmos/slashing/v1beta1/params"),
    ("cosmos.staking.v1beta1.Query/Validators", "/cosmos/staking/v1beta1/validators"),
    ("cosmos.staking.v1beta1.Query/DelegatorDelegations", "/cosmos/staking/v1beta1/delegations/{delegator_addr}"),
    ("cosmos.staking.v1beta1.Query/Pool", "/cosmos/staking/v1beta1/pool"),
    ("cosmos.upgrade.v1beta1.Query/CurrentPlan", "/cosmos/upgrade/v1beta1/current_plan"),
    ("cosmos.upgrade.v1beta1.Query/AppliedPlan", "/cosmos/upgrade/v1beta1/applied_plan/{name}"),
    ("cosmos.upgrade.v1beta1.Query/ModuleVersions", "/cosmos/upgrade/v1beta1/module_versions"),
    ("cosmos.base.tendermint.v1beta1.Service/GetNodeInfo", "/cosmos/base/tendermint/v1beta1/node_info"),
    ("cosmos.base.tendermint.v1beta1.Service/GetSyncing", "/cosmos/base/tendermint/v1beta1/syncing"),
    ("cosmos.base.tendermint.v1beta1.Service/GetLatestBlock", "/cosmos/base/tendermint/v1beta1/blocks/latest"),
    ("cosmos.base.tendermint.v1beta1.Service/GetBlockByHeight", "/cosmos/base/tendermint/v1beta1/blocks/{height}"),
    (
        "cosmos.base.tendermint.v1beta1.Service/GetLatestValidatorSet",
        "/cosmos/base/tendermint/v1beta1/validatorsets/latest",
    ),
    (
        "cosmos.base.tendermint.v1beta1.Service/GetValidatorSetByHeight",
        "/cosmos/base/tendermint/v1beta1/validatorsets/{height}",
    ),
    ("cosmos.gov.v1beta1.Query/Params", "/cosmos/gov/v1beta1/params/{params_type}"),
    ("cosmos.gov.v1beta1.Query/Proposals", "/cosmos/gov/v1beta1/proposals"),
    ("cosmos.gov.v1beta1.Query/Votes", "/cosmos/gov/v1beta1/proposals/{proposal_id}/votes"),
    ("cosmos.gov.v1beta1.Query/TallyResult", "/cosmos/gov/v1beta1/proposals/{proposal_id}/tally"),
];

/// Routes whose request is a JSON body.
const POSTS: [(&str, &str); 2] = [
    ("cosmos.tx.v1beta1.Service/Simulate", "/cosmos/tx/v1beta1/simulate"),
    ("cosmos.tx.v1beta1.Service/BroadcastTx", "/cosmos/tx/v1beta1/txs"),
];

/// A route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayRoute {
    /// `/<package>.<Service>/<Method>`
    pub method: String,
    /// Path with its parameters in braces.
    pub path: String,
    /// Whether the request is a JSON body.
    pub is_post: bool,
}

/// All routes of a generation under a namespace. The paths of the first generation begin in several ways, those of later ones with the module.
pub fn routes(namespace: &str, generation: NodeGeneration) -> Vec<GatewayRoute> {
    let of_sdk = |is_post: bool| {
        move |(method, path): &(&str, &str)| GatewayRoute {
            method: format!("/{method}"),
            path: (*path).to_owned(),
            is_post,
        }
    };
    let of_registry = |(method, path): &(&str, &str)| {
        let path = match (generation, method.split_once('.'), path.split_once("/v1/")) {
            (NodeGeneration::N0, ..) | (_, None, _) | (.., None) => in_namespace(path, namespace),
            (_, Some((module, _)), Some((_, rest))) => format!("/{module}/v1/{rest}"),
        };
        GatewayRoute { method: format!("/{namespace}.{method}"), path, is_post: false }
    };
    let sdk = SDK.iter().map(of_sdk(false)).chain(POSTS.iter().map(of_sdk(true)));
    REGISTRY.iter().map(of_registry).chain(sdk).collect()
}

fn in_namespace(path: &str, namespace: &str) -> String {
    path.strip_prefix("/svc").map_or_else(|| path.to_owned(), |rest| format!("/{namespace}{rest}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    #[test]
    fn every_query_of_the_registry_has_the_path_of_the_contract() {
        let contract = include_str!("../../../../wire/tests/fixtures/messages.json");
        let contract: Value = serde_json::from_str(contract).expect("JSON");
        let services = contract["query_services"].as_array().expect("a list");
        let rpcs = services.iter().flat_map(|service| service["rpcs"].as_array().expect("a list"));
        let expected: BTreeSet<(String, String)> = rpcs
            .map(|rpc| {
                (
                    rpc["grpc_path"].as_str().expect("a path").to_owned(),
                    rpc["http"]["get"].as_str().expect("a path").to_owned(),
                )
            })
            .chain(contract["newer"]["messages"].as_array().expect("a list").iter().filter_map(|row| {
                Some((row["grpc_path"].as_str()?.to_owned(), row["http"]["get"].as_str()?.to_owned()))
            }))
            .collect();
        let known: BTreeSet<(String, String)> = routes("svc", NodeGeneration::N0)
            .into_iter()
            .filter(|route| route.method.starts_with("/svc."))
            .map(|route| (route.method, route.path))
            .collect();
        assert_eq!(known, expected);
        let renamed = routes("other", NodeGeneration::N0);
        assert!(renamed.iter().any(
            |route| route.path == "/other/cs/v1/list" && route.method == "/other.cs.v1.Query/ListCredentialSchemas"
        ));
    }

    #[test]
    fn later_generations_have_one_form_of_paths_under_any_namespace() {
        let of = |namespace: &str, generation: NodeGeneration| -> Vec<(String, String)> {
            let registry = format!("/{namespace}.");
            let routes = routes(namespace, generation).into_iter().filter(|route| route.method.starts_with(&registry));
            routes.map(|route| (route.method.replacen(&registry, "/", 1), route.path)).collect()
        };
        let oldest = of("svc", NodeGeneration::N0);
        for generation in NodeGeneration::ALL.into_iter().filter(|generation| *generation > NodeGeneration::N0) {
            let found = of("svc", generation);
            assert_eq!(found, of("other", generation), "{generation}: no path has the namespace");
            for ((method, path), (known, old)) in found.iter().zip(&oldest) {
                let (module, _) = method.trim_start_matches('/').split_once('.').expect("a module");
                let rest =
                    path.strip_prefix(&format!("/{module}/v1/")).unwrap_or_else(|| panic!("{generation}: {path}"));
                assert!(method == known && old.ends_with(&format!("/v1/{rest}")), "{generation}: {path} was {old}");
            }
            let paths: BTreeSet<&String> = found.iter().map(|(_, path)| path).collect();
            assert_eq!((paths.len(), found.len()), (oldest.len(), oldest.len()), "{generation}");
        }
    }
}
