-- Evaluations that wait for a web server, since an instant in milliseconds.
CREATE TABLE trust_open (did_key TEXT PRIMARY KEY, did TEXT NOT NULL, since BIGINT NOT NULL, body TEXT NOT NULL);
