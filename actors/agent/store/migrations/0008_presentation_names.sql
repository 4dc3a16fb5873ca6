-- The presentation of a schema that is not essential is named by the id of the schema alone: agents of the first generation look for that name.
UPDATE credential SET name = substr(name, 4) WHERE name LIKE 'cs-%';
