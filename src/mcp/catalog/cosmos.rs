//! Surface `cosmos`: reads of the chain's Cosmos SDK modules and of CometBFT, through the node.

use serde_json::{Map, Value, json};

use super::{
    definition::{ToolDefinition, min_height_schema},
    idx::DEFAULT_ROWS,
    table::{CatalogError, ToolRow},
};
use crate::tools::{ToolEffect, read_table};

/// A read of the node as a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CosmosTool {
    /// Module and read: the last two segments of the tool's name.
    read: String,
}

/// A request to the node.
#[derive(Debug, PartialEq)]
pub enum CosmosQuery {
    /// A transaction by hash.
    TxByHash(String),
    /// An RPC method.
    RpcMethod {
        /// Name of the method.
        method: &'static str,
        /// Its parameters.
        params: Value,
    },
    /// A gRPC query.
    GrpcQuery {
        /// `/package.Query/Method`
        path: &'static str,
        /// The request.
        request: Value,
        /// Height of the state; 0 is the newest.
        height: u64,
    },
}

/// Values of arguments that a call leaves out.
pub struct QueryDefaults<'a> {
    /// Account of the operator.
    pub operator: &'a str,
    /// Account of the corporation.
    pub policy_address: &'a str,
    /// Fee denom.
    pub denom: &'a str,
}

pub(super) fn tools() -> Result<Vec<(ToolDefinition, CosmosTool)>, CatalogError> {
    let rows: Vec<ToolRow> = read_table("cosmos", include_str!("data/cosmos.json"))?;
    Ok(rows
        .into_iter()
        .map(|row| {
            let tool = CosmosTool { read: row.name.trim_start_matches("svc.cosmos.").to_owned() };
            let mut definition = row.into_definition(ToolEffect::Reads);
            definition.input.insert("min_height".into(), min_height_schema());
            (definition, tool)
        })
        .collect())
}

impl CosmosTool {
    /// The request for validated arguments. Fails with a reason when the arguments exclude each other.
    pub fn build_query(&self, arguments: &Value, defaults: &QueryDefaults<'_>) -> Result<CosmosQuery, String> {
        let text = |name: &str| arguments[name].as_str();
        let (granter, grantee) = (text("granter"), text("grantee"));
        let id = || match &arguments["proposal_id"] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let page = || {
            let mut page = Map::new();
            page.insert("limit".into(), arguments.get("limit").cloned().unwrap_or_else(|| DEFAULT_ROWS.into()));
            if let Some(cursor) = text("cursor") {
                page.insert("key".into(), cursor.into());
            }
            Value::Object(page)
        };
        let grpc = |path: &'static str, request: Value| {
            let height = arguments["at_block_height"].as_u64().unwrap_or(0);
            Ok(CosmosQuery::GrpcQuery { path, request, height })
        };
        match self.read.as_str() {
            "bank.getBalance" => {
                let denom = text("denom").unwrap_or(defaults.denom);
                grpc("/cosmos.bank.v1beta1.Query/Balance", json!({"address": text("address"), "denom": denom}))
            }
            "bank.getAllBalances" => grpc(
                "/cosmos.bank.v1beta1.Query/AllBalances",
                json!({"address": text("address"), "pagination": page()}),
            ),
            "auth.getAccount" => grpc("/cosmos.auth.v1beta1.Query/Account", json!({"address": text("address")})),
            "group.listProposals" => {
                let address = text("policy_address").unwrap_or(defaults.policy_address);
                let request = json!({"address": address, "pagination": page()});
                grpc("/cosmos.group.v1.Query/ProposalsByGroupPolicy", request)
            }
            "group.getProposal" => grpc("/cosmos.group.v1.Query/Proposal", json!({"proposal_id": id()})),
            "group.listVotes" => {
                grpc("/cosmos.group.v1.Query/VotesByProposal", json!({"proposal_id": id(), "pagination": page()}))
            }
            "feegrant.listAllowances" => match (granter, grantee) {
                (Some(_), Some(_)) => Err("grantee and granter exclude each other".to_owned()),
                (Some(granter), None) => grpc(
                    "/cosmos.feegrant.v1beta1.Query/AllowancesByGranter",
                    json!({"granter": granter, "pagination": page()}),
                ),
                (None, grantee) => grpc(
                    "/cosmos.feegrant.v1beta1.Query/Allowances",
                    json!({"grantee": grantee.unwrap_or(defaults.operator), "pagination": page()}),
                ),
            },
            "authz.listGrants" => match (granter, grantee) {
                (Some(granter), Some(grantee)) => grpc(
                    "/cosmos.authz.v1beta1.Query/Grants",
                    json!({"granter": granter, "grantee": grantee, "pagination": page()}),
                ),
                (Some(granter), None) => {
                    grpc("/cosmos.authz.v1beta1.Query/GranterGrants", json!({"granter": granter, "pagination": page()}))
                }
                (None, grantee) => grpc(
                    "/cosmos.authz.v1beta1.Query/GranteeGrants",
                    json!({"grantee": grantee.unwrap_or(defaults.operator), "pagination": page()}),
                ),
            },
            "tendermint.getStatus" => Ok(CosmosQuery::RpcMethod { method: "status", params: json!({}) }),
            "tendermint.getBlock" => {
                let height = arguments["height"].as_u64();
                let params = height.map_or_else(|| json!({}), |height| json!({"height": height.to_string()}));
                Ok(CosmosQuery::RpcMethod { method: "block", params })
            }
            "tx.getTx" => {
                let hash = text("hash").unwrap_or_default();
                Ok(CosmosQuery::TxByHash(hash.trim_start_matches("0x").to_ascii_uppercase()))
            }
            other => Err(format!("there is no read {other}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULTS: QueryDefaults<'_> = QueryDefaults { operator: "svc1me", policy_address: "svc1co", denom: "usvc" };

    fn query(tool: &str, arguments: Value) -> Result<CosmosQuery, String> {
        CosmosTool { read: tool.to_owned() }.build_query(&arguments, &DEFAULTS)
    }

    #[test]
    fn omitted_arguments_default_to_the_operators_own_values() {
        for (tool, arguments, path, member, value) in [
            ("bank.getBalance", json!({"address": "a"}), "/cosmos.bank.v1beta1.Query/Balance", "denom", "usvc"),
            ("group.listProposals", json!({}), "/cosmos.group.v1.Query/ProposalsByGroupPolicy", "address", "svc1co"),
            ("feegrant.listAllowances", json!({}), "/cosmos.feegrant.v1beta1.Query/Allowances", "grantee", "svc1me"),
            ("authz.listGrants", json!({}), "/cosmos.authz.v1beta1.Query/GranteeGrants", "grantee", "svc1me"),
            ("authz.listGrants", json!({"granter": "g"}), "/cosmos.authz.v1beta1.Query/GranterGrants", "granter", "g"),
            ("group.getProposal", json!({"proposal_id": 7}), "/cosmos.group.v1.Query/Proposal", "proposal_id", "7"),
        ] {
            match query(tool, arguments) {
                Ok(CosmosQuery::GrpcQuery { path: found, request, height: 0 }) => {
                    assert_eq!((found, &request[member]), (path, &json!(value)), "{tool}");
                }
                other => panic!("{tool}: {other:?}"),
            }
        }
        assert!(query("feegrant.listAllowances", json!({"granter": "a", "grantee": "b"})).is_err());
        assert_eq!(query("tx.getTx", json!({"hash": "0xab"})), Ok(CosmosQuery::TxByHash("AB".into())));
        assert_eq!(
            query("tendermint.getBlock", json!({"height": 7})),
            Ok(CosmosQuery::RpcMethod { method: "block", params: json!({"height": "7"}) })
        );
    }

    #[test]
    fn every_tool_of_the_table_has_a_request() {
        for (_, tool) in tools().expect("the table") {
            assert!(tool.build_query(&json!({}), &DEFAULTS).is_ok(), "{tool:?}");
        }
    }
}
