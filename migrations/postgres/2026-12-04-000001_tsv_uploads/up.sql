-- Uploads of tab-separated values.
ALTER TABLE uploads DROP CONSTRAINT uploads_file_type_check;
ALTER TABLE uploads ADD CONSTRAINT uploads_file_type_check CHECK (file_type IN ('csv', 'psv', 'tsv', 'xlsx', 'json', 'sql', 'yaml', 'parquet', 'sqlite'));
