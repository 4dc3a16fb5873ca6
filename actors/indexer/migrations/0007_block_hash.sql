-- The hash of a block, by which the next one is known to follow it; unknown for blocks of earlier releases.
ALTER TABLE block ADD COLUMN hash TEXT;
