-- Access of peers to endpoints. Times are seconds since the epoch. A grant has no token: it is made again from the row.
CREATE TABLE access_grant (
    id TEXT PRIMARY KEY,
    peer TEXT NOT NULL,
    request_id TEXT NOT NULL,
    connection_id TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    url TEXT NOT NULL,
    material TEXT NOT NULL,
    details TEXT NOT NULL,
    scopes TEXT NOT NULL,
    issued_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    revoked_at BIGINT,
    reason TEXT
);

CREATE UNIQUE INDEX access_grant_of_request ON access_grant (peer, request_id);

CREATE INDEX access_grant_of_peer ON access_grant (peer, endpoint, expires_at);

CREATE INDEX access_grant_end ON access_grant (expires_at, id);

-- The keys of tokens, whose secrets are among the private keys. One is used from a time on, when resolvers know it.
CREATE TABLE access_key (
    version BIGINT PRIMARY KEY,
    used_from BIGINT NOT NULL
);

-- Tokens that were issued before this time are void.
CREATE TABLE access_validity (
    one BIGINT PRIMARY KEY,
    valid_from BIGINT NOT NULL
);

INSERT INTO access_validity (one, valid_from) VALUES (1, 0);
