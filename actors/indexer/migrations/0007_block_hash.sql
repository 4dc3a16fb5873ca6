-- The hash of a block, by which the next one is known to follow it; unknown for blocks of earlier releases.
ALTER TABLE block ADD COLUMN hash TEXT;
-- The block that scheduled a change: a rollback removes the changes of the blocks that it removes.
ALTER TABLE schedule ADD COLUMN height BIGINT NOT NULL DEFAULT 0;
