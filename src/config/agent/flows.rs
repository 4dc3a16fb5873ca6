//! The flows of an agent.

use std::{path::PathBuf, time::Duration};

use svc_agent::{ClaimSettings, FlowFormat, FlowSettings, PublishedSchemas};

use crate::config::environment::{Environment, EnvironmentReader};

/// Reads the settings of flows. `claims` are those of essential credentials.
pub(super) fn read_flows<E: Environment>(
    reader: &mut EnvironmentReader<'_, E>,
    claims: ClaimSettings,
) -> Option<FlowSettings> {
    let default = FlowSettings::default();
    let claims_directory = reader.read_parsed("FLOW_CLAIMS_DIR", "a folder that exists", Some(None), |text| {
        let path = PathBuf::from(text);
        path.is_dir().then_some(Some(path))
    });
    let published_schemas = reader.read_parsed(
        "FLOW_PUBLISH_SCHEMAS",
        "ids of schemas, separated by commas, or *",
        Some(PublishedSchemas::default()),
        PublishedSchemas::parse,
    );
    let count = |text: &str| text.parse().ok().filter(|number| (1..=1_000_000).contains(number));
    let per_peer =
        reader.read_parsed("FLOW_MAX_PER_PEER", "a number of flows, from 1 to 1000000", Some(default.per_peer), count);
    let actors = reader.read_parsed(
        "FLOW_MAX_ACTORS",
        "a number of flows, from 1 to 1000000",
        Some(default.actors as u64),
        count,
    );
    let session_cost = reader.read_parsed(
        "FLOW_MAX_SESSION_COST",
        "a whole number of base units of the denomination of fees",
        Some(None),
        |text| text.parse().ok().map(Some),
    );
    let verify = reader.read_parsed(
        "FLOW_VERIFY_SECONDS",
        "seconds, from 1 to 3600",
        Some(default.verify_time.as_secs()),
        |text| text.parse().ok().filter(|seconds| (1..=3_600).contains(seconds)),
    );
    let format =
        reader.read_parsed("FLOW_ISSUE_FORMAT", "w3c-di, ld-proof", Some(FlowFormat::default()), FlowFormat::parse);
    let sends_terms = reader.read_flag("FLOW_SEND_TERMS");
    Some(FlowSettings {
        claims_directory: claims_directory?,
        claims,
        published_schemas: published_schemas?,
        per_peer: per_peer?,
        actors: usize::try_from(actors?).unwrap_or(usize::MAX),
        session_cost: session_cost?,
        verify_time: Duration::from_secs(verify?),
        format: format?,
        sends_terms: sends_terms?,
    })
}
