//! Access to endpoints.

use std::path::PathBuf;

use svc_agent::AccessSettings;

use crate::{
    config::environment::{Environment, EnvironmentReader},
    settings::access,
};

/// Reads the settings of access.
pub(super) fn read_access<E: Environment>(reader: &mut EnvironmentReader<'_, E>) -> Option<AccessSettings> {
    let terms_file = reader.read_optional(access::ENDPOINT_ACCESS_FILE, |text| {
        let path = PathBuf::from(text);
        path.is_file().then_some(path)
    });
    let is_answered_by_backend = reader.read_choice(access::ENDPOINT_ACCESS_ANSWER, "backend");
    let token_seconds = reader.read_number(access::ENDPOINT_ACCESS_TOKEN_SECONDS);
    let rate_per_peer = reader.read_number(access::ENDPOINT_ACCESS_RATE_PER_PEER);
    let timeout = reader.read_millis(access::ENDPOINT_ACCESS_TIMEOUT_MS);
    Some(AccessSettings {
        terms_file: terms_file?,
        is_answered_by_backend: is_answered_by_backend?,
        token_seconds: token_seconds?,
        rate_per_peer: rate_per_peer?,
        answer_timeout: timeout?,
    })
}
