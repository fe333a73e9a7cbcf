//! A server whose store of databases is a folder, with metadata in Postgres. Skipped unless `BRANCHYARD_TEST_POSTGRES_URL` is set.

use std::path::PathBuf;
use std::time::Duration;

use branchyard::compose::{Environment, Pending, Role, Stores};
use branchyard::config::{Config, Isolation};
use branchyard_testkit::{Actor, Server, files_below};
use serde_json::{Value, json};

use crate::shared_store::Shared;

/// The folder of a store of databases, and the metadata that belong to it.
struct Home {
    shared: Shared,
    dir: tempfile::TempDir,
}

impl Home {
    fn new(purpose: &str) -> Option<Self> {
        Some(Self { shared: Shared::new(purpose)?, dir: tempfile::tempdir().unwrap() })
    }

    fn store(&self) -> PathBuf {
        self.dir.path().join("store")
    }

    fn configure(&self, config: &mut Config) {
        config.metadata_url = Some(self.shared.url());
        config.store_url = Some(format!("file://{}", self.store().display()));
    }

    fn server(&self) -> Server {
        Server::start_with(|config| self.configure(config))
    }

    /// Opens the stores as a start does, with a changed configuration and a new data folder. Returns the reason if they are refused.
    fn refusal(&self, change: impl FnOnce(&mut Config)) -> String {
        let data_dir = tempfile::tempdir().unwrap();
        let mut config = Config { data_dir: data_dir.path().to_owned(), ..Config::default() };
        config.sql.isolation = Isolation::Thread;
        self.configure(&mut config);
        change(&mut config);
        match Stores::open(&config, &Environment::default(), Pending::Migrate, Role::Command) {
            Ok(_) => "it starts".to_owned(),
            Err(error) => format!("{error:#}"),
        }
    }
}

fn csv(rows: usize) -> Vec<u8> {
    let row = |id| format!("{id},river number {id} with a name that is long enough for several parts\n");
    format!("id,name\n{}", (1..=rows).map(row).collect::<String>()).into_bytes()
}

fn rows(ada: &Actor) -> Value {
    ada.read("ada/d", "main", "select count(*), max(id) from t")
}

#[test]
fn an_upload_in_parts_is_in_the_store_until_its_import() {
    let Some(home) = Home::new("store_upload") else { return };
    let mut server = home.server();
    let ada = server.user("ada");
    ada.database("d");
    let body = ada.upload("ada/d", "csv", &csv(20_000), 5, &json!({"primary_keys": ["id"]}));
    let stored = files_below(&home.store().join("uploads"));
    let bytes: u64 = stored.iter().map(|path| path.metadata().unwrap().len()).sum();
    assert_eq!((stored.len(), bytes), (5, u64::try_from(csv(20_000).len()).unwrap()));
    let abandoned = home.store().join("uploads/0190aaaa-0000-7000-8000-000000000001/0000000001.0000000001.x");
    std::fs::create_dir_all(abandoned.parent().unwrap()).unwrap();
    std::fs::write(&abandoned, "being stored by another server").unwrap();
    server.restart();
    assert!(abandoned.exists(), "a start leaves what another server may be storing");
    let ada = server.again(&ada);
    let done = ada.finish(&ada.post("/databases/ada/d/imports", &body));
    assert_eq!(done["status"], "succeeded", "{done}");
    assert_eq!(rows(&ada), json!([["20000", "20000"]]));
    assert_eq!(files_below(&home.store().join("uploads")), [abandoned]);
    assert_eq!(files_below(&server.dir.path().join("data/uploads")), Vec::<PathBuf>::new());
}

#[test]
fn an_upload_without_a_session_is_removed_when_it_is_old() {
    let Some(home) = Home::new("store_sweep") else { return };
    let mut server = home.server();
    let old = home.store().join("uploads/0190aaaa-0000-7000-8000-000000000001/0000000001.0000000001.x");
    std::fs::create_dir_all(old.parent().unwrap()).unwrap();
    std::fs::write(&old, "left by a server that was killed").unwrap();
    let two_days_ago = old.metadata().unwrap().modified().unwrap() - Duration::from_secs(2 * 86_400);
    std::fs::File::options().write(true).open(&old).unwrap().set_modified(two_days_ago).unwrap();
    server.restart();
    assert!(!old.exists());
}

#[test]
fn a_store_that_is_not_that_of_the_metadata_stops_the_start() {
    let Some(home) = Home::new("store_claim") else { return };
    drop(home.server());
    let refused = |text: &str, change: &dyn Fn(&mut Config)| {
        let reason = home.refusal(change);
        assert!(reason.contains(text), "{reason}");
    };
    refused("it starts", &|_| {});
    refused("store_url needs a metadata_url on Postgres", &|config| config.metadata_url = None);
    refused("whose databases are in a store of objects; set store_url", &|config| config.store_url = None);
    let other = format!("file://{}", home.dir.path().join("other").display());
    refused("has no object cluster/id", &|config| config.store_url = Some(other.clone()));
    let host = home.store().join("cluster/host");
    let names = std::fs::read_to_string(&host).unwrap();
    std::fs::write(&host, "boot of-another-machine\nmachine other").unwrap();
    refused("another machine uses the store", &|_| {});
    std::fs::write(&host, names).unwrap();
    std::fs::write(home.store().join("cluster/id"), "another").unwrap();
    refused("belongs to cluster another", &|_| {});
    let Some(fresh) = Home::new("store_claim_new") else { return };
    std::fs::create_dir_all(home.store().join("marks")).unwrap();
    std::fs::write(home.store().join("marks/node"), "1").unwrap();
    let url = format!("file://{}", home.store().display());
    let reason = fresh.refusal(|config| config.store_url = Some(url));
    assert!(reason.contains("which the metadata store does not know"), "{reason}");
}

#[test]
fn databases_of_a_data_folder_are_not_left_behind() {
    let Some(home) = Home::new("store_left") else { return };
    let server = Server::start_with(|config| config.metadata_url = Some(home.shared.url()));
    server.user("ada").database("d");
    drop(server);
    let reason = home.refusal(|_| {});
    assert!(reason.contains("databases whose files are in a data folder"), "{reason}");
    assert_eq!(files_below(&home.store().join("cluster")).len(), 1, "only the name of the machine");
}

#[test]
fn the_id_of_a_server_is_a_setting() {
    let Some(home) = Home::new("store_node") else { return };
    let server = Server::start_with(|config| {
        home.configure(config);
        config.node_id = Some("yard-1".to_owned());
    });
    assert_eq!(server.deployments().hosting().node, "yard-1");
    assert!(!server.dir.path().join("data/node").exists());
}
