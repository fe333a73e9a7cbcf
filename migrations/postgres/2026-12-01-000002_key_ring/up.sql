-- The key ring of servers with `server_key_file`, sealed under the key in that file. A server without this setting keeps its ring in
-- its data folder, and there is no row.
CREATE TABLE key_ring (
    id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    version BIGINT NOT NULL CHECK (version > 0),
    master_id TEXT COLLATE "C" NOT NULL,
    sealed BYTEA NOT NULL,
    changed_at BIGINT NOT NULL
);
