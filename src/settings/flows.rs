//! Flows with peers.

use super::setting::{
    Process::{self, Agent},
    SettingType::{self, Boolean, Choice, Text},
    number, row, rows,
};

const AGENT: &[Process] = &[Agent];
const FLOWS: SettingType = number("a number of flows, from", 1, 1_000_000);

rows! {
    FLOW_CLAIMS_DIR = row(Text("a folder that exists"), AGENT, "Folder with claims `<schema id>.json`, each at most 640 KiB");
    FLOW_PUBLISH_SCHEMAS = row(Text("ids of schemas, separated by commas, or *"), AGENT, "Schema ids whose received credentials \
        stand in the DID Document beside those of service, organisation and person; `*` for all, in the order of acceptance");
    FLOW_MAX_PER_PEER = row(FLOWS, AGENT, "Flows of one peer that have not ended").default("100");
    FLOW_MAX_ACTORS = row(FLOWS, AGENT, "Flows that work at the same time; the others wait in the store").default("1000");
    FLOW_MAX_SESSION_COST = row(Text("a whole number of base units of the denomination of fees"), AGENT, "The most that the \
        beneficiaries of one credential get, in base units of the denomination of fees");
    FLOW_VERIFY_SECONDS = row(number("seconds, from", 1, 3_600), AGENT, "Wait for the session and the digest of a received \
        credential, and for the validation behind an offer").default("30");
    FLOW_ISSUE_FORMAT = row(Choice(&["w3c-di", "ld-proof"]), AGENT, "`ld-proof` offers VC 1.1 with Ed25519Signature2020, which \
        agents of the first generation need; both are taken").default("w3c-di");
    FLOW_SEND_TERMS = row(Boolean, AGENT, "Send `credential-terms` before an offer; agents of the first generation do not know \
        it").default("false");
}
