-- Everything Branchyard keeps besides the databases themselves. Times are microseconds since 1970, ids hyphenated UUIDs.

-- One row: what tells this store from others, so that no data folder is used with the wrong one.
CREATE TABLE installation (
    id TEXT NOT NULL PRIMARY KEY
);

-- People and organizations share one name space. The row of a deleted organization stays, for the deleted databases it owned.
CREATE TABLE accounts (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    name_key TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('user', 'organization')),
    created_at BIGINT NOT NULL,
    deleted_at BIGINT
);
CREATE UNIQUE INDEX accounts_live_name ON accounts (name_key) WHERE deleted_at IS NULL;

CREATE TABLE users (
    id TEXT NOT NULL PRIMARY KEY REFERENCES accounts (id),
    display_name TEXT,
    bio TEXT,
    location TEXT,
    website_url TEXT,
    profile_pic_url TEXT,
    password_hash TEXT,
    is_admin BOOLEAN NOT NULL
);

CREATE TABLE emails (
    user_id TEXT NOT NULL REFERENCES users (id),
    position INTEGER NOT NULL,
    address TEXT NOT NULL,
    is_primary BOOLEAN NOT NULL,
    is_verified BOOLEAN NOT NULL,
    PRIMARY KEY (user_id, position)
);
CREATE UNIQUE INDEX emails_one_primary ON emails (user_id) WHERE is_primary;

CREATE TABLE organizations (
    id TEXT NOT NULL PRIMARY KEY REFERENCES accounts (id),
    display_name TEXT,
    description TEXT,
    base_role TEXT NOT NULL CHECK (base_role IN ('read', 'write', 'admin'))
);

CREATE TABLE members (
    organization_id TEXT NOT NULL REFERENCES organizations (id),
    user_id TEXT NOT NULL REFERENCES users (id),
    role TEXT NOT NULL CHECK (role IN ('owner', 'member')),
    added_at BIGINT NOT NULL,
    PRIMARY KEY (organization_id, user_id)
);
CREATE INDEX members_by_user ON members (user_id);

-- Only the SHA-256 of a token is kept.
CREATE TABLE tokens (
    id TEXT NOT NULL PRIMARY KEY,
    user_id TEXT NOT NULL REFERENCES users (id),
    name TEXT NOT NULL,
    hash BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    last_used_at BIGINT,
    last_used_address TEXT,
    last_used_agent TEXT
);
CREATE INDEX tokens_by_user ON tokens (user_id, id);

-- Only the SHA-256 of what is in a cookie or a link is kept.
CREATE TABLE sessions (
    id TEXT NOT NULL PRIMARY KEY,
    user_id TEXT NOT NULL REFERENCES users (id),
    hash BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    last_used_at BIGINT NOT NULL,
    last_used_address TEXT NOT NULL,
    last_used_agent TEXT NOT NULL
);
CREATE INDEX sessions_by_user ON sessions (user_id, id);
CREATE INDEX sessions_by_end ON sessions (expires_at);

CREATE TABLE invitations (
    id TEXT NOT NULL PRIMARY KEY,
    hash BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),
    is_admin BOOLEAN NOT NULL,
    created_by TEXT REFERENCES users (id),
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX invitations_by_creator ON invitations (created_by);

-- The owner's name is repeated here because lists go by it; names never change. `search_key` is what "contains" looks in:
-- name and description in lower case (of all of Unicode, which neither engine's lower() promises).
CREATE TABLE databases (
    id TEXT NOT NULL PRIMARY KEY,
    owner_id TEXT NOT NULL REFERENCES accounts (id),
    owner_name TEXT NOT NULL,
    owner_key TEXT NOT NULL,
    name TEXT NOT NULL,
    name_key TEXT NOT NULL,
    description TEXT,
    search_key TEXT NOT NULL,
    visibility TEXT NOT NULL CHECK (visibility IN ('public', 'private')),
    default_branch TEXT NOT NULL,
    parent_id TEXT REFERENCES databases (id),
    network_id TEXT NOT NULL REFERENCES databases (id),
    created_at BIGINT NOT NULL,
    last_write_at BIGINT,
    size_bytes BIGINT NOT NULL,
    star_count BIGINT NOT NULL,
    version BIGINT NOT NULL,
    deleted_at BIGINT,
    next_pull BIGINT NOT NULL DEFAULT 1
);
CREATE UNIQUE INDEX databases_live_name ON databases (owner_id, name_key) WHERE deleted_at IS NULL;
CREATE INDEX databases_by_owner ON databases (owner_id);
CREATE INDEX databases_listed ON databases (owner_key, name_key) WHERE deleted_at IS NULL;
CREATE INDEX databases_live ON databases (id) WHERE deleted_at IS NULL;
CREATE INDEX databases_by_parent ON databases (parent_id, owner_key, name_key);
CREATE INDEX databases_by_network ON databases (network_id);
CREATE INDEX databases_by_stars ON databases (star_count, id) WHERE deleted_at IS NULL;
CREATE INDEX databases_by_last_write ON databases ((COALESCE(last_write_at, 0)), id) WHERE deleted_at IS NULL;
CREATE INDEX databases_by_creation ON databases (created_at, id) WHERE deleted_at IS NULL;

CREATE TABLE collaborators (
    database_id TEXT NOT NULL REFERENCES databases (id),
    user_id TEXT NOT NULL REFERENCES users (id),
    role TEXT NOT NULL CHECK (role IN ('read', 'write', 'admin')),
    added_at BIGINT NOT NULL,
    PRIMARY KEY (database_id, user_id)
);
CREATE INDEX collaborators_by_user ON collaborators (user_id);

-- `databases.star_count` is how many rows a database has here.
CREATE TABLE stars (
    database_id TEXT NOT NULL REFERENCES databases (id),
    user_id TEXT NOT NULL REFERENCES users (id),
    starred_at BIGINT NOT NULL,
    PRIMARY KEY (database_id, user_id)
);
CREATE INDEX stars_by_user ON stars (user_id);

-- Names are compared byte by byte.
CREATE TABLE branches (
    database_id TEXT NOT NULL REFERENCES databases (id),
    name TEXT NOT NULL,
    head TEXT NOT NULL CHECK (length(head) = 40),
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (database_id, name)
);
CREATE INDEX branches_by_head ON branches (database_id, head);

CREATE TABLE tags (
    database_id TEXT NOT NULL REFERENCES databases (id),
    name TEXT NOT NULL,
    commit_hash TEXT NOT NULL CHECK (length(commit_hash) = 40),
    message TEXT,
    tagged_at BIGINT NOT NULL,
    PRIMARY KEY (database_id, name)
);
CREATE INDEX tags_by_commit ON tags (database_id, commit_hash);

CREATE TABLE pulls (
    database_id TEXT NOT NULL REFERENCES databases (id),
    number BIGINT NOT NULL CHECK (number >= 1),
    title TEXT NOT NULL,
    description TEXT,
    search_key TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('open', 'closed', 'merged')),
    closed_at BIGINT CHECK ((closed_at IS NOT NULL) = (state = 'closed')),
    merged_at BIGINT CHECK ((merged_at IS NOT NULL) = (state = 'merged')),
    merged_by TEXT CHECK ((merged_by IS NOT NULL) = (state = 'merged')),
    merged_commit TEXT CHECK ((merged_commit IS NOT NULL) = (state = 'merged')),
    merged_base TEXT CHECK ((merged_base IS NOT NULL) = (state = 'merged')),
    merged_source TEXT CHECK ((merged_source IS NOT NULL) = (state = 'merged')),
    creator_id TEXT NOT NULL REFERENCES accounts (id),
    from_database_id TEXT NOT NULL REFERENCES databases (id),
    from_owner TEXT NOT NULL,
    from_name TEXT NOT NULL,
    from_branch TEXT NOT NULL,
    to_branch TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    version BIGINT NOT NULL,
    PRIMARY KEY (database_id, number)
);
CREATE UNIQUE INDEX pulls_open ON pulls (database_id, from_database_id, from_branch, to_branch) WHERE state = 'open';
CREATE INDEX pulls_by_state ON pulls (database_id, state, number);
CREATE INDEX pulls_by_creator ON pulls (creator_id);
CREATE INDEX pulls_by_source ON pulls (from_database_id);

CREATE TABLE comments (
    id TEXT NOT NULL PRIMARY KEY,
    database_id TEXT NOT NULL,
    number BIGINT NOT NULL,
    author_id TEXT NOT NULL REFERENCES accounts (id),
    body TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    FOREIGN KEY (database_id, number) REFERENCES pulls (database_id, number)
);
CREATE INDEX comments_by_pull ON comments (database_id, number, created_at, id);
CREATE INDEX comments_by_author ON comments (author_id);

CREATE TABLE releases (
    id TEXT NOT NULL PRIMARY KEY,
    database_id TEXT NOT NULL REFERENCES databases (id),
    tag TEXT NOT NULL,
    title TEXT NOT NULL,
    commit_hash TEXT NOT NULL CHECK (length(commit_hash) = 40),
    description TEXT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    UNIQUE (database_id, tag)
);
CREATE INDEX releases_newest ON releases (database_id, created_at DESC, tag);

-- `kind`, `fork_owner_id` and `fork_name_key` repeat what `work` says, for the queries that need it. Ids sort by creation.
CREATE TABLE operations (
    id TEXT NOT NULL PRIMARY KEY,
    database_id TEXT NOT NULL REFERENCES databases (id),
    kind TEXT NOT NULL CHECK (kind IN ('sql_write', 'merge', 'fork', 'import')),
    work TEXT NOT NULL,
    fork_owner_id TEXT,
    fork_name_key TEXT,
    state TEXT NOT NULL CHECK (state IN ('queued', 'running', 'succeeded', 'failed')),
    outcome TEXT CHECK ((outcome IS NOT NULL) = (state = 'succeeded')),
    failure TEXT CHECK ((failure IS NOT NULL) = (state = 'failed')),
    lease_holder TEXT,
    lease_until BIGINT,
    attempts BIGINT NOT NULL,
    created_by TEXT NOT NULL REFERENCES accounts (id),
    created_at BIGINT NOT NULL,
    started_at BIGINT,
    finished_at BIGINT,
    CHECK ((finished_at IS NOT NULL) = (state IN ('succeeded', 'failed'))),
    CHECK ((lease_holder IS NOT NULL) = (state = 'running')),
    CHECK ((lease_until IS NOT NULL) = (state = 'running'))
);
CREATE INDEX operations_listed ON operations (database_id, id);
CREATE INDEX operations_unsettled ON operations (database_id, state, id) WHERE finished_at IS NULL;
CREATE INDEX operations_queue ON operations (id) WHERE finished_at IS NULL;
CREATE INDEX operations_forking ON operations (fork_owner_id, fork_name_key) WHERE finished_at IS NULL AND fork_owner_id IS NOT NULL;
CREATE INDEX operations_settled ON operations (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX operations_by_creator ON operations (created_by, id);

-- `used_by` names an operation that may be gone: the session then is to be collected, so there is no foreign key.
CREATE TABLE uploads (
    id TEXT NOT NULL PRIMARY KEY,
    database_id TEXT NOT NULL REFERENCES databases (id),
    user_id TEXT NOT NULL REFERENCES users (id),
    secret_hash BLOB NOT NULL CHECK (length(secret_hash) = 32),
    content_length BIGINT NOT NULL,
    num_parts BIGINT NOT NULL,
    file_type TEXT NOT NULL CHECK (file_type IN ('csv', 'psv', 'xlsx', 'json', 'sql', 'yaml', 'parquet', 'sqlite')),
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    used_by TEXT
);
CREATE INDEX uploads_by_database ON uploads (database_id);
CREATE INDEX uploads_by_user ON uploads (user_id);
CREATE INDEX uploads_unused ON uploads (expires_at) WHERE used_by IS NULL;
CREATE INDEX uploads_used ON uploads (used_by) WHERE used_by IS NOT NULL;

CREATE TABLE upload_parts (
    upload_id TEXT NOT NULL REFERENCES uploads (id) ON DELETE CASCADE,
    number BIGINT NOT NULL,
    size BIGINT NOT NULL,
    md5 BLOB NOT NULL CHECK (length(md5) = 16),
    PRIMARY KEY (upload_id, number)
);

-- Answers given for idempotency keys.
CREATE TABLE answers (
    caller_id TEXT NOT NULL REFERENCES accounts (id),
    scope TEXT NOT NULL,
    idempotency_key TEXT NOT NULL,
    request_hash BLOB NOT NULL CHECK (length(request_hash) = 32),
    answer BLOB NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (caller_id, scope, idempotency_key)
);
CREATE INDEX answers_by_age ON answers (created_at);

-- The outbox. `position` is the order in which events were appended; units that write never overlap, so it is the order of
-- their commits as well. `dispatched_at` is when their deliveries were made.
CREATE TABLE events (
    position INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    database_id TEXT NOT NULL REFERENCES databases (id),
    at BIGINT NOT NULL,
    event TEXT NOT NULL,
    body TEXT NOT NULL,
    dispatched_at BIGINT
);
CREATE INDEX events_by_database ON events (database_id, position);
CREATE INDEX events_waiting ON events (position) WHERE dispatched_at IS NULL;

-- What people are told of. Ids sort by creation; an id is that of the event, where there is one.
CREATE TABLE activities (
    id TEXT NOT NULL PRIMARY KEY,
    database_id TEXT NOT NULL REFERENCES databases (id),
    at BIGINT NOT NULL,
    by_id TEXT NOT NULL REFERENCES users (id),
    kind TEXT NOT NULL CHECK (
        kind IN (
            'push', 'branch_created', 'branch_deleted', 'release',
            'pull_opened', 'pull_closed', 'pull_reopened', 'pull_merged'
        )
    ),
    ref_name TEXT,
    head TEXT CHECK ((head IS NOT NULL) = (kind = 'push')),
    pull_number BIGINT CHECK ((pull_number IS NULL) = (ref_name IS NOT NULL))
);
CREATE INDEX activities_listed ON activities (database_id, id);
CREATE INDEX activities_of_pull ON activities (database_id, pull_number, id) WHERE pull_number IS NOT NULL;
CREATE INDEX activities_by_age ON activities (at) WHERE pull_number IS NULL;
CREATE INDEX activities_by_user ON activities (by_id);

-- `due_at` is the earliest time at which one of its deliveries is due. The lease is the hook's, because there is one attempt at a time.
CREATE TABLE hooks (
    id TEXT NOT NULL PRIMARY KEY,
    database_id TEXT NOT NULL REFERENCES databases (id),
    url TEXT NOT NULL,
    on_push BOOLEAN NOT NULL,
    on_pull_request BOOLEAN NOT NULL,
    on_branch BOOLEAN NOT NULL,
    active BOOLEAN NOT NULL,
    disabled_reason TEXT CHECK (disabled_reason IN ('gone', 'failing')),
    secret_key_id TEXT NOT NULL,
    secret BLOB NOT NULL,
    previous_key_id TEXT,
    previous_secret BLOB,
    previous_until BIGINT,
    failing_since BIGINT,
    exhausted BOOLEAN NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    due_at BIGINT,
    lease_holder TEXT,
    lease_until BIGINT,
    CHECK (on_push OR on_pull_request OR on_branch),
    CHECK ((previous_secret IS NULL) = (previous_key_id IS NULL)),
    CHECK ((previous_secret IS NULL) = (previous_until IS NULL)),
    CHECK ((lease_holder IS NULL) = (lease_until IS NULL))
);
CREATE INDEX hooks_by_database ON hooks (database_id, id);
CREATE INDEX hooks_due ON hooks (due_at, id) WHERE due_at IS NOT NULL AND failing_since IS NULL;
CREATE INDEX hooks_due_failing ON hooks (due_at, id) WHERE due_at IS NOT NULL AND failing_since IS NOT NULL;
CREATE INDEX hooks_leased ON hooks (lease_holder) WHERE lease_holder IS NOT NULL;

-- The body is the event's. `sent_url` and `sent_headers` are of the last attempt.
CREATE TABLE deliveries (
    id TEXT NOT NULL PRIMARY KEY,
    hook_id TEXT NOT NULL REFERENCES hooks (id) ON DELETE CASCADE,
    event_id TEXT NOT NULL REFERENCES events (id),
    event_name TEXT NOT NULL CHECK (event_name IN ('push', 'pull_request', 'branch', 'ping')),
    state TEXT NOT NULL CHECK (state IN ('pending', 'delivered', 'failed')),
    created_at BIGINT NOT NULL,
    attempt_count BIGINT NOT NULL,
    run_attempts BIGINT NOT NULL,
    next_attempt_at BIGINT CHECK ((next_attempt_at IS NOT NULL) = (state = 'pending')),
    finished_at BIGINT CHECK ((finished_at IS NULL) = (state = 'pending')),
    sent_url TEXT,
    sent_headers TEXT CHECK ((sent_headers IS NULL) = (sent_url IS NULL))
);
CREATE INDEX deliveries_listed ON deliveries (hook_id, id);
CREATE INDEX deliveries_by_state ON deliveries (hook_id, state, id);
CREATE INDEX deliveries_by_event ON deliveries (event_id);
CREATE INDEX deliveries_in_order ON deliveries (hook_id, id, next_attempt_at) WHERE state = 'pending';
CREATE INDEX deliveries_due ON deliveries (hook_id, next_attempt_at) WHERE state = 'pending';
CREATE INDEX deliveries_finished ON deliveries (finished_at) WHERE finished_at IS NOT NULL;

-- `number` counts over all runs. The body may hold NUL, which a text cannot.
CREATE TABLE attempts (
    delivery_id TEXT NOT NULL REFERENCES deliveries (id) ON DELETE CASCADE,
    number BIGINT NOT NULL,
    id TEXT NOT NULL,
    started_at BIGINT NOT NULL,
    duration_ms BIGINT NOT NULL,
    response_status BIGINT,
    response_headers TEXT,
    response_body BLOB,
    error TEXT CHECK (error IN ('timeout', 'refused', 'dns', 'tls', 'blocked_address', 'redirect', 'connection')),
    PRIMARY KEY (delivery_id, number)
);

-- Databases served to ordinary clients. `details` is versioned JSON: what nothing is looked up by. A removed deployment is hidden; a deleted
-- one has given its name back and stays for the ledger.
CREATE TABLE deployments (
    id TEXT NOT NULL PRIMARY KEY,
    owner_id TEXT NOT NULL REFERENCES accounts (id),
    owner_name TEXT NOT NULL,
    name TEXT NOT NULL,
    name_key TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('starting', 'started', 'stopping', 'stopped')),
    cloud TEXT NOT NULL,
    zone TEXT NOT NULL,
    node TEXT NOT NULL,
    created_by TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    details TEXT NOT NULL,
    version BIGINT NOT NULL,
    removed_at BIGINT,
    deleted_at BIGINT CHECK (deleted_at IS NULL OR removed_at IS NOT NULL)
);
CREATE UNIQUE INDEX deployments_live_name ON deployments (owner_id, name_key) WHERE deleted_at IS NULL;
CREATE INDEX deployments_listed ON deployments (owner_id, id);
CREATE INDEX deployments_running ON deployments (node, id) WHERE state <> 'stopped';

CREATE TABLE deployment_collaborators (
    deployment_id TEXT NOT NULL REFERENCES deployments (id),
    user_id TEXT NOT NULL REFERENCES users (id),
    role TEXT NOT NULL CHECK (role IN ('reader', 'reader_and_pulls', 'writer', 'admin')),
    added_at BIGINT NOT NULL,
    PRIMARY KEY (deployment_id, user_id)
);
CREATE INDEX deployment_collaborators_by_user ON deployment_collaborators (user_id);

-- One process each. A port is held until its instance is stopped.
CREATE TABLE instances (
    id TEXT NOT NULL PRIMARY KEY,
    deployment_id TEXT NOT NULL REFERENCES deployments (id),
    position BIGINT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('starting', 'started', 'stopping', 'stopped')),
    port BIGINT NOT NULL,
    details TEXT NOT NULL
);
CREATE INDEX instances_by_deployment ON instances (deployment_id, id);
CREATE UNIQUE INDEX instances_port ON instances (port) WHERE state <> 'stopped';

-- The ledger: rates in 1e-9 USD per hour. Rows are never removed, and never changed once closed.
CREATE TABLE intervals (
    instance_id TEXT NOT NULL REFERENCES instances (id),
    kind TEXT NOT NULL CHECK (kind IN ('compute', 'storage')),
    number BIGINT NOT NULL,
    owner_id TEXT NOT NULL REFERENCES accounts (id),
    deployment_id TEXT NOT NULL REFERENCES deployments (id),
    instance_index BIGINT NOT NULL,
    type_id TEXT NOT NULL,
    rate BIGINT NOT NULL CHECK (rate >= 0),
    opened_at BIGINT NOT NULL,
    proven_at BIGINT,
    closed_at BIGINT CHECK (closed_at >= opened_at),
    PRIMARY KEY (instance_id, kind, number)
);
CREATE UNIQUE INDEX intervals_one_open ON intervals (instance_id, kind) WHERE closed_at IS NULL;
CREATE INDEX intervals_by_deployment ON intervals (deployment_id, opened_at);
CREATE INDEX intervals_by_owner ON intervals (owner_id, opened_at);

-- Complete and verified ones; `id` is the time in UTC, so it sorts by age.
CREATE TABLE backups (
    deployment_id TEXT NOT NULL REFERENCES deployments (id),
    id TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('nightly', 'manual', 'final')),
    databases TEXT NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (deployment_id, id)
);

CREATE TABLE samples (
    instance_id TEXT NOT NULL REFERENCES instances (id),
    resolution TEXT NOT NULL CHECK (resolution IN ('fine', 'coarse')),
    at BIGINT NOT NULL,
    measured TEXT NOT NULL,
    PRIMARY KEY (instance_id, resolution, at)
);
CREATE INDEX samples_by_age ON samples (resolution, at);

CREATE TABLE deployment_operations (
    id TEXT NOT NULL PRIMARY KEY,
    deployment_id TEXT NOT NULL REFERENCES deployments (id),
    kind TEXT NOT NULL CHECK (kind IN ('reboot_instance', 'create_backup', 'delete')),
    instance_id TEXT CHECK ((instance_id IS NOT NULL) = (kind = 'reboot_instance')),
    state TEXT NOT NULL CHECK (state IN ('queued', 'running', 'succeeded', 'failed')),
    backup_id TEXT,
    failure_kind TEXT CHECK (failure_kind IN ('expired', 'failed', 'internal')),
    failure_reason TEXT,
    failure_detail TEXT,
    created_by TEXT NOT NULL REFERENCES users (id),
    created_at BIGINT NOT NULL,
    updated_at BIGINT,
    CHECK ((failure_kind IS NOT NULL) = (state = 'failed'))
);
CREATE INDEX deployment_operations_listed ON deployment_operations (deployment_id, id);
CREATE INDEX deployment_operations_pending ON deployment_operations (deployment_id) WHERE state IN ('queued', 'running');
CREATE INDEX deployment_operations_by_creator ON deployment_operations (created_by);
CREATE INDEX deployment_operations_settled ON deployment_operations (updated_at) WHERE state IN ('succeeded', 'failed');
