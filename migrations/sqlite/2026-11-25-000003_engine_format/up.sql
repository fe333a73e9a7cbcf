-- Format of the engine file of a database. Earlier releases wrote files with DoltLite 0.51.6, whose format is 12.
ALTER TABLE databases ADD COLUMN engine_format BIGINT NOT NULL DEFAULT 12;
