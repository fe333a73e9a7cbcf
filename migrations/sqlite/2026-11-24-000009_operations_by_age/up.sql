-- Finds the operations of the last day.
CREATE INDEX operations_by_age ON operations (created_at);
