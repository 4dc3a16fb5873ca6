-- The time of an activity stands in its row: a page of a log would otherwise seek a block for each of its rows.
ALTER TABLE activity ADD COLUMN time BIGINT NOT NULL DEFAULT 0;
UPDATE activity SET time = (SELECT b.time FROM block b WHERE b.height = activity.height);
