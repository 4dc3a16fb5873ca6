-- The credentials that a version presents. Their links have no part of them in it, so that a renewal alone leaves the document equal.
ALTER TABLE document_version ADD COLUMN presented TEXT NOT NULL DEFAULT '';
