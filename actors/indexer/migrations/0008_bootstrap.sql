-- The first state of an index while it is read: its block, the pages that are written, and the list that is read next. The index has no
-- block until everything is read, and this row ends with the first one.
CREATE TABLE bootstrap (
    height BIGINT PRIMARY KEY, hash TEXT NOT NULL, pages BIGINT NOT NULL, position TEXT NOT NULL, is_read BIGINT NOT NULL);
