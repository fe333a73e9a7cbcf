-- Applications that users registered: the clients of OAuth. The one that is built into the server has no row. `redirect_uris` has one on each
-- line.
CREATE TABLE oauth_applications (
    id TEXT NOT NULL PRIMARY KEY,
    owner_id TEXT NOT NULL REFERENCES users (id),
    name TEXT NOT NULL,
    redirect_uris TEXT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX oauth_applications_by_owner ON oauth_applications (owner_id, id);

-- What users granted to applications. Only the SHA-256 of codes and tokens is kept: of the code that the grant was given for, of what its
-- refresh tokens share, and of the newest two of them.
CREATE TABLE oauth_grants (
    id TEXT NOT NULL PRIMARY KEY,
    user_id TEXT NOT NULL REFERENCES users (id),
    application_id TEXT NOT NULL,
    scope TEXT NOT NULL CHECK (scope IN ('api_read', 'api_read_write')),
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    code_hash BLOB UNIQUE CHECK (length(code_hash) = 32),
    family_hash BLOB NOT NULL UNIQUE CHECK (length(family_hash) = 32),
    current_hash BLOB NOT NULL CHECK (length(current_hash) = 32),
    previous_hash BLOB CHECK (length(previous_hash) = 32),
    rotated_at BIGINT NOT NULL,
    last_used_at BIGINT,
    last_used_address TEXT,
    last_used_agent TEXT
);
CREATE INDEX oauth_grants_by_user ON oauth_grants (user_id, id);
CREATE INDEX oauth_grants_by_application ON oauth_grants (application_id);
CREATE INDEX oauth_grants_by_end ON oauth_grants (expires_at);

CREATE TABLE oauth_access_tokens (
    hash BLOB NOT NULL PRIMARY KEY CHECK (length(hash) = 32),
    grant_id TEXT NOT NULL REFERENCES oauth_grants (id) ON DELETE CASCADE,
    scope TEXT NOT NULL CHECK (scope IN ('api_read', 'api_read_write')),
    expires_at BIGINT NOT NULL
);
CREATE INDEX oauth_access_tokens_by_grant ON oauth_access_tokens (grant_id, expires_at);

-- Consents that the application has not fetched yet.
CREATE TABLE oauth_codes (
    hash BLOB NOT NULL PRIMARY KEY CHECK (length(hash) = 32),
    application_id TEXT NOT NULL,
    user_id TEXT NOT NULL REFERENCES users (id),
    scope TEXT NOT NULL CHECK (scope IN ('api_read', 'api_read_write')),
    redirect_uri TEXT NOT NULL,
    challenge BLOB NOT NULL CHECK (length(challenge) = 32),
    expires_at BIGINT NOT NULL
);
CREATE INDEX oauth_codes_by_user ON oauth_codes (user_id, expires_at);
CREATE INDEX oauth_codes_by_end ON oauth_codes (expires_at);

-- Devices that wait for the consent of a user. A decision has both of the last columns.
CREATE TABLE oauth_devices (
    hash BLOB NOT NULL PRIMARY KEY CHECK (length(hash) = 32),
    user_code TEXT NOT NULL UNIQUE,
    application_id TEXT NOT NULL,
    scope TEXT NOT NULL CHECK (scope IN ('api_read', 'api_read_write')),
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    interval_seconds BIGINT NOT NULL,
    polled_at BIGINT,
    decided_by TEXT REFERENCES users (id),
    is_approved BOOLEAN,
    CHECK ((decided_by IS NULL) = (is_approved IS NULL))
);
CREATE INDEX oauth_devices_by_end ON oauth_devices (expires_at);
CREATE INDEX oauth_devices_by_user ON oauth_devices (decided_by);
