-- What the evaluation of trust keeps beside its verdicts, which are entities with versions like all others.
CREATE INDEX entity_by_start ON entity (from_height);
CREATE INDEX entity_by_end ON entity (until_height);
CREATE INDEX measure_by_height ON measure (height);

-- What a DID's verdict depends on.
CREATE TABLE trust_input (did_key TEXT NOT NULL, need TEXT NOT NULL, did TEXT NOT NULL, PRIMARY KEY (did_key, need));
CREATE INDEX trust_input_by_need ON trust_input (need);

-- What was fetched from web servers, as it was last fetched.
CREATE TABLE trust_material (need TEXT PRIMARY KEY, body TEXT NOT NULL);

-- DIDs that are still to be judged.
CREATE TABLE trust_job (did_key TEXT PRIMARY KEY, did TEXT NOT NULL, fresh BIGINT NOT NULL);

-- What each height changed of a DID.
CREATE TABLE trust_change (
    height BIGINT NOT NULL, did_key TEXT NOT NULL, corporation_id BIGINT NOT NULL, former_corporation_id BIGINT, body TEXT NOT NULL,
    PRIMARY KEY (height, did_key));
CREATE INDEX trust_change_by_did ON trust_change (did_key, height);
