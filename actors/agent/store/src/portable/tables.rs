//! The tables of a store that an export has, with the kinds of their columns.
//!
//! A test compares this list with the tables that the migrations make: a column that is missing here fails the build.

/// The kind of a column's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnKind {
    /// A whole number of 64 bits.
    Integer,
    /// A text.
    Text,
}

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TableColumn {
    /// Name.
    pub name: &'static str,
    /// Kind.
    pub kind: ColumnKind,
    /// Whether a row may have no value here.
    pub is_nullable: bool,
}

/// A table.
#[derive(Debug)]
pub(super) struct PortableTable {
    /// Name.
    pub name: &'static str,
    /// Columns, in the order of a row in the file.
    pub columns: &'static [TableColumn],
    /// Whether the migrations insert its only row, which an import replaces.
    pub is_seeded: bool,
}

const fn integer(name: &'static str) -> TableColumn {
    TableColumn { name, kind: ColumnKind::Integer, is_nullable: false }
}

const fn optional_integer(name: &'static str) -> TableColumn {
    TableColumn { name, kind: ColumnKind::Integer, is_nullable: true }
}

const fn text(name: &'static str) -> TableColumn {
    TableColumn { name, kind: ColumnKind::Text, is_nullable: false }
}

const fn optional_text(name: &'static str) -> TableColumn {
    TableColumn { name, kind: ColumnKind::Text, is_nullable: true }
}

const fn table(name: &'static str, columns: &'static [TableColumn]) -> PortableTable {
    PortableTable { name, columns, is_seeded: false }
}

const fn seeded(name: &'static str, columns: &'static [TableColumn]) -> PortableTable {
    PortableTable { name, columns, is_seeded: true }
}

/// Every table of an export, in the order of the file.
pub(super) const TABLES: &[PortableTable] = &[
    table("identity", &[integer("one"), text("did"), text("base_url")]),
    table("private_key", &[text("name"), integer("version"), text("sealed")]),
    table(
        "document_version",
        &[integer("number"), text("version_id"), integer("written_at"), text("content"), text("presented")],
    ),
    table(
        "credential",
        &[
            text("id"),
            text("kind"),
            text("name"),
            integer("schema_id"),
            text("issuer"),
            text("subject"),
            integer("issuer_participant"),
            text("digest"),
            text("claims_digest"),
            text("proof_method"),
            text("body"),
            text("state"),
            optional_text("reason"),
            optional_text("tx_hash"),
            optional_integer("valid_until"),
            integer("created_at"),
        ],
    ),
    table(
        "key_rotation",
        &[
            integer("one"),
            text("kind"),
            text("phase"),
            integer("since"),
            integer("new_version"),
            integer("reissue"),
            integer("compromised"),
        ],
    ),
    table("chain", &[integer("one"), text("chain_id"), text("account"), integer("height")]),
    table("own_transaction", &[text("hash")]),
    seeded(
        "resolution",
        &[
            integer("one"),
            integer("wanted"),
            integer("first_change_at"),
            integer("last_change_at"),
            integer("submitted"),
            integer("done"),
            optional_text("tx_hash"),
        ],
    ),
    seeded("event_cursor", &[integer("one"), integer("height"), integer("stored"), integer("next_number")]),
    table("event_at_cursor", &[text("id")]),
    table("event_gap", &[integer("from_height"), integer("to_height"), integer("count")]),
    table(
        "outbox",
        &[integer("number"), text("id"), text("kind"), integer("height"), integer("stored_at"), text("body")],
    ),
    table(
        "dead_letter",
        &[
            integer("number"),
            text("id"),
            text("kind"),
            integer("height"),
            integer("stored_at"),
            text("body"),
            integer("attempts"),
            optional_integer("last_status"),
            optional_text("last_error"),
            integer("moved_at"),
        ],
    ),
    table(
        "peer_connection",
        &[
            text("id"),
            text("role"),
            text("our_did"),
            text("their_did"),
            text("public_did"),
            text("previous"),
            integer("has_ended"),
            optional_text("thread_id"),
            optional_text("out_of_band_id"),
            optional_text("parent_id"),
            optional_integer("trusted"),
            optional_integer("judged_at"),
            optional_integer("last_seen_at"),
            integer("waiting"),
            integer("unanswered"),
            integer("basic_messages"),
            optional_integer("next_due"),
            integer("created_at"),
            integer("updated_at"),
        ],
    ),
    table("peer_did", &[text("did"), text("connection_id")]),
    table(
        "own_peer_did",
        &[
            text("did"),
            text("long_did"),
            text("out_of_band_id"),
            text("parent_id"),
            optional_text("used_by"),
            integer("created_at"),
        ],
    ),
    table(
        "peer_message",
        &[
            integer("number"),
            text("id"),
            text("connection_id"),
            text("thread"),
            text("kind"),
            text("body"),
            optional_text("record_id"),
            integer("stored_at"),
            optional_integer("due_at"),
            integer("sending"),
            optional_integer("unknown_since"),
            integer("failures"),
            integer("unknowns"),
        ],
    ),
    table("seen_message", &[text("sender"), text("id"), integer("seen_at"), optional_text("answer")]),
    table("seen_sender", &[text("sender"), integer("count")]),
    seeded("peer_total", &[integer("one"), integer("waiting"), integer("seen"), integer("next_number")]),
    table(
        "basic_message",
        &[
            text("id"),
            text("connection_id"),
            text("role"),
            text("content"),
            integer("sent_at"),
            integer("created_at"),
            optional_text("delivery"),
        ],
    ),
    table(
        "credential_exchange",
        &[
            text("id"),
            text("connection_id"),
            text("thread_id"),
            optional_text("parent_thread_id"),
            text("state"),
            text("role"),
            text("format"),
            optional_integer("schema_id"),
            text("offer"),
            optional_text("credential"),
            optional_text("error"),
            integer("created_at"),
            integer("updated_at"),
        ],
    ),
    table(
        "flow",
        &[
            text("id"),
            text("side"),
            text("peer_did"),
            optional_text("connection_id"),
            text("connection_state"),
            optional_text("thread_id"),
            optional_text("exchange_thread"),
            integer("schema_id"),
            optional_integer("applicant_participant_id"),
            optional_integer("validator_participant_id"),
            text("session_id"),
            text("state"),
            integer("is_live"),
            optional_integer("due_at"),
            text("record"),
            integer("updated_at"),
        ],
    ),
    table("flow_session", &[text("session_id"), text("flow_id")]),
    table("flow_content", &[text("flow_id"), text("kind"), integer("round"), text("format"), text("sealed")]),
    table(
        "access_grant",
        &[
            text("id"),
            text("peer"),
            text("request_id"),
            text("connection_id"),
            text("endpoint"),
            text("url"),
            text("material"),
            text("details"),
            text("scopes"),
            integer("issued_at"),
            integer("expires_at"),
            optional_integer("revoked_at"),
            optional_text("reason"),
        ],
    ),
    table("access_key", &[integer("version"), integer("used_from")]),
    seeded("access_validity", &[integer("one"), integer("valid_from")]),
];

/// Tables that no export has. They state facts about one database, and would be false in another:
/// `owner` the process that holds the lease, `store_commit` the commits of the writer, `_sqlx_migrations` the migrations.
#[cfg(test)]
pub(super) const EXCLUDED_TABLES: [&str; 3] = ["owner", "store_commit", "_sqlx_migrations"];

impl PortableTable {
    /// Finds a table by its name.
    pub fn find(name: &str) -> Option<&'static Self> {
        TABLES.iter().find(|table| table.name == name)
    }

    /// The names of the columns, as a statement lists them.
    pub fn column_list(&self) -> String {
        self.columns.iter().map(|column| column.name).collect::<Vec<_>>().join(", ")
    }
}
