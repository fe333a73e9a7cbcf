-- The rows by which nodes share the files of databases: crates/segments is the protocol, crates/storage/src/durable its rows.
-- Times are those of this server's clock.
CREATE TABLE nodes (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    incarnation TEXT COLLATE "C" NOT NULL CHECK (length(incarnation) = 32),
    alive_until BIGINT NOT NULL,
    address TEXT,
    version TEXT NOT NULL,
    started_at BIGINT NOT NULL
);
-- No row of a database is needed: a database is added once its file is durable. A row is never removed, because an epoch of which a
-- late request knows must not return, and the highest number of a write must not sink.
CREATE TABLE files (
    database_id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    generation BIGINT NOT NULL CHECK (generation >= 0),
    durable_length BIGINT NOT NULL CHECK (durable_length >= 0),
    epoch BIGINT NOT NULL CHECK (epoch >= 0),
    owner_node TEXT COLLATE "C",
    owner_incarnation TEXT COLLATE "C",
    write_number BIGINT NOT NULL,
    CHECK ((owner_node IS NULL) = (owner_incarnation IS NULL))
);
CREATE TABLE segments (
    database_id TEXT COLLATE "C" NOT NULL REFERENCES files (database_id),
    generation BIGINT NOT NULL,
    start_at BIGINT NOT NULL CHECK (start_at >= 0),
    end_at BIGINT NOT NULL CHECK (end_at > start_at),
    object TEXT COLLATE "C" NOT NULL,
    object_offset BIGINT NOT NULL CHECK (object_offset >= 0),
    sha256 BYTEA NOT NULL CHECK (length(sha256) = 32),
    PRIMARY KEY (database_id, generation, start_at)
);
CREATE TABLE doomed_objects (
    object TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    since BIGINT NOT NULL
);
CREATE TABLE store_state (
    id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    cluster_id TEXT
);
INSERT INTO store_state (id) VALUES (1);
-- Numbers of writes to files. One row with a counter would make all writers of all databases wait for each other.
CREATE SEQUENCE write_numbers;
