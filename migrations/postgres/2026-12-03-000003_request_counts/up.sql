-- Requests of users, counted by all nodes of a cluster together. A window begins with its first request. Rows whose window has ended are
-- removed.
CREATE TABLE request_counts (
    user_id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    began_at BIGINT NOT NULL,
    requests BIGINT NOT NULL CHECK (requests > 0)
);
CREATE INDEX request_counts_by_age ON request_counts (began_at);
