//! The indexer, and the essential schemas, which agents read too.

use super::setting::{
    Process::{Agent, Indexer},
    SettingType::{self, IpAddress, Text},
    number, row, rows,
};

rows! {
    SVC_INDEXER_DB = row(Text("sqlite://FILE?mode=rwc, sqlite::memory:, or postgres://USER:PASSWORD@HOST/DATABASE"), &[Indexer],
        "`sqlite://FILE?mode=rwc`, `sqlite::memory:`, or `postgres://USER:PASSWORD@HOST/DATABASE`")
        .default("sqlite://svc-indexer.db?mode=rwc").secret();
    SVC_INDEXER_BIND = row(IpAddress, &[Indexer], "address at which it listens; there is no authentication").default("127.0.0.1");
    SVC_INDEXER_PORT = row(SettingType::PORT, &[Indexer], "port at which it listens").default("3001");
    SVC_INDEXER_START = row(number("a height,", 1, u64::MAX), &[Indexer],
        "first height of an empty database").otherwise("the oldest block with its state");
    SVC_INDEXER_BLOCK_MS = row(SettingType::MILLIS, &[Indexer], "time between blocks that subscribers receive")
        .otherwise("the median of the newest 100 blocks");
    WS_MAX_BUFFERED_BYTES = row(number("bytes,", 65_536, u64::MAX), &[Indexer],
        "bytes that may wait for one subscriber").default("8388608");
    SVC_ESSENTIAL_SCHEMAS = row(Text("a comma-separated list of schemas, such as ServiceCredential@VERSION=sha384-DIGEST"),
        &[Indexer, Agent], "more essential schemas, `ServiceCredential@5=sha384-…` with commas; the digest is that of the canonical \
        schema without `$id`").otherwise("the published ones and the devnet's");
    SVC_ESSENTIAL_ECOSYSTEMS = row(Text("a comma-separated list of DIDs of the methods web and webvh"), &[Indexer, Agent], "DIDs of the ecosystems whose \
        essential schemas count, with commas. Texts of schemas are public, so that without this list no schema is essential, and no DID is trusted")
        .otherwise("none; of an agent those of TRUSTED_ECS_ECOSYSTEM_DIDS");
    SVC_TRUST_PATIENCE = row(Text("a time of at most 30 days, such as 90s, 15m or 2h"), &[Indexer], "how long an evaluation waits \
        for a web server that does not answer, such as `90s`, `15m` or `2h`; `0s` does not wait").otherwise("1h");
}
