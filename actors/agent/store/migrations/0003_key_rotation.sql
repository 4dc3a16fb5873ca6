CREATE TABLE key_rotation (
    one BIGINT PRIMARY KEY,
    kind TEXT NOT NULL,
    phase TEXT NOT NULL,
    since BIGINT NOT NULL,
    new_version BIGINT NOT NULL,
    reissue BIGINT NOT NULL,
    compromised BIGINT NOT NULL
);
