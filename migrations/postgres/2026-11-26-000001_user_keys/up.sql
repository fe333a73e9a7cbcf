-- The public halves of the keys with which clients of the engine sign their requests. A kid is derived from its key.
CREATE TABLE user_keys (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    user_id TEXT COLLATE "C" NOT NULL REFERENCES users (id),
    name TEXT NOT NULL,
    public_key BYTEA NOT NULL UNIQUE CHECK (length(public_key) = 32),
    kid TEXT COLLATE "C" NOT NULL UNIQUE,
    created_at BIGINT NOT NULL,
    last_used_at BIGINT
);
CREATE INDEX user_keys_by_user ON user_keys (user_id, id);
