//! Surface `cosmos`: reads of the chain's own platform, through the node.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{CatalogError, Effect, Outline, Row, min_height, table};

/// A read of the node as a tool, by the last two segments of its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CosmosTool(String);

#[derive(Deserialize)]
struct CosmosRow {
    #[serde(flatten)]
    row: Row,
}

/// What the node is asked.
#[derive(Debug, PartialEq)]
pub enum Query {
    /// A transaction by hash.
    Tx(String),
    /// An RPC method.
    Rpc(&'static str, Value),
    /// A gRPC query.
    Grpc {
        /// `/package.Query/Method`
        path: &'static str,
        /// The request.
        request: Value,
        /// Height of the state; 0: the newest.
        height: u64,
    },
}

/// Who asks, for what is left out.
pub struct Defaults<'a> {
    /// Account of the operator.
    pub operator: &'a str,
    /// Account of the corporation.
    pub policy_address: &'a str,
    /// Fee denom.
    pub denom: &'a str,
}

pub(super) fn tools() -> Result<Vec<(Outline, CosmosTool)>, CatalogError> {
    let rows: Vec<CosmosRow> = table("cosmos", include_str!("data/cosmos.json"))?;
    Ok(rows
        .into_iter()
        .map(|CosmosRow { row }| {
            let tool = CosmosTool(row.name.trim_start_matches("svc.cosmos.").to_owned());
            let mut outline = row.outline(Effect::Reads);
            outline.input.insert("min_height".into(), min_height("node"));
            (outline, tool)
        })
        .collect())
}

impl CosmosTool {
    /// The question for validated arguments; the text names what is wrong with them together.
    pub fn query(&self, arguments: &Value, defaults: &Defaults<'_>) -> Result<Query, String> {
        let text = |name: &str| arguments[name].as_str();
        let (granter, grantee) = (text("granter"), text("grantee"));
        let id = || match &arguments["proposal_id"] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let page = || {
            let mut page = Map::new();
            page.insert("limit".into(), arguments.get("limit").cloned().unwrap_or_else(|| json!(100)));
            if let Some(cursor) = text("cursor") {
                page.insert("key".into(), cursor.into());
            }
            Value::Object(page)
        };
        let grpc = |path: &'static str, request: Value| {
            let height = arguments["at_block_height"].as_u64().unwrap_or(0);
            Ok(Query::Grpc { path, request, height })
        };
        match self.0.as_str() {
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
            "tendermint.getStatus" => Ok(Query::Rpc("status", json!({}))),
            "tendermint.getBlock" => Ok(Query::Rpc(
                "block",
                arguments["height"].as_u64().map_or_else(|| json!({}), |height| json!({"height": height.to_string()})),
            )),
            "tx.getTx" => {
                let hash = text("hash").unwrap_or_default();
                Ok(Query::Tx(hash.trim_start_matches("0x").to_ascii_uppercase()))
            }
            other => Err(format!("there is no read {other}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULTS: Defaults<'_> = Defaults { operator: "svc1me", policy_address: "svc1co", denom: "usvc" };

    fn query(tool: &str, arguments: Value) -> Result<Query, String> {
        CosmosTool(tool.to_owned()).query(&arguments, &DEFAULTS)
    }

    #[test]
    fn what_is_left_out_is_the_operators_own() {
        for (tool, arguments, path, member, value) in [
            ("bank.getBalance", json!({"address": "a"}), "/cosmos.bank.v1beta1.Query/Balance", "denom", "usvc"),
            ("group.listProposals", json!({}), "/cosmos.group.v1.Query/ProposalsByGroupPolicy", "address", "svc1co"),
            ("feegrant.listAllowances", json!({}), "/cosmos.feegrant.v1beta1.Query/Allowances", "grantee", "svc1me"),
            ("authz.listGrants", json!({}), "/cosmos.authz.v1beta1.Query/GranteeGrants", "grantee", "svc1me"),
            ("authz.listGrants", json!({"granter": "g"}), "/cosmos.authz.v1beta1.Query/GranterGrants", "granter", "g"),
            ("group.getProposal", json!({"proposal_id": 7}), "/cosmos.group.v1.Query/Proposal", "proposal_id", "7"),
        ] {
            match query(tool, arguments) {
                Ok(Query::Grpc { path: found, request, height: 0 }) => {
                    assert_eq!((found, &request[member]), (path, &json!(value)), "{tool}");
                }
                other => panic!("{tool}: {other:?}"),
            }
        }
        assert!(query("feegrant.listAllowances", json!({"granter": "a", "grantee": "b"})).is_err());
        assert_eq!(query("tx.getTx", json!({"hash": "0xab"})), Ok(Query::Tx("AB".into())));
        assert_eq!(query("tendermint.getBlock", json!({"height": 7})), Ok(Query::Rpc("block", json!({"height": "7"}))));
    }

    #[test]
    fn every_tool_of_the_table_has_a_question() {
        for (_, tool) in tools().expect("the table") {
            assert!(tool.query(&json!({}), &DEFAULTS).is_ok(), "{tool:?}");
        }
    }
}
