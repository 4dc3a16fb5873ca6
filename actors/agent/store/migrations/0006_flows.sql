-- Flows. A record stands in `record`, whose columns beside it find it; connection and its state are those of the columns. Times are
-- milliseconds since the epoch.
CREATE TABLE flow (
    id TEXT PRIMARY KEY,
    side TEXT NOT NULL,
    peer_did TEXT NOT NULL,
    connection_id TEXT,
    connection_state TEXT NOT NULL,
    thread_id TEXT,
    exchange_thread TEXT,
    schema_id BIGINT NOT NULL,
    applicant_participant_id BIGINT,
    validator_participant_id BIGINT,
    session_id TEXT NOT NULL,
    state TEXT NOT NULL,
    is_live BIGINT NOT NULL,
    due_at BIGINT,
    record TEXT NOT NULL,
    updated_at BIGINT NOT NULL
);

CREATE INDEX flow_of_connection ON flow (connection_id);

CREATE INDEX flow_of_peer ON flow (peer_did, id);

CREATE INDEX flow_live_of_peer ON flow (peer_did, is_live);

CREATE INDEX flow_of_thread ON flow (thread_id);

CREATE INDEX flow_of_exchange ON flow (exchange_thread);

CREATE INDEX flow_of_applicant ON flow (applicant_participant_id, id);

CREATE INDEX flow_of_validator ON flow (validator_participant_id, id);

CREATE INDEX flow_of_schema ON flow (schema_id, id);

CREATE INDEX flow_in_state ON flow (state, id);

CREATE INDEX flow_live ON flow (is_live, id);

CREATE INDEX flow_due ON flow (due_at);

-- Every session by which a flow is found: its own, and those of before.
CREATE TABLE flow_session (
    session_id TEXT PRIMARY KEY,
    flow_id TEXT NOT NULL
);

CREATE INDEX flow_session_of_flow ON flow_session (flow_id);

-- Credentials of flows, encrypted: those that were signed, by round, and those that have come.
CREATE TABLE flow_content (
    flow_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    round BIGINT NOT NULL,
    format TEXT NOT NULL,
    sealed TEXT NOT NULL,
    PRIMARY KEY (flow_id, kind, round)
);
