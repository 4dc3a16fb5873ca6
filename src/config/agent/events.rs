//! The registry events of an agent, and their receiver.

use std::{collections::BTreeSet, time::Duration};

use svc_agent::{CourierConfig, EventsConfig, HandledEvents, WebhookSecrets};
use svc_net::webhook::WebhookClient;
use url::Url;

use crate::{
    config::environment::{Environment, EnvironmentReader},
    secrets::ProcessSecrets,
    settings::events::{self, EVENTS_WEBHOOK_API_KEY, EVENTS_WEBHOOK_SECRET, EVENTS_WEBHOOK_URL},
};

/// Reads the events and their receiver.
pub(super) fn read_events<E: Environment>(
    reader: &mut EnvironmentReader<'_, E>,
    secrets: &mut ProcessSecrets,
    warnings: &mut Vec<String>,
) -> Option<EventsConfig> {
    let indexer = reader.read_origins(events::SVC_INDEXER_BASE_URL);
    let covers_corporation = reader.read_choice(events::SVC_INDEXER_SUBSCRIPTION_SCOPE, "corporation");
    let handled = read_handled(reader, warnings);
    let start_height = reader.read_optional(events::SVC_AGENT_START, |text| text.parse().ok());
    let silence =
        reader.read_optional(events::SVC_INDEXER_SILENCE_MS, |text| text.parse().ok().map(Duration::from_millis));
    let max_stored = reader.read_number(events::EVENTS_WEBHOOK_MAX_STORED);
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
    let variable = events::SVC_INDEXER_DEFAULT_HANDLERS_OVERRIDE.name;
    let Some(text) = reader.get(events::SVC_INDEXER_DEFAULT_HANDLERS_OVERRIDE) else { return HandledEvents::All };
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
    let timeout = reader.read_millis(events::EVENTS_WEBHOOK_TIMEOUT_MS);
    let min_backoff = reader.read_millis(events::EVENTS_WEBHOOK_MIN_BACKOFF_MS);
    let api_key = secrets.take(EVENTS_WEBHOOK_API_KEY).filter(|key| !key.expose_secret().is_empty());
    let is_header = api_key.as_ref().is_none_or(|key| key.expose_secret().bytes().all(|byte| byte.is_ascii_graphic()));
    if !is_header {
        reader.refuse(EVENTS_WEBHOOK_API_KEY, "characters that no header can carry");
    }
    let secret = secrets.take(EVENTS_WEBHOOK_SECRET).filter(|secret| !secret.expose_secret().is_empty());
    let signing = secret.as_ref().map(WebhookSecrets::parse).transpose();
    if signing.is_err() {
        reader.refuse(EVENTS_WEBHOOK_SECRET, "another text");
    }
    let url = read_url(reader);
    let (has_key, has_secret) = (api_key.is_some(), secret.is_some());
    match url? {
        None => {
            for (setting, is_set) in [(EVENTS_WEBHOOK_API_KEY, has_key), (EVENTS_WEBHOOK_SECRET, has_secret)] {
                if is_set {
                    let found = format!("set without {}", EVENTS_WEBHOOK_URL.name);
                    reader.add_problem(setting.name, found, "both, or neither");
                }
            }
            Some(None)
        }
        Some(url) => {
            let client = match WebhookClient::new(url, timeout?) {
                Ok(client) => client,
                Err(error) => {
                    reader.refuse(EVENTS_WEBHOOK_URL, error.to_string());
                    return None;
                }
            };
            Some(Some(CourierConfig { client, api_key, secrets: signing.ok()?, min_backoff: min_backoff? }))
        }
    }
}

fn read_url<E: Environment>(reader: &mut EnvironmentReader<'_, E>) -> Option<Option<Url>> {
    let Some(text) = reader.get(EVENTS_WEBHOOK_URL) else { return Some(None) };
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
        reader.refuse(EVENTS_WEBHOOK_URL, "another text");
    }
    url.map(Some)
}
