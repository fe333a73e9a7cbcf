DROP INDEX accounts_deleted_name;
ALTER TABLE accounts DROP COLUMN deleted_by;
