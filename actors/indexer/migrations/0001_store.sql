-- The common subset of SQLite and PostgreSQL. Instants are nanoseconds since the epoch, bodies are JSON.
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE block (height BIGINT PRIMARY KEY, time BIGINT NOT NULL);

-- Versions of entities: each holds from a height until, exclusively, another.
CREATE TABLE entity (
    kind TEXT NOT NULL, id BIGINT NOT NULL, from_height BIGINT NOT NULL, until_height BIGINT,
    corporation_id BIGINT, parent_id BIGINT, name TEXT, did TEXT, body TEXT NOT NULL,
    PRIMARY KEY (kind, id, from_height));
CREATE INDEX entity_by_name ON entity (kind, name);
CREATE INDEX entity_by_corporation ON entity (kind, corporation_id, id);
CREATE INDEX entity_by_parent ON entity (kind, parent_id, id);
CREATE INDEX entity_by_did ON entity (kind, did);

-- Entities whose state changes by time alone.
CREATE TABLE schedule (due BIGINT NOT NULL, kind TEXT NOT NULL, id BIGINT NOT NULL, PRIMARY KEY (due, kind, id));

CREATE TABLE event (
    height BIGINT NOT NULL, position BIGINT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (height, position));
CREATE TABLE event_route (
    route TEXT NOT NULL, height BIGINT NOT NULL, position BIGINT NOT NULL, PRIMARY KEY (route, height, position));

CREATE TABLE activity (
    id BIGINT PRIMARY KEY, height BIGINT NOT NULL, entity_type TEXT NOT NULL, entity_key TEXT NOT NULL,
    msg TEXT NOT NULL, account TEXT, changes TEXT);
CREATE INDEX activity_by_entity ON activity (entity_type, entity_key, id);
CREATE INDEX activity_by_height ON activity (height);

-- Figures of a scope after a height in which one of them changed.
CREATE TABLE measure (
    scope BIGINT NOT NULL, scope_id BIGINT NOT NULL, height BIGINT NOT NULL, time BIGINT NOT NULL, body TEXT NOT NULL,
    PRIMARY KEY (scope, scope_id, height));
CREATE TABLE bucket (
    id BIGINT PRIMARY KEY, granularity TEXT NOT NULL, opens BIGINT NOT NULL, scope BIGINT NOT NULL,
    scope_id BIGINT NOT NULL, from_height BIGINT NOT NULL, UNIQUE (scope, scope_id, granularity, opens));
