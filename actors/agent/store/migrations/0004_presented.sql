-- The credentials that a version presents. Their links have no part of them in it, so that a renewal alone leaves the document equal.
ALTER TABLE document_version ADD COLUMN presented TEXT NOT NULL DEFAULT '';

-- The keys of credentials in use are found without a look at the credentials.
DROP INDEX credential_by_state;
CREATE INDEX credential_by_state ON credential (state, kind, proof_method);
