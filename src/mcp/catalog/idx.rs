//! Surface `idx`: one tool a read of the indexer.

use serde_json::{Map, Value, json};

use super::{Hints, Outline};

/// A parameter of a read.
#[derive(Debug)]
pub struct Parameter {
    name: &'static str,
    shape: Shape,
    description: &'static str,
}

#[derive(Debug)]
enum Shape {
    Id,
    Bound,
    Number { low: u64, high: u64 },
    Text,
    Did,
    Flag,
    Instant,
    Choice(&'static [&'static str]),
    List,
}

/// A read as a tool.
#[derive(Debug)]
pub struct IdxTool {
    name: &'static str,
    title: &'static str,
    description: &'static str,
    path: &'static str,
    path_parameter: Option<Parameter>,
    query: &'static [&'static [Parameter]],
    wrapper: Option<(&'static str, &'static str)>,
    takes_height: bool,
}

const fn parameter(name: &'static str, shape: Shape, description: &'static str) -> Parameter {
    Parameter { name, shape, description }
}

const PAGE: &[Parameter] = &[
    parameter("limit", Shape::Number { low: 1, high: 1024 }, "Page size, default 64."),
    parameter("min_id", Shape::Bound, "Lower bound on id, inclusive."),
    parameter(
        "max_id",
        Shape::Bound,
        "Upper bound on id, exclusive; for the next page of the default order pass the last id seen.",
    ),
    parameter(
        "sort",
        Shape::Choice(&["id", "+id", "-id"]),
        "Order by id: ascending (id, +id) or descending (-id, the default).",
    ),
];
const FRAMEWORK: &[Parameter] = &[
    parameter(
        "gf_data",
        Shape::Choice(&["none", "only_active", "all"]),
        "Which governance framework versions to nest, default only_active.",
    ),
    parameter(
        "preferred_language",
        Shape::Text,
        "BCP 47 tag; keeps one document per version, this language if there is one.",
    ),
];
const MODIFIED: &[Parameter] =
    &[parameter("modified_after", Shape::Instant, "Only what changed after this RFC 3339 instant.")];

pub(super) static TOOLS: &[IdxTool] = &[
    IdxTool {
        name: "svc.idx.co.getCorporation",
        title: "Get a corporation",
        description: "One corporation by id: DID, policy address, language, governance framework. For the bound one svc.wallet.getCorporation is quicker.",
        path: "/v4/corporation/get/",
        path_parameter: Some(parameter("id", Shape::Id, "Corporation id.")),
        query: &[FRAMEWORK],
        wrapper: Some(("corporation", "object")),
        takes_height: true,
    },
    IdxTool {
        name: "svc.idx.co.listCorporations",
        title: "List corporations",
        description: "Corporations of the whole registry, newest id first, found by DID or policy address if given.",
        path: "/v4/corporation/list",
        path_parameter: None,
        query: &[
            &[
                parameter("did", Shape::Did, "Exact DID."),
                parameter("policy_address", Shape::List, "1 to 64 policy addresses."),
            ],
            MODIFIED,
            FRAMEWORK,
            PAGE,
        ],
        wrapper: Some(("corporations", "array")),
        takes_height: true,
    },
    IdxTool {
        name: "svc.idx.es.getEcosystem",
        title: "Get an ecosystem",
        description: "One ecosystem by id: DID, controlling corporation, whether and since when it is archived, governance framework. Verifies createEcosystem, updateEcosystem and archiveEcosystem.",
        path: "/v4/ecosystem/get/",
        path_parameter: Some(parameter("id", Shape::Id, "Ecosystem id.")),
        query: &[FRAMEWORK],
        wrapper: Some(("ecosystem", "object")),
        takes_height: true,
    },
    IdxTool {
        name: "svc.idx.es.listEcosystems",
        title: "List ecosystems",
        description: "Ecosystems of the whole registry, newest id first; narrow them to one corporation or by archive state.",
        path: "/v4/ecosystem/list",
        path_parameter: None,
        query: &[
            &[
                parameter("corporation_id", Shape::Id, "Controlling corporation."),
                parameter("archived", Shape::Flag, "Only archived ones, or only those that are not."),
            ],
            MODIFIED,
            FRAMEWORK,
            PAGE,
        ],
        wrapper: Some(("ecosystems", "array")),
        takes_height: true,
    },
    IdxTool {
        name: "svc.idx.gf.getGovernanceFrameworkVersion",
        title: "Get a governance framework version",
        description: "One governance framework version by its id, with its documents. Ids come from listGovernanceFrameworkVersions.",
        path: "/v4/governance-framework/get/",
        path_parameter: Some(parameter("id", Shape::Id, "Version id (not the version number).")),
        query: &[&[parameter(
            "preferred_language",
            Shape::Text,
            "BCP 47 tag; keeps one document, this language if there is one.",
        )]],
        wrapper: Some(("version", "object")),
        takes_height: true,
    },
    IdxTool {
        name: "svc.idx.gf.listGovernanceFrameworkVersions",
        title: "List governance framework versions",
        description: "All governance framework versions of exactly one owner, an ecosystem or a corporation, with their documents.",
        path: "/v4/governance-framework/list",
        path_parameter: None,
        query: &[
            &[
                parameter("ecosystem_id", Shape::Id, "Owner; or corporation_id."),
                parameter("corporation_id", Shape::Id, "Owner; or ecosystem_id."),
                parameter("active_only", Shape::Flag, "Only the active version."),
                parameter("preferred_language", Shape::Text, "BCP 47 tag; keeps one document per version."),
            ],
            PAGE,
        ],
        wrapper: Some(("versions", "array")),
        takes_height: true,
    },
    IdxTool {
        name: "svc.idx.de.getOperatorAuthorization",
        title: "Get an operator authorization",
        description: "One operator authorization by id: corporation, operator, message types, limits, expiration.",
        path: "/v4/delegation/operator-authorization/",
        path_parameter: Some(parameter("id", Shape::Id, "Authorization id.")),
        query: &[],
        wrapper: Some(("authorization", "object")),
        takes_height: true,
    },
    IdxTool {
        name: "svc.idx.de.listOperatorAuthorizations",
        title: "List operator authorizations",
        description: "Operator authorizations of the whole registry by corporation, operator or message type. For this operator's own svc.wallet.listAuthorizations is quicker.",
        path: "/v4/delegation/operator-authorizations",
        path_parameter: None,
        query: &[
            &[
                parameter("corporation_id", Shape::Id, "Granting corporation."),
                parameter("operator", Shape::Text, "Operator account, bech32."),
                parameter("msg_type", Shape::Text, "Message type URL that must be listed."),
                parameter("only_active", Shape::Flag, "Only those that have not expired."),
            ],
            PAGE,
        ],
        wrapper: Some(("authorizations", "array")),
        takes_height: true,
    },
    IdxTool {
        name: "svc.idx.de.getVSOperatorAuthorization",
        title: "Get a VS-operator authorization",
        description: "One verifiable-service operator authorization by id, with a record per participant.",
        path: "/v4/delegation/vs-operator-authorization/",
        path_parameter: Some(parameter("id", Shape::Id, "Authorization id.")),
        query: &[],
        wrapper: Some(("authorization", "object")),
        takes_height: true,
    },
    IdxTool {
        name: "svc.idx.de.listVSOperatorAuthorizations",
        title: "List VS-operator authorizations",
        description: "Verifiable-service operator authorizations by corporation, account or participant.",
        path: "/v4/delegation/vs-operator-authorizations",
        path_parameter: None,
        query: &[
            &[
                parameter("corporation_id", Shape::Id, "Granting corporation."),
                parameter("vs_operator", Shape::Text, "VS-operator account, bech32."),
                parameter("participant_id", Shape::Id, "Participant with a record."),
            ],
            PAGE,
        ],
        wrapper: Some(("authorizations", "array")),
        takes_height: true,
    },
    IdxTool {
        name: "svc.idx.de.listFeeGrants",
        title: "List fee grants",
        description: "Fee allowances that corporations give to operators, with what is left of each limit.",
        path: "/v4/delegation/fee-grants",
        path_parameter: None,
        query: &[
            &[
                parameter("grantor_corporation_id", Shape::Id, "Paying corporation."),
                parameter("grantee", Shape::Text, "Account whose fees are paid, bech32."),
                parameter("msg_type", Shape::Text, "Message type URL that must be listed."),
                parameter("only_active", Shape::Flag, "Only those that have not expired."),
            ],
            PAGE,
        ],
        wrapper: Some(("fee_grants", "array")),
        takes_height: true,
    },
    IdxTool {
        name: "svc.idx.indexer.getBlockHeight",
        title: "Get the indexer's height",
        description: "The newest block the indexer has taken in. Reads show the state after this block.",
        path: "/v4/indexer/block-height",
        path_parameter: None,
        query: &[],
        wrapper: Some(("height", "integer")),
        takes_height: false,
    },
    IdxTool {
        name: "svc.idx.indexer.getStatus",
        title: "Get the indexer's status",
        description: "Whether the indexer runs and takes blocks in, and its last error if it does not.",
        path: "/v4/indexer/status",
        path_parameter: None,
        query: &[],
        wrapper: Some(("is_running", "boolean")),
        takes_height: false,
    },
    IdxTool {
        name: "svc.idx.indexer.getVersion",
        title: "Get the indexer's version",
        description: "Version of the indexer and the network it follows: chain id, node version, RPC endpoint.",
        path: "/v4/indexer/version",
        path_parameter: None,
        query: &[],
        wrapper: Some(("app_version", "string")),
        takes_height: false,
    },
    IdxTool {
        name: "svc.idx.indexer.listEvents",
        title: "List registry events",
        description: "Registry events in block order: what happened to which entity, by whom. Follow next_cursor for the next page.",
        path: "/v4/indexer/events",
        path_parameter: None,
        query: &[&[
            parameter("dids", Shape::List, "Only events that concern one of these DIDs."),
            parameter("corporation_id", Shape::Id, "Only events that concern this corporation."),
            parameter(
                "after_block_height",
                Shape::Number { low: 0, high: u64::MAX },
                "Strictly after this height, default 0.",
            ),
            parameter("limit", Shape::Number { low: 1, high: 500 }, "Page size, default 100."),
            parameter("cursor", Shape::Text, "next_cursor of the page before; it replaces after_block_height."),
        ]],
        wrapper: Some(("events", "array")),
        takes_height: false,
    },
];

impl Parameter {
    fn schema(&self) -> Value {
        let mut schema = match self.shape {
            Shape::Id => json!({"type": ["integer", "string"], "minimum": 1, "pattern": "^0*[1-9][0-9]{0,18}$"}),
            Shape::Bound => json!({"type": ["integer", "string"], "minimum": 0, "pattern": "^[0-9]{1,19}$"}),
            Shape::Number { low, high: u64::MAX } => json!({"type": "integer", "minimum": low}),
            Shape::Number { low, high } => json!({"type": "integer", "minimum": low, "maximum": high}),
            Shape::Text => json!({"type": "string", "minLength": 1}),
            Shape::Did => json!({"type": "string", "pattern": svc_wire::syntax::DID_PATTERN}),
            Shape::Flag => json!({"type": "boolean"}),
            Shape::Instant => json!({"type": "string", "format": "date-time"}),
            Shape::Choice(values) => json!({"type": "string", "enum": values}),
            Shape::List => json!({"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1}),
        };
        schema["description"] = self.description.into();
        schema
    }
}

/// A read ready to be asked.
#[derive(Debug, PartialEq, Eq)]
pub struct Asked {
    /// Path with its parameter.
    pub path: String,
    /// Query pairs.
    pub query: Vec<(String, String)>,
    /// `At-Block-Height`.
    pub at_block_height: Option<u64>,
}

impl IdxTool {
    /// Bounded name of the read, for spans.
    pub fn operation(&self) -> &'static str {
        self.path
    }

    fn parameters(&self) -> impl Iterator<Item = &Parameter> {
        self.query.iter().copied().flatten()
    }

    pub(super) fn outline(&self) -> Outline {
        let mut properties = Map::new();
        for parameter in self.path_parameter.iter().chain(self.parameters()) {
            properties.insert(parameter.name.to_owned(), parameter.schema());
        }
        if self.takes_height {
            let description = "Read the state after this block instead of the newest.";
            let schema = json!({"type": "integer", "minimum": 0, "description": description});
            properties.insert("at_block_height".to_owned(), schema);
        }
        let required: Vec<&str> = self.path_parameter.iter().map(|parameter| parameter.name).collect();
        let output = match self.wrapper {
            Some((key, kind)) => json!({"type": "object", "properties": {key: {"type": kind}}, "required": [key]}),
            None => json!({"type": "object"}),
        };
        Outline {
            name: self.name,
            title: self.title,
            description: self.description.to_owned(),
            input: json!({
                "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "properties": properties,
                "required": required, "additionalProperties": false,
            }),
            output,
            hints: Hints::READ,
        }
    }

    /// The request for validated arguments.
    pub fn ask(&self, arguments: &Value) -> Asked {
        let text = |value: &Value| match value {
            Value::String(text) => text.clone(),
            Value::Array(items) => items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(","),
            other => other.to_string(),
        };
        let mut path = self.path.to_owned();
        if let Some(parameter) = &self.path_parameter {
            path.push_str(&text(&arguments[parameter.name]));
        }
        let query = self
            .parameters()
            .filter_map(|parameter| arguments.get(parameter.name).map(|value| (parameter.name.to_owned(), text(value))))
            .collect();
        Asked { path, query, at_block_height: arguments.get("at_block_height").and_then(Value::as_u64) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_become_path_query_and_header() {
        let tool = |name: &str| TOOLS.iter().find(|tool| tool.name == name).expect("known");
        let asked = tool("svc.idx.es.getEcosystem").ask(&json!({"id": "7", "gf_data": "all", "at_block_height": 5}));
        let query = vec![("gf_data".to_owned(), "all".to_owned())];
        assert_eq!(asked, Asked { path: "/v4/ecosystem/get/7".into(), query, at_block_height: Some(5) });
        let asked = tool("svc.idx.indexer.listEvents").ask(&json!({"dids": ["did:web:a", "did:web:b"], "limit": 3}));
        assert_eq!(asked.query[0].1, "did:web:a,did:web:b");
    }
}
