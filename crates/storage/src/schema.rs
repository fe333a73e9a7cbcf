//! The tables, defined once for both engines. diesel abstracts from the differences (BLOB and BYTEA, collations).

diesel::table! {
    installation (id) {
        id -> Text,
    }
}

diesel::table! {
    accounts (id) {
        id -> Text,
        name -> Text,
        name_key -> Text,
        kind -> Text,
        created_at -> BigInt,
        deleted_at -> Nullable<BigInt>,
        deleted_by -> Nullable<Text>,
    }
}

diesel::table! {
    users (id) {
        id -> Text,
        display_name -> Nullable<Text>,
        bio -> Nullable<Text>,
        location -> Nullable<Text>,
        website_url -> Nullable<Text>,
        profile_pic_url -> Nullable<Text>,
        password_hash -> Nullable<Text>,
        is_admin -> Bool,
        suspended_at -> Nullable<BigInt>,
    }
}

diesel::table! {
    emails (user_id, position) {
        user_id -> Text,
        position -> Integer,
        address -> Text,
        is_primary -> Bool,
        is_verified -> Bool,
    }
}

diesel::table! {
    organizations (id) {
        id -> Text,
        display_name -> Nullable<Text>,
        description -> Nullable<Text>,
        base_role -> Text,
    }
}

diesel::table! {
    members (organization_id, user_id) {
        organization_id -> Text,
        user_id -> Text,
        role -> Text,
        added_at -> BigInt,
    }
}

diesel::table! {
    tokens (id) {
        id -> Text,
        user_id -> Text,
        name -> Text,
        hash -> Binary,
        created_at -> BigInt,
        expires_at -> BigInt,
        last_used_at -> Nullable<BigInt>,
        last_used_address -> Nullable<Text>,
        last_used_agent -> Nullable<Text>,
    }
}

diesel::table! {
    user_keys (id) {
        id -> Text,
        user_id -> Text,
        name -> Text,
        public_key -> Binary,
        kid -> Text,
        created_at -> BigInt,
        last_used_at -> Nullable<BigInt>,
    }
}

diesel::table! {
    oauth_applications (id) {
        id -> Text,
        owner_id -> Text,
        name -> Text,
        redirect_uris -> Text,
        created_at -> BigInt,
    }
}

diesel::table! {
    oauth_grants (id) {
        id -> Text,
        user_id -> Text,
        application_id -> Text,
        scope -> Text,
        created_at -> BigInt,
        expires_at -> BigInt,
        code_hash -> Nullable<Binary>,
        family_hash -> Binary,
        current_hash -> Binary,
        previous_hash -> Nullable<Binary>,
        rotated_at -> BigInt,
        last_used_at -> Nullable<BigInt>,
        last_used_address -> Nullable<Text>,
        last_used_agent -> Nullable<Text>,
    }
}

diesel::table! {
    oauth_access_tokens (hash) {
        hash -> Binary,
        grant_id -> Text,
        scope -> Text,
        expires_at -> BigInt,
    }
}

diesel::table! {
    oauth_codes (hash) {
        hash -> Binary,
        application_id -> Text,
        user_id -> Text,
        scope -> Text,
        redirect_uri -> Text,
        challenge -> Binary,
        expires_at -> BigInt,
    }
}

diesel::table! {
    oauth_devices (hash) {
        hash -> Binary,
        user_code -> Text,
        application_id -> Text,
        scope -> Text,
        created_at -> BigInt,
        expires_at -> BigInt,
        interval_seconds -> BigInt,
        polled_at -> Nullable<BigInt>,
        decided_by -> Nullable<Text>,
        is_approved -> Nullable<Bool>,
    }
}

diesel::table! {
    former_names (owner_id, name_key) {
        owner_id -> Text,
        name_key -> Text,
        name -> Text,
        database_id -> Text,
        position -> BigInt,
    }
}

diesel::table! {
    mirrors (database_id) {
        database_id -> Text,
        url -> Text,
        interval_seconds -> BigInt,
        seed_key_id -> Text,
        seed_sealed -> Binary,
        public_key -> Binary,
        created_by -> Text,
        last_sync_at -> Nullable<BigInt>,
        last_error -> Nullable<Text>,
        failures -> BigInt,
        next_sync_at -> Nullable<BigInt>,
    }
}

diesel::table! {
    sessions (id) {
        id -> Text,
        user_id -> Text,
        hash -> Binary,
        created_at -> BigInt,
        expires_at -> BigInt,
        last_used_at -> BigInt,
        last_used_address -> Text,
        last_used_agent -> Text,
        confirmed_at -> BigInt,
    }
}

diesel::table! {
    invitations (id) {
        id -> Text,
        hash -> Binary,
        is_admin -> Bool,
        created_by -> Nullable<Text>,
        created_at -> BigInt,
        expires_at -> BigInt,
    }
}

diesel::table! {
    databases (id) {
        id -> Text,
        owner_id -> Text,
        owner_name -> Text,
        owner_key -> Text,
        name -> Text,
        name_key -> Text,
        description -> Nullable<Text>,
        search_key -> Text,
        visibility -> Text,
        default_branch -> Text,
        anonymous_sql -> Bool,
        is_mirror -> Bool,
        parent_id -> Nullable<Text>,
        network_id -> Text,
        created_at -> BigInt,
        last_write_at -> Nullable<BigInt>,
        size_bytes -> BigInt,
        star_count -> BigInt,
        version -> BigInt,
        deleted_at -> Nullable<BigInt>,
        next_pull -> BigInt,
        generation -> BigInt,
        quarantined_at -> Nullable<BigInt>,
        live_bytes -> BigInt,
        engine_format -> BigInt,
    }
}

diesel::table! {
    collections (database_id) {
        database_id -> Text,
        due_at -> Nullable<BigInt>,
        is_urgent -> Bool,
        requests -> BigInt,
        failures -> BigInt,
        retry_at -> Nullable<BigInt>,
        lease_holder -> Nullable<Text>,
        lease_until -> Nullable<BigInt>,
        history_from -> Nullable<BigInt>,
    }
}

diesel::table! {
    ref_log (database_id, kind, name, changed_at, id) {
        id -> Text,
        database_id -> Text,
        kind -> Text,
        name -> Text,
        old_commit -> Nullable<Text>,
        new_commit -> Nullable<Text>,
        changed_at -> BigInt,
        changed_by -> Nullable<Text>,
        is_left_behind -> Bool,
        is_erased -> Bool,
    }
}

diesel::table! {
    ref_log_start (id) {
        id -> Integer,
        complete_from -> BigInt,
    }
}

diesel::table! {
    collaborators (database_id, user_id) {
        database_id -> Text,
        user_id -> Text,
        role -> Text,
        added_at -> BigInt,
    }
}

diesel::table! {
    stars (database_id, user_id) {
        database_id -> Text,
        user_id -> Text,
        starred_at -> BigInt,
    }
}

diesel::table! {
    branches (database_id, name) {
        database_id -> Text,
        name -> Text,
        head -> Text,
        updated_at -> BigInt,
    }
}

diesel::table! {
    tags (database_id, name) {
        database_id -> Text,
        name -> Text,
        commit_hash -> Text,
        message -> Nullable<Text>,
        tagged_at -> BigInt,
        tagger_name -> Nullable<Text>,
        tagger_email -> Nullable<Text>,
    }
}

diesel::table! {
    pulls (database_id, number) {
        database_id -> Text,
        number -> BigInt,
        title -> Text,
        description -> Nullable<Text>,
        search_key -> Text,
        state -> Text,
        closed_at -> Nullable<BigInt>,
        merged_at -> Nullable<BigInt>,
        merged_by -> Nullable<Text>,
        merged_commit -> Nullable<Text>,
        merged_base -> Nullable<Text>,
        merged_source -> Nullable<Text>,
        creator_id -> Text,
        from_database_id -> Text,
        from_owner -> Text,
        from_name -> Text,
        from_branch -> Text,
        to_branch -> Text,
        created_at -> BigInt,
        updated_at -> BigInt,
        version -> BigInt,
        from_head -> Nullable<Text>,
        to_head -> Nullable<Text>,
        hidden -> Nullable<Text>,
        is_published -> Bool,
        fetch_due_at -> Nullable<BigInt>,
        fetch_lease_until -> Nullable<BigInt>,
        fetch_tries -> BigInt,
    }
}

diesel::table! {
    comments (id) {
        id -> Text,
        database_id -> Text,
        number -> BigInt,
        author_id -> Text,
        body -> Text,
        created_at -> BigInt,
        updated_at -> BigInt,
    }
}

diesel::table! {
    releases (id) {
        id -> Text,
        database_id -> Text,
        tag -> Text,
        title -> Text,
        commit_hash -> Text,
        description -> Nullable<Text>,
        created_at -> BigInt,
        updated_at -> BigInt,
    }
}

diesel::table! {
    operations (id) {
        id -> Text,
        database_id -> Text,
        kind -> Text,
        work -> Text,
        fork_owner_id -> Nullable<Text>,
        fork_name_key -> Nullable<Text>,
        state -> Text,
        outcome -> Nullable<Text>,
        failure -> Nullable<Text>,
        lease_holder -> Nullable<Text>,
        lease_until -> Nullable<BigInt>,
        attempts -> BigInt,
        created_by -> Text,
        created_at -> BigInt,
        started_at -> Nullable<BigInt>,
        finished_at -> Nullable<BigInt>,
        traceparent -> Nullable<Text>,
    }
}

diesel::table! {
    uploads (id) {
        id -> Text,
        database_id -> Text,
        user_id -> Text,
        secret_hash -> Binary,
        content_length -> BigInt,
        num_parts -> BigInt,
        file_type -> Text,
        created_at -> BigInt,
        expires_at -> BigInt,
        used_by -> Nullable<Text>,
    }
}

diesel::table! {
    upload_parts (upload_id, number) {
        upload_id -> Text,
        number -> BigInt,
        size -> BigInt,
        md5 -> Binary,
    }
}

diesel::table! {
    answers (caller_id, scope, idempotency_key) {
        caller_id -> Text,
        scope -> Text,
        idempotency_key -> Text,
        request_hash -> Binary,
        answer -> Binary,
        created_at -> BigInt,
    }
}

diesel::table! {
    events (position) {
        position -> BigInt,
        id -> Text,
        database_id -> Text,
        at -> BigInt,
        event -> Text,
        body -> Text,
        dispatched_at -> Nullable<BigInt>,
        traceparent -> Nullable<Text>,
    }
}

diesel::table! {
    activities (id) {
        id -> Text,
        database_id -> Text,
        at -> BigInt,
        by_id -> Text,
        kind -> Text,
        ref_name -> Nullable<Text>,
        head -> Nullable<Text>,
        pull_number -> Nullable<BigInt>,
    }
}

diesel::table! {
    hooks (id) {
        id -> Text,
        database_id -> Text,
        url -> Text,
        on_push -> Bool,
        on_pull_request -> Bool,
        on_branch -> Bool,
        active -> Bool,
        disabled_reason -> Nullable<Text>,
        secret_key_id -> Text,
        secret -> Binary,
        previous_key_id -> Nullable<Text>,
        previous_secret -> Nullable<Binary>,
        previous_until -> Nullable<BigInt>,
        failing_since -> Nullable<BigInt>,
        exhausted -> Bool,
        created_at -> BigInt,
        updated_at -> BigInt,
        due_at -> Nullable<BigInt>,
        lease_holder -> Nullable<Text>,
        lease_until -> Nullable<BigInt>,
    }
}

diesel::table! {
    deliveries (id) {
        id -> Text,
        hook_id -> Text,
        event_id -> Text,
        event_name -> Text,
        state -> Text,
        created_at -> BigInt,
        attempt_count -> BigInt,
        run_attempts -> BigInt,
        next_attempt_at -> Nullable<BigInt>,
        finished_at -> Nullable<BigInt>,
        sent_url -> Nullable<Text>,
        sent_headers -> Nullable<Text>,
    }
}

diesel::table! {
    attempts (delivery_id, number) {
        delivery_id -> Text,
        number -> BigInt,
        id -> Text,
        started_at -> BigInt,
        duration_ms -> BigInt,
        response_status -> Nullable<BigInt>,
        response_headers -> Nullable<Text>,
        response_body -> Nullable<Binary>,
        error -> Nullable<Text>,
    }
}

diesel::table! {
    deployments (id) {
        id -> Text,
        owner_id -> Text,
        owner_name -> Text,
        name -> Text,
        name_key -> Text,
        state -> Text,
        cloud -> Text,
        zone -> Text,
        node -> Text,
        created_by -> Text,
        created_at -> BigInt,
        details -> Text,
        version -> BigInt,
        removed_at -> Nullable<BigInt>,
        deleted_at -> Nullable<BigInt>,
    }
}

diesel::table! {
    deployment_collaborators (deployment_id, user_id) {
        deployment_id -> Text,
        user_id -> Text,
        role -> Text,
        added_at -> BigInt,
    }
}

diesel::table! {
    instances (id) {
        id -> Text,
        deployment_id -> Text,
        position -> BigInt,
        state -> Text,
        port -> BigInt,
        details -> Text,
    }
}

diesel::table! {
    intervals (instance_id, kind, number) {
        instance_id -> Text,
        kind -> Text,
        number -> BigInt,
        owner_id -> Text,
        deployment_id -> Text,
        instance_index -> BigInt,
        type_id -> Text,
        rate -> BigInt,
        opened_at -> BigInt,
        proven_at -> Nullable<BigInt>,
        closed_at -> Nullable<BigInt>,
    }
}

diesel::table! {
    backups (deployment_id, id) {
        deployment_id -> Text,
        id -> Text,
        kind -> Text,
        databases -> Text,
        expires_at -> BigInt,
    }
}

diesel::table! {
    samples (instance_id, resolution, at) {
        instance_id -> Text,
        resolution -> Text,
        at -> BigInt,
        measured -> Text,
    }
}

diesel::table! {
    deployment_operations (id) {
        id -> Text,
        deployment_id -> Text,
        kind -> Text,
        instance_id -> Nullable<Text>,
        state -> Text,
        backup_id -> Nullable<Text>,
        failure_kind -> Nullable<Text>,
        failure_reason -> Nullable<Text>,
        failure_detail -> Nullable<Text>,
        created_by -> Text,
        created_at -> BigInt,
        updated_at -> Nullable<BigInt>,
    }
}

diesel::table! {
    nodes (id) {
        id -> Text,
        incarnation -> Text,
        alive_until -> BigInt,
        address -> Nullable<Text>,
        version -> Text,
        started_at -> BigInt,
        drained_at -> Nullable<BigInt>,
        measured_at -> Nullable<BigInt>,
        copies -> BigInt,
        copy_bytes -> BigInt,
        copy_limit_bytes -> BigInt,
        copies_behind -> BigInt,
        bytes_behind -> BigInt,
    }
}

diesel::table! {
    files (database_id) {
        database_id -> Text,
        generation -> BigInt,
        durable_length -> BigInt,
        epoch -> BigInt,
        owner_node -> Nullable<Text>,
        owner_incarnation -> Nullable<Text>,
        write_number -> BigInt,
        copied_from -> Nullable<Text>,
    }
}

diesel::table! {
    segments (database_id, generation, start_at) {
        database_id -> Text,
        generation -> BigInt,
        start_at -> BigInt,
        end_at -> BigInt,
        object -> Text,
        object_offset -> BigInt,
        sha256 -> Binary,
        key_id -> Nullable<Text>,
    }
}

diesel::table! {
    data_keys (id) {
        id -> Text,
        scope -> Text,
        master_id -> Text,
        wrapped -> Binary,
        added_at -> BigInt,
    }
}

diesel::table! {
    doomed_objects (object) {
        object -> Text,
        since -> BigInt,
        was_named -> Integer,
        kept_until -> BigInt,
    }
}

diesel::table! {
    store_state (id) {
        id -> Integer,
        cluster_id -> Nullable<Text>,
        collector -> Nullable<Text>,
        collector_until -> BigInt,
        collected_at -> BigInt,
        listed_at -> BigInt,
    }
}

diesel::table! {
    key_ring (id) {
        id -> Integer,
        version -> BigInt,
        master_id -> Text,
        sealed -> Binary,
        changed_at -> BigInt,
    }
}

diesel::table! {
    sign_in_attempts (subject) {
        subject -> Text,
        began_at -> BigInt,
        attempts -> BigInt,
    }
}

diesel::table! {
    request_counts (user_id) {
        user_id -> Text,
        began_at -> BigInt,
        requests -> BigInt,
    }
}

diesel::table! {
    branchyard_migrations (version) {
        version -> Text,
        hash -> Text,
        applied_at -> BigInt,
    }
}

diesel::allow_tables_to_appear_in_same_query!(
    accounts,
    users,
    emails,
    organizations,
    members,
    tokens,
    user_keys,
    sessions,
    invitations,
    oauth_applications,
    oauth_grants,
    oauth_access_tokens,
    oauth_codes,
    oauth_devices,
    databases,
    former_names,
    mirrors,
    collaborators,
    stars,
    branches,
    tags,
    ref_log,
    ref_log_start,
    collections,
    pulls,
    comments,
    releases,
    operations,
    uploads,
    upload_parts,
    answers,
    events,
    activities,
    hooks,
    deliveries,
    attempts,
    deployments,
    deployment_collaborators,
    instances,
    intervals,
    backups,
    samples,
    deployment_operations,
    nodes,
    files,
    segments,
    data_keys,
    doomed_objects,
    store_state,
    key_ring,
    sign_in_attempts,
    request_counts,
);
