-- Which entities ever had a value: all of a kind, its corporation, parent, name and DID. A list seeks its ids here, and then the
-- version of each at a height, so that its cost does not grow with the number of versions.
CREATE TABLE entity_lookup (
    kind TEXT NOT NULL, attribute TEXT NOT NULL, value TEXT NOT NULL, id BIGINT NOT NULL,
    PRIMARY KEY (kind, attribute, value, id));
INSERT INTO entity_lookup (kind, attribute, value, id)
    SELECT DISTINCT kind, 'all', '', id FROM entity;
INSERT INTO entity_lookup (kind, attribute, value, id)
    SELECT DISTINCT kind, 'corporation', CAST(corporation_id AS TEXT), id FROM entity WHERE corporation_id IS NOT NULL;
INSERT INTO entity_lookup (kind, attribute, value, id)
    SELECT DISTINCT kind, 'parent', CAST(parent_id AS TEXT), id FROM entity WHERE parent_id IS NOT NULL;
INSERT INTO entity_lookup (kind, attribute, value, id)
    SELECT DISTINCT kind, 'name', name, id FROM entity WHERE name IS NOT NULL;
INSERT INTO entity_lookup (kind, attribute, value, id)
    SELECT DISTINCT kind, 'did', did, id FROM entity WHERE did IS NOT NULL;
DROP INDEX entity_by_name;
DROP INDEX entity_by_corporation;
DROP INDEX entity_by_parent;
DROP INDEX entity_by_did;
CREATE INDEX trust_change_by_corporation ON trust_change (corporation_id, height);
CREATE INDEX trust_change_by_former_corporation ON trust_change (former_corporation_id, height);
