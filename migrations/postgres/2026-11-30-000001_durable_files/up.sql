-- What the metadata remember of the store of databases. A backup leaves it out: it may be restored beside another store.
CREATE TABLE store_state (
    id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    cluster_id TEXT
);
INSERT INTO store_state (id) VALUES (1);
