//! Ranges of numeric settings, checked before any store is opened.

use std::fmt::Display;
use std::ops::RangeInclusive;

use anyhow::bail;

use super::{Config, Isolation, MOST_WORKERS, Span};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
/// One hour in milliseconds.
const HOUR_MS: u64 = 3_600_000;

fn within<T: PartialOrd + Display>(key: &str, value: T, range: RangeInclusive<T>) -> anyhow::Result<()> {
    if range.contains(&value) {
        return Ok(());
    }
    bail!("configuration: {key} is {value}; it must be from {} to {}", range.start(), range.end())
}

fn ordered<T: PartialOrd + Display>(low: (&str, T), high: (&str, T)) -> anyhow::Result<()> {
    if low.1 <= high.1 {
        return Ok(());
    }
    bail!("configuration: {} is {}, above {}, which is {}", low.0, low.1, high.0, high.1)
}

/// Checks every number that could keep the server from working, and pairs of settings whose values must be ordered.
pub(super) fn check(config: &Config) -> anyhow::Result<()> {
    check_http(config)?;
    check_pools(config)?;
    check_sql(config)?;
    check_hooks(config)?;
    check_metadata(config)?;
    check_cluster(config)?;
    check_remotes(config)?;
    check_v1alpha1(config)?;
    check_hosted(config)?;
    check_web(config)?;
    let (second, day) = (Span::seconds(1), Span::seconds(86_400));
    within("server.shutdown_grace", config.server.shutdown_grace, second..=Span::seconds(3_600))?;
    within("log.access", config.log.access, 0.0..=1.0)?;
    within("imports.url_ttl", config.imports.url_ttl, second..=day)?;
    within("imports.session_ttl", config.imports.session_ttl, second..=day)?;
    ordered(("imports.url_ttl", config.imports.url_ttl), ("imports.session_ttl", config.imports.session_ttl))?;
    if let Some(kept) = config.limits.keep_deleted {
        within("limits.keep_deleted", kept, Span::seconds(0)..=Span::seconds(90 * 86_400))?;
    }
    within("store.history", config.store.history, Span::seconds(0)..=Span::seconds(90 * 86_400))?;
    within("idempotency.ttl", config.idempotency.ttl, Span::seconds(60)..=Span::seconds(30 * 86_400))?;
    within("tokens.last_used_interval", config.tokens.last_used_interval, second..=day)
}

fn check_http(config: &Config) -> anyhow::Result<()> {
    let (http, pages) = (&config.http, &config.pagination);
    within("http.max_json_body_bytes", http.max_json_body_bytes, KIB..=64 * MIB)?;
    // The minimum has room for one form of a page.
    within("http.max_bytes_in_flight", http.max_bytes_in_flight, 4 * MIB..=64 << 30)?;
    ordered(
        ("http.max_json_body_bytes", http.max_json_body_bytes),
        ("http.max_bytes_in_flight", http.max_bytes_in_flight),
    )?;
    within("http.max_connections_per_address", http.max_connections_per_address, 0..=1_000_000)?;
    // The HTTP parser accepts at most 128 KiB.
    within("http.max_head_bytes", http.max_head_bytes, KIB..=128 * KIB)?;
    within("http.head_timeout_ms", http.head_timeout_ms, 100..=600_000)?;
    within("http.write_stall_ms", http.write_stall_ms, 100..=600_000)?;
    within("pagination.max_page_size", pages.max_page_size, 1..=1_000)?;
    within("pagination.default_page_size", pages.default_page_size, 1..=1_000)?;
    ordered(
        ("pagination.default_page_size", pages.default_page_size),
        ("pagination.max_page_size", pages.max_page_size),
    )?;
    // Published clients reject responses above 16 MiB, and the last item of a page may exceed the cut-off.
    within("pagination.max_page_bytes", pages.max_page_bytes, KIB..=8 * MIB)
}

fn check_web(config: &Config) -> anyhow::Result<()> {
    let web = &config.web;
    let (minute, year) = (Span::seconds(60), Span::seconds(365 * 86_400));
    within("web.session_ttl", web.session_ttl, minute..=year)?;
    within("web.session_max_age", web.session_max_age, minute..=year)?;
    ordered(("web.session_ttl", web.session_ttl), ("web.session_max_age", web.session_max_age))?;
    within("web.confirm_after", web.confirm_after, minute..=year)?;
    within("web.invitation_ttl", web.invitation_ttl, minute..=year)?;
    within("web.sign_ins_per_account", web.sign_ins_per_account, 0..=1_000_000)?;
    within("web.sign_ins_per_address", web.sign_ins_per_address, 0..=1_000_000)?;
    within("web.sign_in_window", web.sign_in_window, Span::seconds(1)..=Span::seconds(86_400))?;
    // The listener takes at most 10,000 connections.
    within("web.live_connections", web.live_connections, 0..=10_000)
}

fn check_metadata(config: &Config) -> anyhow::Result<()> {
    let metadata = &config.metadata;
    within("metadata.readers", metadata.readers, 1..=1_000)?;
    within("metadata.writers", metadata.writers, 1..=1_000)?;
    within("metadata.wait_ms", metadata.wait_ms, 100..=60_000)?;
    within("metadata.statement_timeout_ms", metadata.statement_timeout_ms, 1_000..=HOUR_MS)
}

fn check_cluster(config: &Config) -> anyhow::Result<()> {
    // A server may be this long behind with what it stores, and the clocks of servers and store may differ.
    within("store.grace", config.store.grace, Span::seconds(3_600)..=Span::seconds(365 * 86_400))?;
    // It is renewed five times in its length.
    within("cluster.lease", config.cluster.lease, Span::seconds(2)..=Span::seconds(300))
}

fn check_remotes(config: &Config) -> anyhow::Result<()> {
    let remotes = &config.remotes;
    within("remotes.max_refs", remotes.max_refs, 1..=1_000_000)?;
    within("remotes.max_concurrent", remotes.max_concurrent, 1..=1_024)?;
    // A client gives up after 30 seconds without a byte.
    within("remotes.hold_ms", remotes.hold_ms, 0..=25_000)?;
    within("remotes.max_push_bytes", remotes.max_push_bytes, 1 << 20..=1 << 40)?;
    // Clients send as much at once, or one longer chunk.
    within("remotes.max_chunk_bytes", remotes.max_chunk_bytes, 1 << 20..=1 << 30)?;
    within("remotes.quarantine_ttl", remotes.quarantine_ttl, Span::seconds(60)..=Span::seconds(30 * 86_400))?;
    within("remotes.grace", remotes.grace, Span::seconds(0)..=Span::seconds(30 * 86_400))?;
    within("remotes.check_timeout_ms", remotes.check_timeout_ms, 1_000..=3_600_000)?;
    within("remotes.max_keys_per_user", remotes.max_keys_per_user, 0..=1_000)?;
    match remotes.extra_audiences.iter().find(|host| host.is_empty() || host.contains(['/', ':', ' '])) {
        Some(host) => bail!("configuration: remotes.extra_audiences: '{host}' is not the name of a host"),
        None => Ok(()),
    }
}

fn check_v1alpha1(config: &Config) -> anyhow::Result<()> {
    let alpha = &config.v1alpha1;
    within("v1alpha1.row_limit", alpha.row_limit, 1..=1_000_000)?;
    within("v1alpha1.read_timeout_ms", alpha.read_timeout_ms, 1..=HOUR_MS)?;
    within("v1alpha1.export_timeout_ms", alpha.export_timeout_ms, 1..=24 * HOUR_MS)?;
    within("v1alpha1.upload_max_bytes", alpha.upload_max_bytes, 1..=1 << 40)
}

fn check_pools(config: &Config) -> anyhow::Result<()> {
    let pools = &config.pools;
    // Each permit can use a thread.
    within("pools.reads", pools.reads, 1..=1_024)?;
    within("pools.writes", pools.writes, 1..=1_024)?;
    within("pools.uploads", pools.uploads, 1..=1_024)?;
    within("pools.queue_length", pools.queue_length, 0..=65_536)?;
    within("pools.queue_wait_ms", pools.queue_wait_ms, 0..=60_000)?;
    within("pools.long_after_ms", pools.long_after_ms, 1..=60_000)?;
    within("pools.long_places", pools.long_places, 0..=1_024)?;
    within("pools.long_calls", pools.long_calls, 1..=1_024)?;
    within("pools.long_wait_ms", pools.long_wait_ms, 0..=60_000)?;
    within("pools.long_turn_ms", pools.long_turn_ms, 10..=60_000)
}

fn check_sql(config: &Config) -> anyhow::Result<()> {
    let sql = &config.sql;
    if sql.isolation == Isolation::Process && !cfg!(target_os = "linux") {
        bail!(
            "configuration: sql.isolation = \"process\" works on Linux only; set \"thread\" and serve trusted users only"
        );
    }
    if sql.workers != 0 {
        within("sql.workers", sql.workers, 2..=MOST_WORKERS)?;
    }
    within("sql.default_limit", sql.default_limit, 1..=1_000_000)?;
    within("sql.row_cap", sql.row_cap, 1..=1_000_000)?;
    ordered(("sql.default_limit", sql.default_limit), ("sql.row_cap", sql.row_cap))?;
    within("sql.default_timeout_ms", sql.default_timeout_ms, 1..=HOUR_MS)?;
    within("sql.timeout_cap_ms", sql.timeout_cap_ms, 1..=HOUR_MS)?;
    ordered(("sql.default_timeout_ms", sql.default_timeout_ms), ("sql.timeout_cap_ms", sql.timeout_cap_ms))?;
    within("sql.write_timeout_ms", sql.write_timeout_ms, 1..=HOUR_MS)?;
    within("sql.max_statement_bytes", sql.max_statement_bytes, KIB..=16 * MIB)?;
    ordered(
        ("sql.max_statement_bytes", sql.max_statement_bytes),
        ("http.max_json_body_bytes", config.http.max_json_body_bytes),
    )?;
    within("sql.max_statement_bytes_get", sql.max_statement_bytes_get, 256..=60 * KIB)?;
    within("sql.max_response_bytes", sql.max_response_bytes, 16 * KIB..=15 * MIB)?;
    within("sql.result_cache_bytes", sql.result_cache_bytes, 0..=64 << 30)?;
    within("sql.max_memory_bytes", sql.max_memory_bytes, 16 * MIB..=64 << 30)?;
    if sql.memory_total_bytes != 0 {
        within("sql.memory_total_bytes", sql.memory_total_bytes, 32 * MIB..=64 << 30)?;
    }
    within("sql.max_concurrent_reads", sql.max_concurrent_reads, 1..=4_096)?;
    within("sql.max_computing_reads", sql.max_computing_reads, 0..=4_096)?;
    within("sql.max_concurrent_reads_per_caller", sql.max_concurrent_reads_per_caller, 1..=4_096)?;
    within("sql.read_queue_length", sql.read_queue_length, 0..=65_536)?;
    within("sql.read_queue_wait_ms", sql.read_queue_wait_ms, 0..=60_000)?;
    within("sql.stream_stall_ms", sql.stream_stall_ms, 100..=600_000)
}

fn check_hooks(config: &Config) -> anyhow::Result<()> {
    let hooks = &config.hooks;
    within("hooks.max_per_database", hooks.max_per_database, 0..=100_000)?;
    within("hooks.timeout_ms", hooks.timeout_ms, 100..=120_000)?;
    within("hooks.response_bytes", hooks.response_bytes, 0..=MIB)?;
    within("the number of hooks.retry_delays_ms", hooks.retry_delays_ms.len(), 1..=100)?;
    for delay in &hooks.retry_delays_ms {
        within("an item of hooks.retry_delays_ms", *delay, 0..=720 * HOUR_MS)?;
    }
    let (second, year) = (Span::seconds(1), Span::seconds(365 * 86_400));
    within("hooks.disable_after", hooks.disable_after, second..=year)?;
    within("hooks.concurrency", hooks.concurrency, 1..=1_024)?;
    within("hooks.shutdown_grace", hooks.shutdown_grace, Span::seconds(0)..=Span::seconds(3_600))?;
    within("hooks.log_retention", hooks.log_retention, Span::seconds(60)..=year)
}

fn check_hosted(config: &Config) -> anyhow::Result<()> {
    let hosted = &config.hosted;
    let (second, day) = (Span::seconds(1), Span::seconds(86_400));
    within("hosted.orphan_grace", hosted.orphan_grace, second..=day)?;
    within("hosted.start_deadline", hosted.start_deadline, second..=day)?;
    within("hosted.backup_hour_utc", hosted.backup_hour_utc, 0..=23)?;
    within("hosted.backup_retention_days", hosted.backup_retention_days, 1..=3_650)
}
