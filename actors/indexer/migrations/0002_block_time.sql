-- The block of an instant: TRQP asks by time.
CREATE INDEX block_by_time ON block (time);
