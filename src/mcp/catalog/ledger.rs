//! Surface `ledger`: one tool a message.

use serde_json::{Value, json};
use svc_wire::{
    schema::{Registry, SchemaError, input_schema},
    syntax::{DID_PATTERN, DIGEST_SRI_PATTERN, MAX_LANGUAGE_BYTES},
};

use super::{Hints, Outline};

/// An account the server fills in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Account {
    /// The corporation's policy address.
    Corporation,
    /// The operator's own address.
    Operator,
}

/// A field as a model must understand it.
#[derive(Debug)]
pub struct Field {
    name: &'static str,
    description: &'static str,
    is_required: bool,
    rule: Rule,
}

#[derive(Debug)]
enum Rule {
    AsDeclared,
    Did,
    Language { is_short: bool },
    HttpUrl,
    DigestSri,
    PositiveId,
    Version,
    NonEmptyList,
}

/// A message as a tool.
#[derive(Debug)]
pub struct LedgerTool {
    name: &'static str,
    title: &'static str,
    description: &'static str,
    /// Module of the message.
    pub module: &'static str,
    /// Name of the message.
    pub message: &'static str,
    /// Accounts the server fills in, by field.
    pub accounts: &'static [(&'static str, Account)],
    /// Whether an authorization of the corporation is needed.
    pub needs_grant: bool,
    hints: Hints,
    fields: &'static [Field],
    verified_by: &'static str,
}

const BOTH: &[(&str, Account)] = &[("corporation", Account::Corporation), ("operator", Account::Operator)];
const CREATES: Hints = Hints { read_only: false, destructive: false, idempotent: false };
const SETS: Hints = Hints { read_only: false, destructive: false, idempotent: true };
const ENDS: Hints = Hints { read_only: false, destructive: true, idempotent: false };

const fn field(name: &'static str, rule: Rule, is_required: bool, description: &'static str) -> Field {
    Field { name, description, is_required, rule }
}

const DOC_URL: Field = field(
    "doc_url",
    Rule::HttpUrl,
    true,
    "Absolute http or https URL of the governance framework document, e.g. https://example.org/egf-v1.pdf.",
);
const DOC_DIGEST: Field = field(
    "doc_digest_sri",
    Rule::DigestSri,
    true,
    "Subresource Integrity digest of the document at doc_url: sha256-, sha384- or sha512- and base64, e.g. sha384-oqVuAf….",
);

pub(super) static TOOLS: &[LedgerTool] = &[
    LedgerTool {
        name: "svc.ledger.co.createCorporation",
        title: "Create a corporation",
        description: "Creates a new corporation with its group, group policy account and first governance framework document. \
            Any account may; the creator keeps no rights over it, and this server goes on acting for its own corporation. \
            Returns corporation_id and policy_address.",
        module: "co",
        message: "MsgCreateCorporation",
        accounts: &[("signer", Account::Operator)],
        needs_grant: false,
        hints: CREATES,
        fields: &[
            field(
                "members",
                Rule::NonEmptyList,
                true,
                "Group members: address (bech32), weight (positive decimal text), metadata. At least one.",
            ),
            field("group_metadata", Rule::AsDeclared, false, "Free text of the group, at most 255 bytes."),
            field(
                "group_policy_metadata",
                Rule::AsDeclared,
                false,
                "Free text of the group policy, at most 255 bytes.",
            ),
            field(
                "decision_policy",
                Rule::AsDeclared,
                true,
                "How proposals pass: {\"@type\": \"/cosmos.group.v1.ThresholdDecisionPolicy\", \"threshold\": \"1\", \"windows\": {\"voting_period\": \
                 \"86400s\", \"min_execution_period\": \"0s\"}}, or PercentageDecisionPolicy with percentage between 0 and 1.",
            ),
            field("did", Rule::Did, true, "DID of the corporation, unused by any other, e.g. did:web:example.org."),
            field("language", Rule::Language { is_short: true }, true, "Primary language as a BCP 47 tag, e.g. en."),
            DOC_URL,
            DOC_DIGEST,
        ],
        verified_by: "svc.idx.co.getCorporation",
    },
    LedgerTool {
        name: "svc.ledger.co.updateCorporation",
        title: "Change the corporation's DID",
        description: "Gives the bound corporation another DID. The same DID again succeeds without any effect.",
        module: "co",
        message: "MsgUpdateCorporation",
        accounts: BOTH,
        needs_grant: true,
        hints: SETS,
        fields: &[field("did", Rule::Did, true, "New DID, unused by any other corporation, e.g. did:web:example.org.")],
        verified_by: "svc.idx.co.getCorporation",
    },
    LedgerTool {
        name: "svc.ledger.es.createEcosystem",
        title: "Create an ecosystem",
        description: "Creates an ecosystem controlled by the bound corporation, with its first governance framework document. \
            Calling it again creates another one, also with the same DID. Returns ecosystem_id.",
        module: "ec",
        message: "MsgCreateEcosystem",
        accounts: BOTH,
        needs_grant: true,
        hints: CREATES,
        fields: &[
            field(
                "did",
                Rule::Did,
                true,
                "DID of the ecosystem; not one of another corporation's ecosystems, e.g. did:web:example.org.",
            ),
            field("language", Rule::Language { is_short: true }, true, "Primary language as a BCP 47 tag, e.g. en."),
            DOC_URL,
            DOC_DIGEST,
        ],
        verified_by: "svc.idx.es.getEcosystem",
    },
    LedgerTool {
        name: "svc.ledger.es.updateEcosystem",
        title: "Change an ecosystem's DID",
        description: "Gives an ecosystem of the bound corporation another DID. The same DID again succeeds without any effect.",
        module: "ec",
        message: "MsgUpdateEcosystem",
        accounts: BOTH,
        needs_grant: true,
        hints: SETS,
        fields: &[
            field("id", Rule::PositiveId, true, "Ecosystem id, see svc.idx.es.listEcosystems."),
            field("did", Rule::Did, true, "New DID, not one of another corporation's ecosystems."),
        ],
        verified_by: "svc.idx.es.getEcosystem",
    },
    LedgerTool {
        name: "svc.ledger.es.archiveEcosystem",
        title: "Archive or unarchive an ecosystem",
        description: "Marks an ecosystem of the bound corporation as archived, or takes the mark away. It can be undone. Fails when it \
            already is in that state.",
        module: "ec",
        message: "MsgArchiveEcosystem",
        accounts: BOTH,
        needs_grant: true,
        hints: ENDS,
        fields: &[
            field("id", Rule::PositiveId, true, "Ecosystem id, see svc.idx.es.listEcosystems."),
            field("archive", Rule::AsDeclared, true, "true archives, false unarchives."),
        ],
        verified_by: "svc.idx.es.getEcosystem",
    },
    LedgerTool {
        name: "svc.ledger.gf.addGovernanceFrameworkDocument",
        title: "Add a governance framework document",
        description: "Adds or replaces a document of a governance framework version above the active one: of an ecosystem, or of the \
            corporation itself when ecosystem_id is left out. It becomes active only with \
            svc.ledger.gf.increaseActiveGovernanceFrameworkVersion.",
        module: "gf",
        message: "MsgAddGovernanceFrameworkDocument",
        accounts: BOTH,
        needs_grant: true,
        hints: SETS,
        fields: &[
            field(
                "ecosystem_id",
                Rule::AsDeclared,
                false,
                "Ecosystem of the framework; 0 or absent: the corporation's own framework.",
            ),
            field(
                "doc_language",
                Rule::Language { is_short: false },
                true,
                "Language of the document as a BCP 47 tag; replaces the document of the same tag.",
            ),
            DOC_URL,
            DOC_DIGEST,
            field("version", Rule::Version, true, "An inactive version that exists, or the highest one plus 1."),
        ],
        verified_by: "svc.idx.gf.listGovernanceFrameworkVersions",
    },
    LedgerTool {
        name: "svc.ledger.gf.increaseActiveGovernanceFrameworkVersion",
        title: "Activate the next governance framework version",
        description: "Makes the next version of a governance framework the active one. It needs a document in the primary language of its \
            owner. It cannot be undone.",
        module: "gf",
        message: "MsgIncreaseActiveGovernanceFrameworkVersion",
        accounts: BOTH,
        needs_grant: true,
        hints: ENDS,
        fields: &[field(
            "ecosystem_id",
            Rule::AsDeclared,
            false,
            "Ecosystem of the framework; 0 or absent: the corporation's own framework.",
        )],
        verified_by: "svc.idx.gf.listGovernanceFrameworkVersions",
    },
    LedgerTool {
        name: "svc.ledger.de.grantOperatorAuthorization",
        title: "Grant an operator authorization",
        description: "Lets another account act for the bound corporation with the listed message types, or replaces what it was granted. Not \
            for this operator itself. The grantee may be given types this operator lacks.",
        module: "de",
        message: "MsgGrantOperatorAuthorization",
        accounts: BOTH,
        needs_grant: true,
        hints: Hints { read_only: false, destructive: true, idempotent: true },
        fields: &[
            field("grantee", Rule::AsDeclared, true, "Account that gets the authorization, bech32."),
            field(
                "msg_types",
                Rule::NonEmptyList,
                true,
                "Complete message type URLs with leading slash, as svc.wallet.listAuthorizations shows them.",
            ),
            field("expiration", Rule::AsDeclared, false, "End of validity, RFC 3339, in the future; absent: none."),
            field(
                "authz_spend_limit",
                Rule::AsDeclared,
                false,
                "What the grantee may spend of the corporation's coins: amounts in base units; absent: no limit.",
            ),
            field(
                "authz_spend_limit_period",
                Rule::AsDeclared,
                false,
                "Renews limit and validity each period, e.g. \"86400s\"; needs expiration.",
            ),
            field(
                "with_feegrant",
                Rule::AsDeclared,
                false,
                "Whether the corporation pays the grantee's transaction fees; false also ends an earlier allowance.",
            ),
            field(
                "feegrant_spend_limit",
                Rule::AsDeclared,
                false,
                "Limit of the fees, amounts in base units; absent: no limit.",
            ),
            field(
                "feegrant_spend_limit_period",
                Rule::AsDeclared,
                false,
                "Renews the fee limit each period; needs feegrant_spend_limit and expiration.",
            ),
        ],
        verified_by: "svc.idx.de.listOperatorAuthorizations",
    },
    LedgerTool {
        name: "svc.ledger.de.revokeOperatorAuthorization",
        title: "Revoke an operator authorization",
        description: "Ends an account's authorization to act for the bound corporation, and its fee allowance. An operator that revokes itself \
            loses every write tool of this server at once.",
        module: "de",
        message: "MsgRevokeOperatorAuthorization",
        accounts: BOTH,
        needs_grant: true,
        hints: ENDS,
        fields: &[field("grantee", Rule::AsDeclared, true, "Account whose authorization ends, bech32.")],
        verified_by: "svc.idx.de.listOperatorAuthorizations",
    },
];

impl LedgerTool {
    pub(super) fn outline(&self, registry: &Registry, msg_type: &str) -> Result<Outline, SchemaError> {
        let hidden: Vec<&str> = self.accounts.iter().map(|(field, _)| *field).collect();
        let mut input = input_schema(&registry.message(msg_type)?, &hidden);
        for field in self.fields {
            field.apply(&mut input["properties"][field.name]);
        }
        let required: Vec<&str> =
            self.fields.iter().filter(|field| field.is_required).map(|field| field.name).collect();
        input["required"] = required.into();
        let description = format!(
            "{} Waits for the block and the indexer, and returns tx_hash, block_height, indexer_synced and response. Verify with {}.",
            self.description, self.verified_by
        );
        Ok(Outline {
            name: self.name,
            title: self.title,
            description,
            input,
            output: receipt_schema(),
            hints: self.hints,
        })
    }
}

impl Field {
    fn apply(&self, schema: &mut Value) {
        schema["description"] = self.description.into();
        match self.rule {
            Rule::AsDeclared => {}
            Rule::Did => schema["pattern"] = DID_PATTERN.into(),
            Rule::Language { is_short } => {
                schema["minLength"] = 1.into();
                schema["pattern"] = "^[A-Za-z0-9]+(-[A-Za-z0-9]+)*$".into();
                if is_short {
                    schema["maxLength"] = MAX_LANGUAGE_BYTES.into();
                }
            }
            Rule::HttpUrl => schema["pattern"] = "^https?://[^/\\s]".into(),
            Rule::DigestSri => schema["pattern"] = DIGEST_SRI_PATTERN.into(),
            Rule::PositiveId => {
                schema["minimum"] = 1.into();
                schema["pattern"] = "^0*[1-9][0-9]{0,19}$".into();
            }
            Rule::Version => schema["minimum"] = 1.into(),
            Rule::NonEmptyList => schema["minItems"] = 1.into(),
        }
    }
}

fn receipt_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "tx_hash": {"type": "string", "description": "Upper-case hex."},
            "block_height": {"type": "integer"},
            "code": {"type": "integer", "description": "0: executed."},
            "gas_used": {"type": "integer"},
            "gas_wanted": {"type": "integer"},
            "raw_log": {"type": "string"},
            "events": {"type": "array", "items": {"type": "object"}},
            "indexer_synced": {"type": "boolean", "description": "Whether reads already show this write; false is no error."},
            "indexer_height": {"type": "integer"},
            "response": {"type": "object", "description": "The chain's decoded answer, for example the new id."},
            "fee_payer": {"type": "string", "enum": ["corporation", "operator"]},
            "timings_ms": {"type": "object"}
        },
        "required": ["tx_hash", "block_height", "code", "indexer_synced", "response"]
    })
}
