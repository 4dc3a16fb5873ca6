//! Registry events of an agent, and their receiver.

use super::setting::{
    Process::{self, Agent},
    SettingType::{self, Choice, Origins, Text},
    number, row, rows,
};

const AGENT: &[Process] = &[Agent];

rows! {
    SVC_INDEXER_BASE_URL = row(Origins, AGENT, "indexer, several with commas").required();
    SVC_INDEXER_SUBSCRIPTION_SCOPE = row(Choice(&["did", "corporation"]), AGENT, "events of the DID, or of the whole `corporation`")
        .default("did");
    SVC_INDEXER_DEFAULT_HANDLERS_OVERRIDE = row(Text("a comma-separated list of event types, or *"), AGENT, "event types that the \
        agent does not act on, or `*`; they are delivered all the same. With `*`, RevokeParticipant, \
        SlashParticipantTrustDeposit or SetParticipantEffectiveUntil no credential is withdrawn because of a participant or its \
        end");
    SVC_AGENT_START = row(number("a height,", 1, u64::MAX), AGENT, "first block of an empty store")
        .otherwise("the indexer's height");
    SVC_INDEXER_SILENCE_MS = row(number("milliseconds,", 1_000, 86_400_000), AGENT,
        "silence after which the indexer is asked for its height").otherwise("twice the announced interval");
    EVENTS_WEBHOOK_URL = row(Text("an http or https URL without credentials and fragment"), AGENT,
        "receiver of the events; without it nothing is stored");
    EVENTS_WEBHOOK_API_KEY = row(Text("visible ASCII characters"), AGENT, "bearer token for the receiver").secret();
    EVENTS_WEBHOOK_SECRET = row(Text("whsec_ and base64 of 24 to 64 bytes; two of them with a space between while it is changed"),
        AGENT, "signing key `whsec_…`, two while it is changed").secret();
    EVENTS_WEBHOOK_MIN_BACKOFF_MS = row(SettingType::MILLIS, AGENT, "pause after the first delivery that failed").default("1000");
    EVENTS_WEBHOOK_TIMEOUT_MS = row(SettingType::MILLIS, AGENT, "wait for the receiver").default("10000");
    EVENTS_WEBHOOK_MAX_STORED = row(number("a number of events,", 1, u64::MAX), AGENT,
        "events that are stored").default("1000000");
}
