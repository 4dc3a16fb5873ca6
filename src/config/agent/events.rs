//! The registry events of an agent, and their receiver.

use std::{collections::BTreeSet, time::Duration};

use svc_agent::{CourierConfig, EventsConfig, HandledEvents, WebhookSecrets};
use svc_net::webhook::WebhookClient;
use url::Url;

use crate::{
    config::environment::{Environment, EnvironmentReader, parse_millis},
    secrets::ProcessSecrets,
};

/// Reads the events and their receiver.
pub(super) fn read_events<E: Environment>(
    reader: &mut EnvironmentReader<'_, E>,
    secrets: &mut ProcessSecrets,
    warnings: &mut Vec<String>,
) -> Option<EventsConfig> {
    let indexer = reader.read_origins("SVC_INDEXER_BASE_URL");
    let covers_corporation =
        reader.read_parsed("SVC_INDEXER_SUBSCRIPTION_SCOPE", "did, corporation", Some(false), |text| match text {
            "did" => Some(false),
            "corporation" => Some(true),
            _ => None,
        });
    let handled = read_handled(reader, warnings);
    let start_height = reader.read_parsed("SVC_AGENT_START", "a height, 1 or more", Some(None), |text| {
        text.parse().ok().filter(|height| *height > 0).map(Some)
    });
    let silence = reader.read_parsed("SVC_INDEXER_SILENCE_MS", "milliseconds, 1000 or more", Some(None), |text| {
        parse_millis(text).filter(|silence| *silence >= Duration::from_secs(1)).map(Some)
    });
    let max_stored =
        reader.read_parsed("EVENTS_WEBHOOK_MAX_STORED", "a number of events, 1 or more", Some(1_000_000), |text| {
            text.parse().ok().filter(|count| *count > 0)
        });
    let receiver = read_receiver(reader, secrets);
    Some(EventsConfig {
        indexer: indexer?,
        covers_corporation: covers_corporation?,
        handled,
        start_height: start_height?,
        silence: silence?,
        receiver: receiver?,
        max_stored: max_stored?,
    })
}

fn read_handled<E: Environment>(reader: &EnvironmentReader<'_, E>, warnings: &mut Vec<String>) -> HandledEvents {
    let variable = "SVC_INDEXER_DEFAULT_HANDLERS_OVERRIDE";
    let Some(text) = reader.environment.get(variable) else { return HandledEvents::All };
    let types: BTreeSet<String> =
        text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
    if types.contains("*") {
        return HandledEvents::None;
    }
    for name in types.iter().filter(|name| !svc_indexer::is_known_event_type(name)) {
        warnings.push(format!("{variable} names {name:?}, which is no event type that this release knows"));
    }
    HandledEvents::Except(types)
}

/// Reads the receiver: the outer value is missing after a problem, the inner one without a receiver.
fn read_receiver<E: Environment>(
    reader: &mut EnvironmentReader<'_, E>,
    secrets: &mut ProcessSecrets,
) -> Option<Option<CourierConfig>> {
    let timeout = reader.read_millis("EVENTS_WEBHOOK_TIMEOUT_MS", 10_000);
    let min_backoff = reader.read_millis("EVENTS_WEBHOOK_MIN_BACKOFF_MS", 1_000);
    let api_key = secrets.take("EVENTS_WEBHOOK_API_KEY").filter(|key| !key.expose_secret().is_empty());
    let is_header = api_key.as_ref().is_none_or(|key| key.expose_secret().bytes().all(|byte| byte.is_ascii_graphic()));
    if !is_header {
        reader.add_problem("EVENTS_WEBHOOK_API_KEY", "characters that no header can carry", "visible ASCII characters");
    }
    let secret = secrets.take("EVENTS_WEBHOOK_SECRET").filter(|secret| !secret.expose_secret().is_empty());
    let signing = secret.as_ref().map(WebhookSecrets::parse).transpose();
    if signing.is_err() {
        let allowed = "whsec_ and base64 of 24 to 64 bytes; two of them with a space between while it is changed";
        reader.add_problem("EVENTS_WEBHOOK_SECRET", "another text", allowed);
    }
    let url = read_url(reader);
    let (has_key, has_secret) = (api_key.is_some(), secret.is_some());
    match url? {
        None => {
            for (variable, is_set) in [("EVENTS_WEBHOOK_API_KEY", has_key), ("EVENTS_WEBHOOK_SECRET", has_secret)] {
                if is_set {
                    reader.add_problem(variable, "set without EVENTS_WEBHOOK_URL", "both, or neither");
                }
            }
            Some(None)
        }
        Some(url) => {
            let client = match WebhookClient::new(url, timeout?) {
                Ok(client) => client,
                Err(error) => {
                    reader.add_problem("EVENTS_WEBHOOK_URL", error.to_string(), URL);
                    return None;
                }
            };
            Some(Some(CourierConfig { client, api_key, secrets: signing.ok()?, min_backoff: min_backoff? }))
        }
    }
}

const URL: &str = "an http or https URL without credentials and fragment";

fn read_url<E: Environment>(reader: &mut EnvironmentReader<'_, E>) -> Option<Option<Url>> {
    let Some(text) = reader.environment.get("EVENTS_WEBHOOK_URL") else { return Some(None) };
    let is_usable = |url: &Url| {
        matches!(url.scheme(), "http" | "https")
            && url.has_host()
            && url.username().is_empty()
            && url.password().is_none()
            && url.fragment().is_none()
    };
    let url = Url::parse(&text).ok().filter(is_usable);
    if url.is_none() {
        // The path and the query of a webhook URL are often a secret.
        reader.add_problem("EVENTS_WEBHOOK_URL", "another text", URL);
    }
    url.map(Some)
}
