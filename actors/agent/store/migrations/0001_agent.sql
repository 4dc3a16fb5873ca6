CREATE TABLE owner (
    one BIGINT PRIMARY KEY,
    term BIGINT NOT NULL,
    host TEXT NOT NULL,
    pid BIGINT NOT NULL,
    since TEXT NOT NULL,
    renewed BIGINT NOT NULL
);

CREATE TABLE identity (
    one BIGINT PRIMARY KEY,
    did TEXT NOT NULL,
    base_url TEXT NOT NULL
);

CREATE TABLE private_key (
    name TEXT NOT NULL,
    version BIGINT NOT NULL,
    sealed TEXT NOT NULL,
    PRIMARY KEY (name, version)
);

CREATE TABLE document_version (
    number BIGINT PRIMARY KEY,
    version_id TEXT NOT NULL,
    written_at BIGINT NOT NULL,
    content TEXT NOT NULL
);

CREATE TABLE event_cursor (
    one BIGINT PRIMARY KEY,
    height BIGINT NOT NULL,
    stored BIGINT NOT NULL,
    next_number BIGINT NOT NULL
);

INSERT INTO event_cursor (one, height, stored, next_number) VALUES (1, -1, 0, 1);

CREATE TABLE event_at_cursor (
    id TEXT PRIMARY KEY
);

CREATE TABLE outbox (
    number BIGINT PRIMARY KEY,
    id TEXT NOT NULL,
    kind TEXT NOT NULL,
    height BIGINT NOT NULL,
    stored_at BIGINT NOT NULL,
    body TEXT NOT NULL
);

CREATE TABLE dead_letter (
    number BIGINT PRIMARY KEY,
    id TEXT NOT NULL,
    kind TEXT NOT NULL,
    height BIGINT NOT NULL,
    stored_at BIGINT NOT NULL,
    body TEXT NOT NULL,
    attempts BIGINT NOT NULL,
    last_status BIGINT,
    last_error TEXT,
    moved_at BIGINT NOT NULL
);

CREATE UNIQUE INDEX dead_letter_id ON dead_letter (id);

CREATE TABLE event_gap (
    from_height BIGINT PRIMARY KEY,
    to_height BIGINT NOT NULL,
    count BIGINT NOT NULL
);

CREATE TABLE resolution (
    one BIGINT PRIMARY KEY,
    wanted BIGINT NOT NULL,
    first_change_at BIGINT NOT NULL,
    last_change_at BIGINT NOT NULL,
    submitted BIGINT NOT NULL,
    done BIGINT NOT NULL,
    tx_hash TEXT
);

INSERT INTO resolution (one, wanted, first_change_at, last_change_at, submitted, done) VALUES (1, 0, 0, 0, 0, 0);

CREATE TABLE own_transaction (
    hash TEXT PRIMARY KEY
);

CREATE TABLE chain (
    one BIGINT PRIMARY KEY,
    chain_id TEXT NOT NULL,
    account TEXT NOT NULL,
    height BIGINT NOT NULL
);
