//! The agent: its DID, its account, its store, its credentials and its listeners.

use super::{
    chain::{CORPORATION, PHRASE},
    setting::{
        Process::{self, Agent, Peer},
        SettingType::{self, Boolean, Choice, IpAddress, Origins, Text},
        number, row, rows,
    },
};

const AGENT: &[Process] = &[Agent];
const KEY: SettingType = Text("32 bytes in standard base64");
const READABLE: SettingType = Text("a file that can be read");
const FLAG_OR_LEVEL: SettingType = Choice(&["error", "warn", "info", "debug", "trace", "off"]);
const CLAIM: SettingType = Text("a text without control characters and without characters that change its direction");

rows! {
    SVC_CORPORATION_ID = row(CORPORATION, AGENT, "the corporation").required();
    SVC_RPC_ENDPOINT_URL = row(Origins, AGENT, "node, several with commas").required();
    PUBLIC_API_BASE_URL = row(Text("the https URL below which the DID's files are found, without credentials, query and fragment; \
        http on this machine, and private hosts, with SVC_ALLOW_PRIVATE_HOSTS=true"), AGENT,
        "URL of the public files; http on this machine with SVC_ALLOW_PRIVATE_HOSTS=true").required();
    SVC_ACCOUNT_MNEMONIC = row(PHRASE, AGENT, "phrase of the account; also from a file, or from the systemd credential \
        `svc-account-mnemonic`").required().secret();
    SVC_ACCOUNT_MNEMONIC_FILE = row(READABLE, AGENT, "file with that phrase, in place of it");
    SVC_AGENT_STORE_KEY = row(KEY, AGENT, "32 bytes in base64 that encrypt the private keys of the store; also from a file, or \
        from the systemd credential `svc-agent-store-key`").required().secret();
    SVC_AGENT_STORE_KEY_FILE = row(READABLE, AGENT, "file with that key, in place of it");
    SVC_AGENT_STORE_KEY_PREVIOUS = row(KEY, AGENT, "the key before, until `svc agent rotate store`").secret();
    SVC_AGENT_STORE_KEY_PREVIOUS_FILE = row(READABLE, AGENT, "file with the key before, in place of it");
    CREDENTIALS_DIRECTORY = row(Text("a folder"), AGENT, "folder of the systemd credentials, which systemd sets");
    AGENT_MODE = row(Choice(&["standalone", "delegated"]), AGENT, "`standalone`, or `delegated`: the service credential is issued by the agent itself, or by the parent")
        .default("standalone");
    AGENT_DELEGATED_PARENT_VS_DID = row(Text("a DID of the method web or webvh"), AGENT, "DID of the parent")
        .otherwise("required in mode delegated");
    TRUSTED_ECS_ECOSYSTEM_DIDS = row(Text("a comma-separated list of DIDs of the methods web and webvh, or self for this agent's; \
        one or more in mode standalone"), AGENT, "DIDs of the ecosystems whose essential credentials the DID issues to itself and \
        takes, with commas, the preferred one first; `self` for the agent's own DID")
        .otherwise("required in mode standalone; in mode delegated `svc agent init` needs it");
    ECS_CLAIMS_SERVICE_ANY = row(CLAIM, AGENT, "claims of the service credential; in mode delegated the parent is asked for them")
        .family("ECS_CLAIMS_SERVICE_*").otherwise("in mode standalone each claim that the schema requires")
        .see("[Credentials](agent.md#credentials)");
    ECS_CLAIMS_ORG_ANY = row(CLAIM, AGENT, "claims of the organisation, where the agent issues that credential itself")
        .family("ECS_CLAIMS_ORG_*");
    ECS_CLAIMS_PERSONA_ANY = row(CLAIM, AGENT, "claims of the person, where the agent issues that credential itself")
        .family("ECS_CLAIMS_PERSONA_*");
    ECS_CLAIMS_ANY = row(CLAIM, AGENT, "beginning of all variables with claims; one of another credential is named in a warning")
        .family("ECS_CLAIMS_*");
    ECS_CLAIMS_FILE = row(Text("a file of at most 1 MiB with a JSON object that has an object of claims for each of service, org \
        and persona that it names"), AGENT, "a JSON file with the same claims; single variables win");
    AGENT_CREDENTIAL_DAYS = row(number("days,", 1, 3_650), AGENT,
        "longest validity of a credential that the agent issues, 1 to 3650").default("365");
    AGENT_CREDENTIAL_RENEW_DAYS = row(number("days, fewer than those of AGENT_CREDENTIAL_DAYS", 0, NO_MOST),
        AGENT, "days before its end at which an own credential is issued again; fewer than AGENT_CREDENTIAL_DAYS").default("30");
    PUBLISHED_PROOFS = row(Choice(&["ed25519-2020", "data-integrity", "both"]), AGENT, PROOFS).default("ed25519-2020");
    ANCHOR_DIGESTS = row(Choice(&["sri", "bare"]), AGENT, "form of the digests that are anchored where the node takes both: `sri`, \
        such as `sha384-…`, or `bare`, the base64 alone, which programs of the first generation look up. Both are found by this \
        release").default("sri");
    SVC_AGENT_DB = row(Text("sqlite://FILE?mode=rwc, or postgres://USER:PASSWORD@HOST/DATABASE"), &[Agent, Peer],
        "store: SQLite, or `postgres://USER:PASSWORD@HOST/DATABASE`").default("sqlite://svc-agent.db?mode=rwc").secret();
    SVC_AGENT_SOCKET = row(SettingType::FILE, &[Agent, Peer], "socket of the commands of this machine")
        .otherwise("beside the SQLite file, as `.sock`");
    SVC_AGENT_HEAD = row(SettingType::FILE, &[Agent, Peer], "head file").otherwise("beside the SQLite file, as `.head`");
    AGENT_PUBLIC_DID_METHOD = row(Choice(&["webvh", "web"]), AGENT, "method of a DID that is still to be made").default("webvh");
    AGENT_WEBVH_PRE_ROTATION = row(Boolean, AGENT, "keys of the log named in advance, of a DID that is still to be made")
        .default("false");
    PUBLIC_API_BIND = row(IpAddress, AGENT, "address of the public files").default("0.0.0.0");
    PUBLIC_API_PORT = row(SettingType::PORT, AGENT, "port of the public files").default("3001");
    ADMIN_API_BIND = row(IpAddress, AGENT, "address of the admin API").otherwise("127.0.0.1, and 0.0.0.0 in mode corporation");
    ADMIN_API_PORT = row(SettingType::PORT, AGENT, "port of the admin API").default("3000");
    ADMIN_API_AUTH_MODE = row(Choice(&["internal", "corporation"]), AGENT, "`internal`, or `corporation`: callers log in with an account")
        .default("internal");
    ADMIN_API_TRUSTED_NETWORKS = row(Text("none, or a comma-separated list of networks such as 10.0.0.0/8"), AGENT,
        "networks whose callers need no token; or `none`").default("127.0.0.0/8,::1/128");
    ADMIN_API_ALLOWED_HOSTS = row(Text("a comma-separated list of host names without scheme and port"), AGENT,
        "host names of trusted callers");
    ADMIN_API_PUBLIC_URL = row(Text("an https origin without a path; http on this machine, and private hosts, with \
        SVC_ALLOW_PRIVATE_HOSTS=true"), AGENT, "origin of the admin API").otherwise("required in mode corporation");
    ADMIN_API_CORPORATION_ALLOWED_ACCOUNTS = row(Text("a comma-separated list of account addresses of one chain"), AGENT,
        "accounts that may log in").otherwise("required in mode corporation");
    ADMIN_API_LOGIN_AUDIENCE = row(Boolean, AGENT, "whether logins name the origin").default("true");
    SVC_AUTO_TRIGGER_RESOLVER = row(Boolean, AGENT, "resolution after changes").default("true");
    SVC_GAS_ADJUSTMENT = row(Text("a decimal from 1.0 to 5.0 with at most two digits behind the point"), AGENT,
        "gas limit, as a factor of the simulated gas").default("1.5");
    AGENT_LOG_LEVEL = row(FLAG_OR_LEVEL, AGENT, "level of the actors").default("warn");
    ADMIN_API_LOG_LEVEL = row(FLAG_OR_LEVEL, AGENT, "level of the listeners").default("info");
}

const NO_MOST: u64 = u32::MAX as u64;
const PROOFS: &str = "proofs of the credentials that the agent issues outside of flows: its own, those of its schemas and \
    those issued by a request. VC 1.1 with Ed25519Signature2020, which resolvers of the first generation \
    read; `data-integrity`: VC 2.0 with eddsa-jcs-2022; or `both`: own credentials and those of schemas \
    in each form, the second one in a presentation with `-di` in its name, and paid and anchored for \
    itself. The two count as one presentation. Credentials of schemas keep the form that they have. \
    Claims without a form as linked data (a `type` with spaces, a null, a list with two equal values) \
    have the newer form alone in each case";
