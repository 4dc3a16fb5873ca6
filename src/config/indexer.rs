//! The variables of `svc indexer`.

use std::{net::SocketAddr, time::Duration};

use svc_indexer::{IndexerConfig, TrustConfig};

use super::{
    environment::{ConfigError, Environment, EnvironmentReader},
    essential::read_essential_schemas,
    listener::read_listener,
};
use crate::{
    listener::ListenerConfig,
    secrets::ProcessSecrets,
    settings::{
        chain::SVC_RPC,
        indexer::{self, SVC_INDEXER_DB},
    },
};

/// The configuration of `svc indexer`.
#[derive(Debug)]
pub struct IndexerServerConfig {
    /// The indexer.
    pub indexer: IndexerConfig,
    /// Address of its listener.
    pub listen: SocketAddr,
    /// Limits and encryption of the listener.
    pub listener: ListenerConfig,
}

/// URL schemes of the databases that the indexer supports.
const DATABASE_SCHEMES: [&str; 3] = ["sqlite:", "postgres://", "postgresql://"];

/// Reads the configuration of `svc indexer`. Fails with the problems of all variables at once.
pub fn read_indexer(
    environment: &impl Environment,
    secrets: &mut ProcessSecrets,
) -> Result<IndexerServerConfig, ConfigError> {
    let mut reader = EnvironmentReader::new(environment);
    let rpc = reader.read_origins(SVC_RPC);
    let database = read_database(&mut reader, secrets);
    let bind = reader.read(indexer::SVC_INDEXER_BIND, |text| text.parse().ok());
    let port = reader.read_number(indexer::SVC_INDEXER_PORT);
    let block_interval =
        reader.read_optional(indexer::SVC_INDEXER_BLOCK_MS, |text| text.parse().ok().map(Duration::from_millis));
    let start = reader.read_optional(indexer::SVC_INDEXER_START, |text| text.parse().ok());
    let max_buffered_bytes = reader.read_number(indexer::WS_MAX_BUFFERED_BYTES);
    let hosts = reader.read_host_policy();
    let patience = reader.read_optional(indexer::SVC_TRUST_PATIENCE, parse_patience);
    let essential = read_essential_schemas(&mut reader);
    let listener = read_listener(&mut reader);
    let values =
        (rpc, database, bind, port, block_interval, start, max_buffered_bytes, hosts, essential, listener, patience);
    match values {
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
            Some(listener),
            Some(patience),
        ) if reader.problems.is_empty() => {
            let trust = TrustConfig { hosts, essential_schemas: essential, wait_limit: None, patience };
            let indexer =
                IndexerConfig { rpc, database, block_interval, start_height: start, max_buffered_bytes, trust };
            Ok(IndexerServerConfig { indexer, listen: SocketAddr::new(bind, port), listener })
        }
        _ => Err(ConfigError::Variables(reader.problems)),
    }
}

/// Reads the URL of the database, of which a problem shows nothing.
fn read_database<E: Environment>(
    reader: &mut EnvironmentReader<'_, E>,
    secrets: &mut ProcessSecrets,
) -> Option<String> {
    let url = secrets.take(SVC_INDEXER_DB).map(|url| url.expose_secret().to_owned()).filter(|url| !url.is_empty());
    let url = url.or_else(|| SVC_INDEXER_DB.default_text().map(str::to_owned))?;
    let is_known = DATABASE_SCHEMES.iter().any(|scheme| url.starts_with(scheme));
    if !is_known {
        reader.refuse(SVC_INDEXER_DB, "a URL of another kind");
    }
    Some(url).filter(|_| is_known)
}

/// Longest time that can be set, in seconds. After a month a server has most likely changed its documents.
const MAX_PATIENCE_SECONDS: u64 = 30 * 86_400;

fn parse_patience(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|unit: char| !unit.is_ascii_digit());
    let seconds_of_unit = match &text[digits.len()..] {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return None,
    };
    let seconds = digits.parse::<u64>().ok()?.checked_mul(seconds_of_unit)?;
    (seconds <= MAX_PATIENCE_SECONDS).then(|| Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn only_the_node_is_required_and_an_error_hides_the_password() {
        let environment = HashMap::from([("SVC_RPC", "http://node:26657/")]);
        let settings = read_indexer(&environment, &mut ProcessSecrets::default()).expect("enough");
        assert_eq!((settings.indexer.rpc.to_string().as_str(), settings.listen.port()), ("http://node:26657", 3001));
        assert_eq!(settings.indexer.database, "sqlite://svc-indexer.db?mode=rwc");
        let mut secrets = ProcessSecrets::from_pairs([("SVC_INDEXER_DB", "postgres://svc:secret@db/registry")]);
        let settings = read_indexer(&environment, &mut secrets).expect("usable");
        assert_eq!(settings.indexer.database, "postgres://svc:secret@db/registry");
        let mut secrets = ProcessSecrets::from_pairs([("SVC_INDEXER_DB", "mysql://svc:secret@db/registry")]);
        let error = read_indexer(&environment, &mut secrets).expect_err("another kind").to_string();
        assert!(error.contains("SVC_INDEXER_DB") && !error.contains("secret"), "{error}");
    }

    #[test]
    fn the_patience_is_a_number_with_a_unit() {
        for (text, expected) in [
            ("0s", Some(0)),
            ("90s", Some(90)),
            ("15m", Some(900)),
            ("2h", Some(7_200)),
            ("30d", Some(2_592_000)),
            ("31d", None),
            ("90", None),
            ("h", None),
            ("1.5h", None),
            ("18446744073709551615h", None),
        ] {
            assert_eq!(parse_patience(text), expected.map(Duration::from_secs), "{text}");
        }
    }
}
