//! Access to endpoints.

use std::{path::PathBuf, time::Duration};

use svc_agent::AccessSettings;

use crate::config::environment::{Environment, EnvironmentReader};

/// Reads the settings of access.
pub(super) fn read_access<E: Environment>(reader: &mut EnvironmentReader<'_, E>) -> Option<AccessSettings> {
    let default = AccessSettings::default();
    let terms_file = reader.read_parsed("ENDPOINT_ACCESS_FILE", "a file that exists, in TOML", Some(None), |text| {
        let path = PathBuf::from(text);
        path.is_file().then_some(Some(path))
    });
    let is_answered_by_backend =
        reader.read_parsed("ENDPOINT_ACCESS_ANSWER", "agent, backend", Some(false), |text| match text {
            "agent" => Some(false),
            "backend" => Some(true),
            _ => None,
        });
    let token_seconds = reader.read_parsed(
        "ENDPOINT_ACCESS_TOKEN_SECONDS",
        "seconds, from 60 to 900",
        Some(default.token_seconds),
        |text| text.parse().ok().filter(|seconds| (60..=900).contains(seconds)),
    );
    let rate_per_peer = reader.read_parsed(
        "ENDPOINT_ACCESS_RATE_PER_PEER",
        "requests a minute, from 1 to 10000",
        Some(default.rate_per_peer),
        |text| text.parse().ok().filter(|rate| (1..=10_000).contains(rate)),
    );
    let timeout = reader.read_parsed(
        "ENDPOINT_ACCESS_TIMEOUT_MS",
        "milliseconds, from 1000 to 120000",
        Some(default.answer_timeout.as_millis() as u64),
        |text| text.parse().ok().filter(|millis| (1_000..=120_000).contains(millis)),
    );
    Some(AccessSettings {
        terms_file: terms_file?,
        is_answered_by_backend: is_answered_by_backend?,
        token_seconds: token_seconds?,
        rate_per_peer: rate_per_peer?,
        answer_timeout: Duration::from_millis(timeout?),
    })
}
