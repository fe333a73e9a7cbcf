//! Example bodies of requests and responses. Every operation with a body has an example. A test validates the examples against
//! the schemas.

use serde_json::{Value, json};

const AT: &str = "2026-11-20T12:00:00.000Z";
const LATER: &str = "2026-11-20T12:00:01.000Z";
const ID: &str = "0199c3b0-0000-7000-8000-000000000001";
pub(crate) const INSTANCE: &str = "0199c3b0-0000-7000-8000-0000000000a1";
const HEAD: &str = "9a0b1c2d3e4f5061728394a5b6c7d8e9f0a1b2c3";

/// Returns a database of the hub that a deployment starts from.
pub(crate) fn origin() -> Value {
    json!({"owner": "ada", "name": "rivers", "ref": "main"})
}

/// Returns the example of a schema.
pub(crate) fn object(name: &str) -> Value {
    match name {
        "User" => json!({
            "username": "ada", "display_name": "Ada", "company": "",
            "email_addresses": [{"address": "ada@example.test", "is_verified": true, "is_primary": true}],
        }),
        "DeploymentOptions" => json!({
            "cloud": "local", "zones": ["local"],
            "instance_types": [{
                "id": "local.small", "name": "small", "cpus": 1, "memory_gb": 1, "description": "Trial and tests.",
                "hourly_cost_usd": 0.006_849_32, "max_replicas": 0,
            }],
            "storage_options": [{
                "id": "local.standard", "name": "Standard", "description": "Folder on the server's disk.",
                "min_size_gb": 1, "max_size_gb": 1024, "monthly_cost_usd_per_gb": 0.1,
            }],
        }),
        "Usage" => json!({"month": "2026-11", "currency": "USD", "owners": [{
            "owner": "ada", "amount_usd": "0.012328774", "committed_monthly_usd": "6.000003590",
            "spending_limit_usd": "100.000000000",
            "deployments": [{"name": "gauges", "state": "started", "amount_usd": "0.012328774"}],
        }]}),
        "Cost" => json!({
            "currency": "USD", "start_time": "2026-11-01T00:00:00.000Z", "end_time": "2026-11-20T13:30:00.000Z",
            "amount_usd": "0.012328774", "hourly_cost_usd": 0.008_219_18, "items": [{
                "instance_id": INSTANCE, "instance_index": 0, "kind": "compute", "type_id": "local.small",
                "rate_usd_per_hour": "0.006849320", "milliseconds": 5_400_000, "amount_usd": "0.010273980",
                "first_at": AT, "open": true,
            }],
        }),
        "Deployment" => deployment(),
        "DeploymentSummary" => summary(),
        "DeploymentState" => json!({"owner": "ada", "name": "gauges", "state": "stopping"}),
        "ExposeState" => json!({"owner": "ada", "name": "gauges", "service": "mcp", "requested": false}),
        "DeploymentInstance" => json!({
            "id": INSTANCE, "index": 0, "is_primary": true, "state": "started", "host": "127.0.0.1",
            "instance_type_name": "small", "volume_type_name": "Standard", "volume_size_gb": 10,
            "hourly_cost_usd": 0.008_219_18, "port": 17_400, "url": "http://127.0.0.1:17400/", "restarts": 0,
            "started_at": LATER,
        }),
        "InstanceState" => json!({"id": INSTANCE, "state": "stopping"}),
        "Backup" => json!({
            "id": "20261120T020000.000", "databases": ["rivers"], "size_bytes": 1_048_576, "instance_index": 0,
            "created_at": "2026-11-20T02:00:00.000Z", "kind": "nightly", "expires_at": "2026-12-04T02:00:00.000Z",
            "heads": [{"database": "rivers", "branch": "main", "commit_sha": HEAD}],
        }),
        "DeploymentConfig" => json!({"settings": [{
            "key": "listener_max_connections", "value": "500", "default": "100", "is_overridden": true,
            "pending_restart": false, "description": "Open streams.",
        }]}),
        "DatabaseVersions" => json!({"current": "0.51.6", "available": ["0.51.6"]}),
        "ServiceWindow" => json!({
            "id": "00000000-0000-0000-0000-000000000000", "day_of_week": "sunday", "start_hour_utc": 7,
            "end_hour_utc": 8, "is_default": true,
        }),
        "LogLine" => json!({"time": LATER, "text": "INFO ready port=17400 databases=1 engine=0.51.6"}),
        "Metric" => json!({"id": "cpu", "display_name": "CPU Utilization"}),
        "MetricData" => json!({
            "metric": "cpu", "start_time": "2026-11-20T11:00:00.000Z", "end_time": AT, "period_seconds": 15,
            "timestamps": ["2026-11-20T11:59:30.000Z"],
            "series": [{"name": "CPU", "unit": "Percent", "values": [3.2]}],
        }),
        "Collaborator" => json!({"username": "bob", "role": "writer", "added_at": AT}),
        "DeploymentDatabase" => json!({
            "name": "rivers", "is_default": true, "size_bytes": 1_048_576,
            "url": "https://yard.test/api/v1/deployments/ada/gauges/sql/db/rivers/",
        }),
        "Operation" => json!({
            "id": ID, "type": "create_backup", "status": "succeeded", "cancelable": false, "created_at": AT,
            "updated_at": LATER, "deployment": {"owner": "ada", "name": "gauges"}, "created_by": "ada",
            "result": {"backup_id": "20261120T120000.000"},
        }),
        "OperationRef" => json!({"id": ID, "href": format!("https://yard.test/api/v1/operations/{ID}")}),
        _ => Value::Null,
    }
}

fn summary() -> Value {
    json!({
        "owner": "ada", "name": "gauges", "state": "started", "cloud": "local", "zone": "local", "cluster_type": "dolt",
        "instance_type_name": "small", "volume_type_name": "Standard", "volume_size_gb": 10, "replicas": 0,
        "database_version": "0.51.6", "hourly_cost_usd": 0.008_219_18, "webpki_cert": false, "health": "ok",
    })
}

fn deployment() -> Value {
    let mut shown = summary();
    let more = json!({
        "host": "127.0.0.1", "port": 17_400, "expose_remotesapi_endpoint": false, "expose_mcp": false,
        "expose_stats": false, "disable_automatic_dolt_updates": false, "caller_role": "admin", "created_by": "ada",
        "created_at": AT, "id": ID, "url": "https://yard.test/api/v1/deployments/ada/gauges/sql/",
        "direct_url": "http://127.0.0.1:17400/", "protocol": "hrana-http", "databases": ["rivers"],
        "origin": {"owner": "ada", "name": "rivers", "ref": "main", "commit_sha": HEAD},
    });
    if let (Some(all), Value::Object(more)) = (shown.as_object_mut(), more) {
        all.extend(more);
    }
    shown
}
