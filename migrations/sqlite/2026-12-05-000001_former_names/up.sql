-- Addresses that databases had, which forward to them until a database has them again. `position` is the version of the database whose
-- change ended the address, so it sorts by age.
CREATE TABLE former_names (
    owner_id TEXT NOT NULL REFERENCES accounts (id),
    name_key TEXT NOT NULL,
    name TEXT NOT NULL,
    database_id TEXT NOT NULL REFERENCES databases (id),
    position BIGINT NOT NULL,
    PRIMARY KEY (owner_id, name_key)
);
CREATE UNIQUE INDEX former_names_by_database ON former_names (database_id, position);
