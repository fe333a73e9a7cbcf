-- Attempts to sign in, counted by all servers together. A subject is an account or a network, as a hash; its window begins with its first
-- attempt. Rows whose window has ended are removed.
CREATE TABLE sign_in_attempts (
    subject TEXT NOT NULL PRIMARY KEY,
    began_at BIGINT NOT NULL,
    attempts BIGINT NOT NULL CHECK (attempts > 0)
);
CREATE INDEX sign_in_attempts_by_age ON sign_in_attempts (began_at);
