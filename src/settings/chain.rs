//! The node, the account's fees, and the files of the write pipeline.

use super::setting::{
    Process::{self, Agent, Devnet, Indexer, Journal, Peer, Serve},
    SettingType::{self, Boolean, Choice, Origin, Origins, Text},
    number, row, rows,
};

const BOTH: &[Process] = &[Serve, Agent];
/// The levels of the log.
const LEVELS: SettingType = Choice(&["error", "warn", "info", "debug", "trace"]);
/// An amount in base units.
const AMOUNT: SettingType = Text("an amount of the fee denom in digits");
/// The phrases that give an account.
pub(crate) const PHRASE: SettingType = Text("a BIP-39 English phrase of 12 to 24 words");
pub(super) const CORPORATION: SettingType = number("a corporation id,", 1, u64::MAX);

rows! {
    MCP_SVC_MNEMONIC = row(PHRASE, &[Serve], "BIP-39 phrase of the operator account, path `m/44'/118'/0'/0/0`")
        .required().secret();
    SVC_CORPORATION = row(CORPORATION, &[Serve], "id of the corporation it acts for").required();
    SVC_RPC = row(Origins, &[Serve, Indexer, Journal], "node RPC origin, WebSocket at `/websocket`; several with commas between: one is \
        used, the others when it fails (ours) or has pruned a height that is read").required();
    SVC_INDEXER = row(Origins, &[Serve], "indexer origin, WebSocket at `/v4/indexer/subscribe`; several likewise").required();
    SVC_GRAPH = row(Origin, &[Serve], "graph origin, progress at `/v4/graph/blocks/subscribe`; graph tools exist only with it");
    SVC_CHAIN_ID = row(Text("a chain id of 1 to 50 characters without blanks"), BOTH,
        "boot aborts when the node has another").otherwise("the node's");
    SVC_DENOM = row(Text("a coin denom: a letter, then 2 to 127 letters, digits or / : . _ -"), BOTH, "fee denom")
        .otherwise("the bond denom");
    SVC_GAS_PRICE = row(Text("a decimal such as 0.025 with at most six digits behind the point, and the fee denom or nothing \
        behind it"), BOTH, "digits with a point and at most six digits behind it, with the fee denom or without; one below the \
        node's minimum is a warning at the start and a finding of `svc check`")
        .otherwise("the higher of 0.025 and the node's minimum");
    SVC_MAX_GAS = row(number("a gas limit,", 1, u64::MAX), BOTH, "largest gas limit that is signed (ours)")
        .otherwise("20000000");
    SVC_MAX_FEE = row(AMOUNT, BOTH, "largest fee that is signed, in the fee denom (ours); a write above is refused before the \
        signature: `FEE_ABOVE_CEILING`").otherwise("the fee of 20000000 gas");
    SVC_MAX_FEE_PER_DAY = row(Text("an amount of the fee denom in digits, or nothing for no limit"), BOTH, "largest sum of the \
        fees of a day (UTC), in the fee denom (ours); the journal keeps it. A transaction counts from its signature, unless it \
        never pays");
    SVC_TX_TIMEOUT_MS = row(SettingType::MILLIS, BOTH, "wait for inclusion").default("30000");
    SVC_INDEXER_TIMEOUT_MS = row(SettingType::MILLIS, &[Serve], "wait for the indexer").default("15000");
    SVC_CACHE_REFRESH_MS = row(SettingType::MILLIS, &[Serve], "period of re-discovery").default("60000");
    SVC_TX_WINDOW = row(Text("adaptive, or how many transactions may be in flight at once, 1 to 1024"), &[Serve],
        "transactions in flight at once: `adaptive`, or 1 to 1024 (ours)").default("adaptive");
    SVC_JOURNAL = row(SettingType::FILE, &[Serve, Agent, Peer, Journal], "file of the journal of transactions in flight (ours): \
        set it in production, on a disk that stays")
        .otherwise("in memory; of an agent beside its SQLite file, as `.journal`");
    SVC_MIN_FREE_DISK = row(number("a number of bytes", 0, u64::MAX), BOTH, "free bytes on the disks of \
        journal and audit below which writes are refused: `JOURNAL_UNAVAILABLE` (ours)").default("67108864");
    SVC_AUDIT = row(SettingType::FILE, &[Serve], "file of the audit records, JSON lines (ours)").otherwise("in memory");
    SVC_LIVE_DESCRIPTORS = row(Boolean, &[Serve], "messages and fields that only the node's descriptors have can be used (ours); \
        a message whose known fields the node describes otherwise is no tool all the same").default("false")
        .see("[below](#nodes-of-several-generations)");
    SVC_ALLOW_PLAINTEXT_NODE = row(Boolean, &[Serve, Agent, Journal], "an `http` node at a public address (ours): without it the boot refuses the \
        node; at a private address the boot warns").default("false");
    SVC_ALLOW_PRIVATE_HOSTS = row(Boolean, &[Serve, Indexer, Agent, Peer], "whether DIDs, their documents and endpoints may lead \
        to private addresses, and to loopback names over plain http (ours): for development").default("false");
    SVC_LOG_LEVEL = row(LEVELS, &[Serve, Indexer, Peer, Journal, Devnet], "error, warn, info, debug, trace")
        .otherwise("info; nothing is logged by commands that end");
}
