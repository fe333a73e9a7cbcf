-- Whether callers without a credential may run SQL on the database.
ALTER TABLE databases ADD COLUMN anonymous_sql BOOLEAN NOT NULL DEFAULT TRUE;
