-- Peers that talk DIDComm. Times are milliseconds since the epoch, but those of verdicts and of the outbox, which are seconds.
CREATE TABLE peer_connection (
    id TEXT PRIMARY KEY,
    role TEXT NOT NULL,
    our_did TEXT NOT NULL,
    their_did TEXT NOT NULL,
    public_did TEXT NOT NULL,
    previous TEXT NOT NULL,
    has_ended BIGINT NOT NULL,
    thread_id TEXT,
    out_of_band_id TEXT,
    parent_id TEXT,
    trusted BIGINT,
    judged_at BIGINT,
    last_seen_at BIGINT,
    waiting BIGINT NOT NULL,
    unanswered BIGINT NOT NULL,
    basic_messages BIGINT NOT NULL,
    next_due BIGINT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);

CREATE INDEX peer_connection_due ON peer_connection (next_due);

-- Every DID by which a connection is found, in the form in which all forms of a DID are equal.
CREATE TABLE peer_did (
    did TEXT NOT NULL,
    connection_id TEXT NOT NULL,
    PRIMARY KEY (did, connection_id)
);

CREATE INDEX peer_did_of_connection ON peer_did (connection_id);

-- A DID of this agent for one connection, whose private key stands among the others.
CREATE TABLE own_peer_did (
    did TEXT PRIMARY KEY,
    long_did TEXT NOT NULL,
    out_of_band_id TEXT NOT NULL,
    parent_id TEXT NOT NULL,
    used_by TEXT,
    created_at BIGINT NOT NULL
);

CREATE TABLE peer_message (
    number BIGINT PRIMARY KEY,
    id TEXT NOT NULL,
    connection_id TEXT NOT NULL,
    thread TEXT NOT NULL,
    kind TEXT NOT NULL,
    body TEXT NOT NULL,
    record_id TEXT,
    stored_at BIGINT NOT NULL,
    due_at BIGINT,
    sending BIGINT NOT NULL,
    unknown_since BIGINT,
    failures BIGINT NOT NULL,
    unknowns BIGINT NOT NULL
);

CREATE INDEX peer_message_of_connection ON peer_message (connection_id, number);

-- Messages that were handled, by the sender's DID in its comparable form. The answer is sent once more to a repetition.
CREATE TABLE seen_message (
    sender TEXT NOT NULL,
    id TEXT NOT NULL,
    seen_at BIGINT NOT NULL,
    answer TEXT,
    PRIMARY KEY (sender, id)
);

CREATE INDEX seen_message_by_age ON seen_message (seen_at);

CREATE TABLE seen_sender (
    sender TEXT PRIMARY KEY,
    count BIGINT NOT NULL
);

CREATE INDEX seen_sender_by_count ON seen_sender (count);

CREATE TABLE peer_total (
    one BIGINT PRIMARY KEY,
    waiting BIGINT NOT NULL,
    seen BIGINT NOT NULL,
    next_number BIGINT NOT NULL
);

INSERT INTO peer_total (one, waiting, seen, next_number) VALUES (1, 0, 0, 1);

CREATE TABLE basic_message (
    id TEXT PRIMARY KEY,
    connection_id TEXT NOT NULL,
    role TEXT NOT NULL,
    content TEXT NOT NULL,
    sent_at BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    delivery TEXT
);

CREATE INDEX basic_message_of_connection ON basic_message (connection_id, id);

CREATE TABLE credential_exchange (
    id TEXT PRIMARY KEY,
    connection_id TEXT NOT NULL,
    thread_id TEXT NOT NULL,
    parent_thread_id TEXT,
    state TEXT NOT NULL,
    role TEXT NOT NULL,
    format TEXT NOT NULL,
    schema_id BIGINT,
    offer TEXT NOT NULL,
    credential TEXT,
    error TEXT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);

CREATE UNIQUE INDEX credential_exchange_thread ON credential_exchange (connection_id, thread_id);
