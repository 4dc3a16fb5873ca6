CREATE TABLE credential (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    schema_id BIGINT NOT NULL,
    issuer TEXT NOT NULL,
    subject TEXT NOT NULL,
    issuer_participant BIGINT NOT NULL,
    digest TEXT NOT NULL,
    claims_digest TEXT NOT NULL,
    proof_method TEXT NOT NULL,
    body TEXT NOT NULL,
    state TEXT NOT NULL,
    reason TEXT,
    tx_hash TEXT,
    valid_until BIGINT,
    created_at BIGINT NOT NULL
);

CREATE INDEX credential_of_subject ON credential (subject, schema_id, claims_digest);

CREATE INDEX credential_by_key ON credential (proof_method);

CREATE INDEX credential_by_state ON credential (state, kind);
