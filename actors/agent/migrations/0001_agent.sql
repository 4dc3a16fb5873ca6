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
