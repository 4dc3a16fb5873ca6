//! The flows of an agent.

use std::{path::PathBuf, time::Duration};

use svc_agent::{ClaimSettings, FlowFormat, FlowSettings, PublishedSchemas};

use crate::{
    config::environment::{Environment, EnvironmentReader},
    settings::flows,
};

/// Reads the settings of flows. `claims` are those of essential credentials.
pub(super) fn read_flows<E: Environment>(
    reader: &mut EnvironmentReader<'_, E>,
    claims: ClaimSettings,
) -> Option<FlowSettings> {
    let claims_directory = reader.read_optional(flows::FLOW_CLAIMS_DIR, |text| {
        let path = PathBuf::from(text);
        path.is_dir().then_some(path)
    });
    let published_schemas =
        reader.read_or(flows::FLOW_PUBLISH_SCHEMAS, PublishedSchemas::default(), PublishedSchemas::parse);
    let per_peer = reader.read_number(flows::FLOW_MAX_PER_PEER);
    let actors = reader.read_number(flows::FLOW_MAX_ACTORS);
    let session_cost = reader.read_optional(flows::FLOW_MAX_SESSION_COST, |text| text.parse().ok());
    let verify = reader.read_number(flows::FLOW_VERIFY_SECONDS);
    let format = reader.read(flows::FLOW_ISSUE_FORMAT, FlowFormat::parse);
    let sends_terms = reader.read_flag(flows::FLOW_SEND_TERMS);
    Some(FlowSettings {
        claims_directory: claims_directory?,
        claims,
        published_schemas: published_schemas?,
        per_peer: per_peer?,
        actors: actors?,
        session_cost: session_cost?,
        verify_time: Duration::from_secs(verify?),
        format: format?,
        sends_terms: sends_terms?,
    })
}
