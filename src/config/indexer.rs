//! The variables of `svc indexer`.

use std::{collections::BTreeSet, net::SocketAddr};

use svc_indexer::{EssentialSchemas, IndexerConfig, TrustConfig};

use super::{ConfigError, Environment, Reader};
use crate::{blocks::IndexerSettings, secrets::Secrets};

/// Schemes of databases the indexer can use.
const DATABASES: [&str; 3] = ["sqlite:", "postgres://", "postgresql://"];

/// Reads everything `svc indexer` needs.
pub fn read_indexer(environment: &impl Environment, secrets: &mut Secrets) -> Result<IndexerSettings, ConfigError> {
    let mut reader = Reader { environment, problems: Vec::new() };
    let rpc = reader.origin("SVC_RPC");
    let database = match secrets.take("SVC_INDEXER_DB").filter(|url| !url.expose().is_empty()) {
        None => Some("sqlite://svc-indexer.db?mode=rwc".to_owned()),
        Some(url) if DATABASES.iter().any(|scheme| url.expose().starts_with(scheme)) => Some(url.expose().to_owned()),
        Some(_) => {
            let allowed = "sqlite://FILE?mode=rwc, sqlite::memory:, or postgres://USER:PASSWORD@HOST/DATABASE";
            reader.problem("SVC_INDEXER_DB", "a URL of another kind", allowed);
            None
        }
    };
    let bind =
        reader.parsed("SVC_INDEXER_BIND", "an IP address", Some([127, 0, 0, 1].into()), |text| text.parse().ok());
    let port = reader.parsed("SVC_INDEXER_PORT", "a port, 0 to 65535", Some(3001_u16), |text| text.parse().ok());
    let block_interval = reader.millis("SVC_INDEXER_BLOCK_MS", 6_000);
    let start = reader.parsed("SVC_INDEXER_START", "a height, 1 or more", Some(None), |text| {
        text.parse().ok().filter(|height| *height > 0).map(Some)
    });
    let most = IndexerConfig::MAX_BUFFERED_BYTES;
    let max_buffered_bytes = reader.parsed("WS_MAX_BUFFERED_BYTES", "bytes, 65536 or more", Some(most), |text| {
        text.parse().ok().filter(|bytes| *bytes >= 65_536)
    });
    let hosts = reader.hosts();
    let essential = reader.parsed(
        "SVC_ESSENTIAL_SCHEMAS",
        "ServiceCredential@VERSION=sha384-DIGEST and such, behind commas",
        Some(EssentialSchemas::default()),
        |text| EssentialSchemas::with(text).ok(),
    );
    let ecosystems = reader.parsed("SVC_ESSENTIAL_ECOSYSTEMS", "DIDs behind commas", Some(BTreeSet::new()), |text| {
        let dids: BTreeSet<String> = text.split(',').map(|did| did.trim().to_owned()).collect();
        Some(dids).filter(|dids| dids.iter().all(|did| did.starts_with("did:")))
    });
    match (rpc, database, bind, port, block_interval, start, max_buffered_bytes, hosts, essential, ecosystems) {
        (
            Some(rpc),
            Some(database),
            Some(bind),
            Some(port),
            Some(block_interval),
            Some(start),
            Some(max_buffered_bytes),
            Some(hosts),
            Some(essential),
            Some(ecosystems),
        ) if reader.problems.is_empty() => {
            let trust = TrustConfig { hosts, essential, ecosystems, patience: None };
            let indexer = IndexerConfig { rpc, database, block_interval, start, max_buffered_bytes, trust };
            Ok(IndexerSettings { indexer, listen: SocketAddr::new(bind, port) })
        }
        _ => Err(ConfigError(reader.problems)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn a_node_is_enough_and_a_password_stays_unseen() {
        let environment = HashMap::from([("SVC_RPC", "http://node:26657/")]);
        let settings = read_indexer(&environment, &mut Secrets::default()).expect("enough");
        assert_eq!((settings.indexer.rpc.as_str(), settings.listen.port()), ("http://node:26657", 3001));
        assert_eq!(settings.indexer.database, "sqlite://svc-indexer.db?mode=rwc");
        let mut secrets = Secrets::from_pairs([("SVC_INDEXER_DB", "postgres://svc:secret@db/registry")]);
        let settings = read_indexer(&environment, &mut secrets).expect("usable");
        assert_eq!(settings.indexer.database, "postgres://svc:secret@db/registry");
        let mut secrets = Secrets::from_pairs([("SVC_INDEXER_DB", "mysql://svc:secret@db/registry")]);
        let error = read_indexer(&environment, &mut secrets).expect_err("another kind").to_string();
        assert!(error.contains("SVC_INDEXER_DB") && !error.contains("secret"), "{error}");
    }
}
