-- The row that transactions lock for what belongs to no account and no database.
CREATE TABLE server (id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1));
INSERT INTO server (id) VALUES (1);
