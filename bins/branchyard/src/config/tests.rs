use std::collections::BTreeSet;
use std::path::Path;

use figment::Figment;
use figment::providers::Serialized;
use secrecy::ExposeSecret as _;

use super::{Config, Isolation, LogConfig, LogFormat, SqlConfig, cli, unknown};

fn load(toml: &str) -> anyhow::Result<Config> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("branchyard.toml");
    std::fs::write(&file, toml)?;
    Config::load(&cli::ServerLocation { config: Some(file), ..cli::ServerLocation::default() })
}

#[test]
fn the_settings_of_a_public_server_load() {
    let config = load(include_str!("../../../../contrib/public.toml")).unwrap();
    assert!(!config.sql.anonymous);
    let limits = config.domain_limits().unwrap();
    assert_eq!((limits.anonymous_sql, limits.databases_per_owner, limits.min_free_bytes), (false, 100, 2 << 30));
}

/// Returns the keys of the settings that a YAML file names as variables of the environment.
fn environment_of(yaml: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for event in saphyr_parser::Parser::new_from_str(yaml) {
        if let (saphyr_parser::Event::Scalar(text, ..), _) = event.unwrap()
            && let Some(name) = text.strip_prefix("BRANCHYARD_")
        {
            found.insert(name.to_ascii_lowercase().replace("__", "."));
        }
    }
    found
}

#[test]
fn the_settings_of_the_files_for_containers_are_known() {
    let known = unknown::known(&Figment::from(Serialized::defaults(Config::default()))).unwrap();
    let contrib = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib");
    let (mut files, mut set) = (0, BTreeSet::new());
    for folder in [contrib.clone(), contrib.join("kubernetes")] {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "yaml") {
                continue;
            }
            let named = environment_of(&std::fs::read_to_string(&path).unwrap());
            let unknown: Vec<_> = named.difference(&known).collect();
            assert!(unknown.is_empty(), "{}: {unknown:?}", path.display());
            files += 1;
            set.extend(named);
        }
    }
    assert!(files >= 7, "{files}");
    for needed in ["metadata_url", "store_url", "store.endpoint", "node_id", "server_key_file", "http.trusted_proxies"]
    {
        assert!(set.contains(needed), "{needed} is nowhere set: {set:?}");
    }
}

#[test]
fn the_file_in_the_tree_is_the_defaults() {
    let config = load(include_str!("../../branchyard.default.toml")).unwrap();
    assert_eq!(config, Config::default());
}

/// Keys without a default are commented out with `#` in the file. Checks that each line loads when uncommented.
#[test]
fn what_the_file_leaves_out_can_be_put_in() {
    let lines: Vec<&str> = include_str!("../../branchyard.default.toml").lines().collect();
    let is_key = |line: &str| {
        let name = line.strip_prefix("# ").and_then(|line| line.split_once(" = ")).map(|(name, _)| name);
        name.is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'))
    };
    let mut tried = 0;
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| is_key(line)) {
        let (setting, _) = line.trim_start_matches("# ").split_once("   ").unwrap_or((&line[2..], ""));
        let mut changed = lines.clone();
        changed[at] = setting;
        match load(&changed.join("\n")) {
            Ok(_) => {}
            // Each of these needs the other one.
            Err(error) if format!("{error:#}").contains("TLS needs both") => {
                assert!(setting.starts_with("cert") || setting.starts_with("key"), "{setting}: {error:#}");
            }
            // These are for a store of objects only.
            Err(error) if format!("{error:#}").contains("set store_url") => {
                assert!(setting.starts_with("encryption_"), "{setting}: {error:#}");
            }
            // The one setting that not every build accepts.
            Err(error) if !cfg!(feature = "otlp") && format!("{error:#}").contains("without the feature otlp") => {
                assert!(setting.starts_with("endpoint"), "{setting}: {error:#}");
            }
            Err(error) => panic!("{setting}: {error:#}"),
        }
        tried += 1;
    }
    assert!(tried >= 8, "{tried}");
}

#[test]
fn a_certificate_and_its_key_turn_tls_on() {
    assert_eq!(Config::default().tls.files().unwrap(), None);
    let files = load("[tls]\ncert = \"a/cert.pem\"\nkey = \"key.pem\"").unwrap().tls.files().unwrap().unwrap();
    assert_eq!((files.cert.to_str(), files.key.to_str()), (Some("a/cert.pem"), Some("key.pem")));
}

#[test]
fn unknown_keys_are_named_with_their_source() {
    let error = format!("{:#}", load("[sql]\nrow_kap = 5").unwrap_err());
    assert!(error.contains("sql.row_kap") && error.contains("branchyard.toml"), "{error}");
    assert!(error.contains("did you mean sql.row_cap?"), "{error}");
    let error = format!("{:#}", load("[http]\nstream_stall_ms = 5").unwrap_err());
    assert!(error.contains("did you mean sql.stream_stall_ms?"), "{error}");
    let error = format!("{:#}", load("entirely_else = 5").unwrap_err());
    assert!(error.contains("docs/configuration.md"), "{error}");
}

#[test]
fn a_public_url_with_a_slash_is_refused() {
    let error = format!("{:#}", load("public_url = \"https://yard.test/\"").unwrap_err());
    assert!(error.contains("public_url"), "{error}");
}

#[test]
fn the_former_name_of_the_history_is_read_unless_the_new_one_is_set() {
    let seconds = |toml: &str| load(toml).unwrap().domain_limits().unwrap().history_seconds;
    assert_eq!(seconds(""), 7 * 86_400);
    assert_eq!(seconds("[limits]\nkeep_deleted = \"3d\""), 3 * 86_400);
    assert_eq!(seconds("[limits]\nkeep_deleted = \"0s\""), 0);
    assert_eq!(seconds("[limits]\nkeep_deleted = \"3d\"\n[store]\nhistory = \"7d\""), 7 * 86_400);
}

#[test]
fn values_outside_their_range_are_refused_by_name() {
    assert!(load("[limits]\nkeep_deleted = \"90d\"").is_ok());
    assert!(load("[store]\nhistory = \"90d\"").is_ok() && load("[store]\nhistory = 0").is_ok());
    for (toml, key) in [
        ("[http]\nmax_head_bytes = 131073", "http.max_head_bytes"),
        ("[http]\nhead_timeout_ms = 1", "http.head_timeout_ms"),
        ("[http]\nwrite_stall_ms = 99", "http.write_stall_ms"),
        ("[http]\nmax_json_body_bytes = 10", "http.max_json_body_bytes"),
        ("[http]\nmax_bytes_in_flight = 4194303", "http.max_bytes_in_flight"),
        ("[http]\nmax_json_body_bytes = 5000000\nmax_bytes_in_flight = 4999999", "http.max_bytes_in_flight"),
        ("[http]\nmax_connections_per_address = 1000001", "http.max_connections_per_address"),
        ("[http]\ntrusted_proxies = [\"10.0.0.0/99\"]", "http.trusted_proxies"),
        ("[http]\nforwarded_header = \"x-real-ip\"", "http.forwarded_header"),
        ("[cors]\nallowed_origins = [\"https://a.test/path\"]", "cors.allowed_origins"),
        ("[pagination]\nmax_page_size = 0", "pagination.max_page_size"),
        ("[pagination]\ndefault_page_size = 101", "pagination.default_page_size"),
        ("[pagination]\nmax_page_bytes = 8388609", "pagination.max_page_bytes"),
        ("[idempotency]\nttl = \"59s\"", "idempotency.ttl"),
        ("[idempotency]\nttl = \"a day\"", "idempotency.ttl"),
        ("[limits]\nkeep_deleted = \"7776001s\"", "limits.keep_deleted"),
        ("[store]\nhistory = \"7776001s\"", "store.history"),
        ("[rate_limit]\nuser_per_hour = -1", "rate_limit.user_per_hour"),
        ("[tokens]\nlast_used_interval = 0", "tokens.last_used_interval"),
        ("[imports]\nurl_ttl = \"2h\"", "imports.url_ttl"),
        ("[sql]\nrow_cap = 10", "sql.default_limit"),
        ("[sql]\nmax_response_bytes = 15728641", "sql.max_response_bytes"),
        ("[sql]\nmax_statement_bytes = 4000000", "sql.max_statement_bytes"),
        ("[sql]\nmax_statement_bytes_get = 61441", "sql.max_statement_bytes_get"),
        ("[sql]\nmax_memory_bytes = 1", "sql.max_memory_bytes"),
        ("[sql]\nmemory_total_bytes = 33554431", "sql.memory_total_bytes"),
        ("[sql]\nmemory_total_bytes = 68719476737", "sql.memory_total_bytes"),
        ("[sql]\nstream_stall_ms = 99", "sql.stream_stall_ms"),
        ("[hooks]\nmax_per_database = 100001", "hooks.max_per_database"),
        ("[log]\naccess = 1.01", "log.access"),
        ("[log]\naccess = -0.01", "log.access"),
        ("[log]\naccess = nan", "log.access"),
        ("[log]\nformat = \"xml\"", "log.format"),
        ("[otlp]\nendpoint = \"a place\"", "otlp.endpoint"),
        ("[tls]\ncert = \"cert.pem\"", "tls.key"),
        ("[tls]\nkey = \"key.pem\"", "tls.cert"),
        ("[hooks]\nallowed_cidrs = [\"10.0.0.0/8\", \"inside\"]", "hooks.allowed_cidrs"),
        ("[remotes]\nallowed_cidrs = [\"10.0.0.0/8\", \"inside\"]", "remotes.allowed_cidrs"),
        ("[hooks]\ntimeout_ms = 99", "hooks.timeout_ms"),
        ("[hooks]\nresponse_bytes = 1048577", "hooks.response_bytes"),
        ("[hooks]\nretry_delays_ms = []", "hooks.retry_delays_ms"),
        ("[hooks]\nretry_delays_ms = [0, 2592000001]", "hooks.retry_delays_ms"),
        ("[hooks]\ndisable_after = 0", "hooks.disable_after"),
        ("[hooks]\nconcurrency = 0", "hooks.concurrency"),
        ("[hooks]\nlog_retention = \"59s\"", "hooks.log_retention"),
        ("[hosted]\nbackup_hour_utc = 24", "hosted.backup_hour_utc"),
        ("[hosted]\nbackup_retention_days = 0", "hosted.backup_retention_days"),
        ("[hosted]\nstart_deadline = 0", "hosted.start_deadline"),
        ("[hosted]\norphan_grace = \"2d\"", "hosted.orphan_grace"),
        ("[hosted]\nport_range = \"80-90\"", "hosted.port_range"),
        ("[hosted.spending]\nowners = { ada = \"lots\" }", "hosted.spending.owners.ada"),
        ("hosted_public_url = \"yard.test\"", "hosted_public_url"),
        ("[web]\nsign_up = \"everybody\"", "web.sign_up"),
        ("[web]\nsession_ttl = \"59s\"", "web.session_ttl"),
        ("[web]\ninvitation_ttl = \"366d\"", "web.invitation_ttl"),
        ("[web]\nsign_in_window = 0", "web.sign_in_window"),
        ("store_url = \"/srv/yard\"", "store_url"),
        ("store_url = \"s3://key:hush@yard\"", "store_url"),
        ("[store]\ngrace = \"59min\"", "store.grace"),
        ("[store]\nsecret_access_key = \"a\"\nsecret_access_key_file = \"b\"", "store.secret_access_key_file"),
        (
            "store_url = \"s3://a\"\n[store]\nencryption_key_file = \"a\"\nencryption_key_command = [\"b\"]",
            "store.encryption_key_file",
        ),
        (
            "store_url = \"s3://a\"\n[store]\nencryption_previous_key_command = [\"\", \"b\"]",
            "store.encryption_previous_key_command",
        ),
        ("[store]\nencryption_key_command = [\"b\"]", "store_url"),
        ("node_id = \"\"", "node_id"),
        ("node_id = \"yard/1\"", "node_id"),
        ("[cluster]\nlease = \"1s\"", "cluster.lease"),
        ("[cluster]\nlease = \"301s\"", "cluster.lease"),
        ("[v1alpha1]\nrow_limit = 0", "v1alpha1.row_limit"),
        ("[v1alpha1]\nread_timeout_ms = 3600001", "v1alpha1.read_timeout_ms"),
        ("[v1alpha1]\nexport_timeout_ms = 0", "v1alpha1.export_timeout_ms"),
        ("[v1alpha1]\nupload_max_bytes = 0", "v1alpha1.upload_max_bytes"),
        ("[v1alpha1]\ndeprecated_at = \"soon\"", "v1alpha1.deprecated_at"),
        ("[v1alpha1]\nsunset_at = \"2025-12-31\"", "v1alpha1.sunset_at"),
        ("[v1alpha1]\ndeprecation_url = \"a page\"", "v1alpha1.deprecation_url"),
    ] {
        let error = format!("{:#}", load(toml).unwrap_err());
        assert!(error.contains(key), "{toml}: {error}");
    }
}

#[test]
fn the_format_and_the_share_of_access_lines_are_settings() {
    for (toml, format, access) in [
        ("", LogFormat::Auto, 1.0),
        ("[log]\nformat = \"text\"\naccess = 0", LogFormat::Text, 0.0),
        ("[log]\nformat = \"json\"\naccess = 0.25", LogFormat::Json, 0.25),
    ] {
        assert_eq!(load(toml).unwrap().log, LogConfig { format, access }, "{toml}");
    }
}

#[test]
fn an_endpoint_for_traces_needs_a_program_that_exports_them() {
    let loaded = load("[otlp]\nendpoint = \"http://127.0.0.1:4318\"");
    if cfg!(feature = "otlp") {
        assert!(loaded.is_ok());
    } else {
        let error = format!("{:#}", loaded.unwrap_err());
        assert!(error.contains("otlp.endpoint") && error.contains("--features otlp"), "{error}");
    }
}

#[test]
fn lists_are_lists_or_text_with_json_or_commas() {
    for list in ["[\"a.test\", \"b.test\"]", "'[\"a.test\", \"b.test\"]'", "\"a.test, b.test,\""] {
        let config = load(&format!("[limits]\nreserved_names = {list}")).unwrap();
        assert_eq!(config.limits.reserved_names, ["a.test", "b.test"], "{list}");
    }
    for (key, text, got) in [
        ("hooks", "allowed_cidrs = \"10.20.0.0/16, fd00:1234::/48\"", 2),
        ("remotes", "allowed_cidrs = \"10.20.0.0/16, fd00:1234::/48\"", 2),
        ("cors", "allowed_origins = \"https://a.test,https://b.test\"", 2),
        ("http", "trusted_proxies = \"10.0.0.0/8\"", 1),
        ("hooks", "retry_delays_ms = \"0, 5000,60000\"", 3),
        ("hooks", "retry_delays_ms = 0", 1),
    ] {
        let config = load(&format!("[{key}]\n{text}")).unwrap();
        let lists = match text.split_once(' ').unwrap().0 {
            "allowed_cidrs" => config.hooks.allowed_cidrs.len() + config.remotes.allowed_cidrs.len(),
            "allowed_origins" => config.cors.allowed_origins.len(),
            "trusted_proxies" => config.http.trusted_proxies.len(),
            _ => config.hooks.retry_delays_ms.len(),
        };
        assert_eq!(lists, got, "{text}");
    }
    assert_eq!(load("[hooks]\nallowed_cidrs = \"\"").unwrap(), Config::default());
    for text in ["[hooks]\nretry_delays_ms = \"0, soon\"", "[limits]\nreserved_names = '[\"a\"'"] {
        assert!(load(text).is_err(), "{text}");
    }
}

/// Each read holds a worker process, slow reads too.
#[test]
fn reads_leave_worker_processes_to_writes_and_to_callers_with_few_reads() {
    let sql = |workers, isolation| SqlConfig { workers, isolation, ..SqlConfig::default() };
    let sizes = |workers, writers| {
        let sql = sql(workers, Isolation::Process);
        let places = sql.slow_places(writers).unwrap();
        (sql.concurrent_reads(writers), places.most, places.spare)
    };
    assert_eq!(sizes(20, 2), (16, 17, 1), "18 may read: two are kept, one of them for the slow reads of other callers");
    assert_eq!(sizes(64, 24), (35, 39, 4));
    assert_eq!(sizes(10, 2), (7, 7, 0));
    assert_eq!(sizes(2, 2), (1, 1, 0));
    let thread = sql(20, Isolation::Thread);
    assert_eq!((thread.concurrent_reads(2), thread.slow_places(2)), (64, None));
}

#[test]
fn settings_reach_the_http_side() {
    let toml = "[http]\ntrusted_proxies = [\"10.0.0.0/8\", \"::1\"]\nforwarded_header = \"Forwarded\"\n\
        [rate_limit]\nuser_per_hour = 5000\n[idempotency]\nttl = \"2h\"\n[imports]\nurl_ttl = 90\n\
        [cors]\nallowed_origins = [\"https://a.test:8443\"]";
    let config = load(toml).unwrap();
    let http = config.http_config("http://x".to_owned()).unwrap();
    assert_eq!(http.proxies.trusted.len(), 2);
    assert_eq!(http.rate_limits.unwrap().user_per_hour, 5_000);
    assert_eq!(http.part_url_seconds, 90);
    assert_eq!(config.domain_limits().unwrap().answer_retention_seconds, 7_200);
    let off = load("[rate_limit]\nenabled = false").unwrap();
    assert_eq!(off.http_config("http://x".to_owned()).unwrap().rate_limits, None);
}

#[test]
fn the_store_of_databases_gets_its_options() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("secret");
    std::fs::write(&file, "of-the-file\n").unwrap();
    let config = load(&format!(
        "store_url = \"s3://yard/a\"\nnode_id = \"yard-1\"\n[store]\nendpoint = \"http://127.0.0.1:9\"\nregion = \"r\"\n\
         access_key_id = \"id\"\nsecret_access_key_file = '{}'\nallow_http = true\nextra_ca_file = \"ca.pem\"",
        file.display()
    ));
    let config = config.unwrap();
    assert_eq!(config.store_url().unwrap().unwrap().to_string(), "s3://yard/a");
    let options = config.store.options().unwrap();
    assert_eq!(options.secret_access_key.unwrap().expose_secret(), "of-the-file");
    let texts = [options.endpoint, options.region, options.access_key_id].map(Option::unwrap);
    assert_eq!(texts, ["http://127.0.0.1:9", "r", "id"].map(str::to_owned));
    assert!(options.allow_http && options.extra_ca_file.is_some());
    let missing = load("[store]\nsecret_access_key_file = \"/not/there\"").unwrap().store.options().unwrap_err();
    assert!(format!("{missing:#}").contains("store.secret_access_key_file /not/there"), "{missing:#}");
    let options = load("[store]\nsecret_access_key = \"hush\"").unwrap().store.options().unwrap();
    assert_eq!(options.secret_access_key.unwrap().expose_secret(), "hush");
}

#[test]
fn the_master_key_is_read_from_its_file() {
    assert!(Config::default().master_key().unwrap().is_none());
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("master");
    let config = load(&format!("server_key_file = '{}'", file.display())).unwrap();
    let missing = format!("{:#}", config.master_key().unwrap_err());
    assert!(missing.contains("configuration: server_key_file") && missing.contains("master"), "{missing}");
    std::fs::write(&file, [7; 32]).unwrap();
    assert_eq!(config.master_key().unwrap().unwrap().id(), "4858424c002c3163");
}

#[test]
fn the_secret_of_the_store_is_never_printed() {
    let config = load("[store]\naccess_key_id = \"id\"\nsecret_access_key = \"hush-hush\"").unwrap();
    let shown = format!("{config:?} {:?}", config.store.options().unwrap());
    assert!(shown.contains("[hidden]") && !shown.contains("hush"), "{shown}");
    assert!(!serde_json::to_string(&config).unwrap().contains("hush"));
    for value in ["4711", "-4711", "4711.5", "true", "[\"4711\"]", "{ a = \"4711\" }"] {
        let error = format!("{:#}", load(&format!("[store]\nsecret_access_key = {value}")).unwrap_err());
        assert!(error.contains("secret_access_key") && error.contains("quotation marks"), "{error}");
        assert!(!error.contains("4711") && !error.contains("true"), "{error}");
    }
}
