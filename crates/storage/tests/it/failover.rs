//! A Postgres server that goes away, and another one that takes over.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use branchyard_domain::entities::User;
use branchyard_domain::ports::{Durability, Metadata as _, MetadataError, Transaction, WriteKeys};
use branchyard_domain::values::{AccountId, OwnerName};
use branchyard_segments::{Acquired, Epoch, Nodes as _, Record, Records as _, RecordsError, Renewal, Saved, run};
use branchyard_storage::{Store, StoreOptions};
use diesel::connection::SimpleConnection as _;
use diesel::{Connection as _, PgConnection};
use uuid::Uuid;

use crate::durable::{LEASE, database, extension, holder, lead};
use crate::home::{Home, now};
use crate::tls::wait_for;

/// What a proxy does to its connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Weather {
    Fair,
    /// New connections are closed at once.
    Refusing,
    /// A connection is closed as soon as the store sends these bytes, which do not reach the server.
    CutBefore(&'static [u8]),
    /// A connection is closed as soon as the server has answered these bytes. The answer does not reach the store.
    CutAfter(&'static [u8]),
}

const COMMIT: &[u8] = b"COMMIT\0";

/// A connection through a proxy.
struct Link {
    client: TcpStream,
    server: TcpStream,
    is_doomed: bool,
}

impl Link {
    fn cut(&self) {
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.server.shutdown(Shutdown::Both);
    }
}

/// What a proxy and its threads share.
#[derive(Clone)]
struct Shared {
    weather: Arc<Mutex<Weather>>,
    links: Arc<Mutex<Vec<Link>>>,
    /// Number of doomed connections that the store has used.
    used: Arc<AtomicU32>,
}

/// A proxy between a store and its server.
struct Proxy {
    port: u16,
    shared: Shared,
}

impl Proxy {
    fn new(upstream: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared =
            Shared { weather: Arc::new(Mutex::new(Weather::Fair)), links: Arc::default(), used: Arc::default() };
        let of_threads = shared.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().filter_map(Result::ok) {
                if of_threads.weather() == Weather::Refusing {
                    continue;
                }
                let Ok(server) = TcpStream::connect(&upstream) else { continue };
                client.set_nodelay(true).unwrap();
                server.set_nodelay(true).unwrap();
                of_threads.serve(client, server);
            }
        });
        Self { port, shared }
    }

    fn set(&self, weather: Weather) {
        *self.shared.weather.lock().unwrap() = weather;
    }

    fn cut_all(&self) {
        self.shared.links.lock().unwrap().iter().for_each(Link::cut);
    }

    /// Lets all connections end when the store next uses them, and not before.
    fn doom_all(&self) {
        self.shared.links.lock().unwrap().iter_mut().for_each(|link| link.is_doomed = true);
    }

    fn used(&self) -> u32 {
        self.shared.used.load(Ordering::SeqCst)
    }
}

impl Shared {
    fn weather(&self) -> Weather {
        *self.weather.lock().unwrap()
    }

    fn cut(&self, number: usize) {
        self.links.lock().unwrap()[number].cut();
    }

    fn is_doomed(&self, number: usize) -> bool {
        self.links.lock().unwrap()[number].is_doomed
    }

    fn serve(&self, client: TcpStream, server: TcpStream) {
        let (mut from_client, mut to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        let (mut from_server, mut to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
        let number = {
            let mut links = self.links.lock().unwrap();
            links.push(Link { client, server, is_doomed: false });
            links.len() - 1
        };
        let holds_answer = Arc::new(AtomicBool::new(false));
        let (shared, holds) = (self.clone(), Arc::clone(&holds_answer));
        std::thread::spawn(move || {
            let mut bytes = vec![0; 64 * 1024];
            while let Ok(length @ 1..) = from_client.read(&mut bytes) {
                let bytes = &bytes[..length];
                if shared.is_doomed(number) {
                    // By a call, and not by the pool, which sets connections up and ends them.
                    let is_call = bytes.windows(5).any(|part| part == b"BEGIN");
                    shared.used.fetch_add(u32::from(is_call), Ordering::SeqCst);
                    break;
                }
                let has = |sign: &[u8]| bytes.windows(sign.len()).any(|part| part == sign);
                match shared.weather() {
                    Weather::CutBefore(sign) if has(sign) => break,
                    Weather::CutAfter(sign) if has(sign) => holds.store(true, Ordering::SeqCst),
                    _ => {}
                }
                if to_server.write_all(bytes).is_err() {
                    break;
                }
            }
            shared.cut(number);
        });
        let shared = self.clone();
        std::thread::spawn(move || {
            let mut bytes = vec![0; 64 * 1024];
            while let Ok(length @ 1..) = from_server.read(&mut bytes) {
                if holds_answer.load(Ordering::SeqCst) || to_client.write_all(&bytes[..length]).is_err() {
                    break;
                }
            }
            shared.cut(number);
        });
    }
}

/// A migrated store behind a proxy.
struct Scene {
    home: Home,
    proxy: Proxy,
    store: Arc<Store>,
}

fn scene() -> Option<Scene> {
    let home = Home::postgres()?;
    home.ready();
    let url = home.url();
    let (before, after) = url.rsplit_once('@').expect("a URL with a user");
    let (server, database) = after.split_once('/').expect("a URL with a database");
    let upstream = if server.contains(':') { server.to_owned() } else { format!("{server}:5432") };
    let proxy = Proxy::new(upstream);
    let separator = if database.ends_with(['?', '&']) { "" } else { "&" };
    // The proxy reads what passes.
    let url = format!("{before}@127.0.0.1:{}/{database}{separator}sslmode=disable", proxy.port);
    let options = StoreOptions { wait: Duration::from_secs(2), ..StoreOptions::default() };
    let store = Arc::new(Store::open(&url, &options).unwrap());
    Some(Scene { home, proxy, store })
}

impl Scene {
    /// Has several connections in both pools.
    fn fill_pools(&self) {
        let readers: Vec<_> = (0..4).map(|_| self.store.read().unwrap()).collect();
        let writers: Vec<_> = (0..4).map(|_| self.store.write(&WriteKeys::none()).unwrap()).collect();
        drop((readers, writers));
    }

    /// Waits until the pools open no further connections by themselves.
    fn settle(&self) {
        let settled = || {
            let load = self.store.connections();
            let links = self.proxy.shared.links.lock().unwrap().len();
            (load.readers.idle + load.writers.idle) as usize == links
        };
        wait_for("the pools settle", || {
            let before = settled();
            std::thread::sleep(Duration::from_millis(300));
            before && settled()
        });
    }

    /// Returns how many users there are with a name, as the server sees it.
    fn count(&self, name: &str) -> String {
        let sql = format!("SELECT '' || count(*) AS line FROM accounts WHERE name = '{name}'");
        self.home.lines(&sql).remove(0)
    }
}

fn user(number: u128, name: &str) -> User {
    User {
        id: AccountId::from_uuid(Uuid::from_u128(number)),
        name: OwnerName::parse(name).unwrap(),
        display_name: None,
        bio: None,
        location: None,
        website_url: None,
        profile_pic_url: None,
        emails: Vec::new(),
        password_hash: None,
        is_admin: false,
        suspended_at: None,
        created_at: now(),
    }
}

/// Begins a transaction that adds a user.
fn adding<'a>(store: &'a Store, number: u128, name: &str) -> Box<dyn Transaction + 'a> {
    let mut tx = store.write(&WriteKeys::any()).unwrap();
    tx.users().add(&user(number, name)).unwrap();
    tx
}

#[track_caller]
fn unavailable<T>(result: Result<T, MetadataError>) {
    assert!(matches!(result, Err(MetadataError::Unavailable(_))), "{:?}", result.err());
}

#[test]
fn a_call_meets_one_stale_connection_at_most() {
    let Some(scene) = scene() else { return };
    scene.fill_pools();
    scene.settle();
    scene.proxy.doom_all();
    scene.store.read().unwrap().databases().ids(None, 1).unwrap();
    assert_eq!(scene.proxy.used(), 1, "the other readers are not tried");
    adding(&scene.store, 1, "ann").commit(Durability::Synced).unwrap();
    assert_eq!(scene.proxy.used(), 1, "nor are the writers");
    assert_eq!(scene.count("ann"), "1");
}

#[test]
fn connections_that_are_cut_together_cost_nothing_but_time() {
    let Some(scene) = scene() else { return };
    scene.fill_pools();
    let (mut reading, writing) = (scene.store.read().unwrap(), adding(&scene.store, 1, "ann"));
    // Without keys, so that it waits for no other one.
    let mut between = scene.store.write(&WriteKeys::none()).unwrap();
    scene.proxy.cut_all();
    unavailable(reading.databases().ids(None, 1));
    unavailable(between.databases().ids(None, 1));
    unavailable(between.commit(Durability::Synced));
    unavailable(writing.commit(Durability::Synced));
    drop(reading);
    std::thread::scope(|scope| {
        for number in 10..18 {
            let store = &scene.store;
            scope.spawn(move || {
                store.read().unwrap().databases().ids(None, 1).unwrap();
                adding(store, number, &format!("user-{number}")).commit(Durability::Synced).unwrap();
            });
        }
    });
    assert_eq!(scene.count("ann"), "0");
    assert_eq!(scene.home.lines("SELECT '' || count(*) AS line FROM accounts"), ["8"]);
}

#[test]
fn a_server_that_is_away_for_a_while_makes_calls_unavailable_and_is_found_again() {
    let Some(scene) = scene() else { return };
    scene.fill_pools();
    for _ in 0..2 {
        scene.proxy.set(Weather::Refusing);
        scene.proxy.cut_all();
        unavailable(scene.store.read());
        unavailable(scene.store.write(&WriteKeys::any()));
        scene.proxy.set(Weather::Fair);
        scene.store.read().unwrap().databases().ids(None, 1).unwrap();
        drop(scene.store.write(&WriteKeys::any()).unwrap());
    }
}

#[test]
fn the_outcome_of_a_commit_is_unknown_if_its_answer_is_lost() {
    let Some(scene) = scene() else { return };
    for (weather, number, name, rows) in
        [(Weather::CutBefore(COMMIT), 1, "ann", "0"), (Weather::CutAfter(COMMIT), 2, "bob", "1")]
    {
        let tx = adding(&scene.store, number, name);
        scene.proxy.set(weather);
        unavailable(tx.commit(Durability::Synced));
        scene.proxy.set(Weather::Fair);
        // The keys of the lost transaction are free, and what it may have done can be looked up.
        let mut tx = scene.store.write(&WriteKeys::any()).unwrap();
        let found = tx.accounts().by_name(&OwnerName::parse(name).unwrap()).unwrap();
        assert_eq!(usize::from(found.is_some()).to_string(), rows, "{weather:?}");
        drop(tx);
        assert_eq!(scene.count(name), rows, "{weather:?}");
    }
}

#[test]
fn the_end_of_a_server_process_at_a_commit_is_no_fault() {
    let Some(scene) = scene() else { return };
    let tx = adding(&scene.store, 1, "ann");
    scene.home.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()",
    );
    unavailable(tx.commit(Durability::Synced));
    assert_eq!(scene.count("ann"), "0");
    adding(&scene.store, 1, "ann").commit(Durability::Synced).unwrap();
}

#[test]
fn a_server_that_is_read_only_for_a_while_makes_writes_unavailable() {
    let Some(scene) = scene() else { return };
    scene.fill_pools();
    let Home::Postgres { admin, name, .. } = &scene.home else { panic!("this is Postgres") };
    let set = |sql: &str| {
        PgConnection::establish(admin).unwrap().batch_execute(&format!("ALTER DATABASE {name} {sql}")).unwrap();
    };
    // New connections are those of a standby, as after a change of the address. Old ones end.
    set("SET default_transaction_read_only = on");
    scene.proxy.cut_all();
    unavailable(scene.store.write(&WriteKeys::any()));
    // Without keys, the first change finds it out.
    let mut tx = scene.store.write(&WriteKeys::none()).unwrap();
    unavailable(tx.idempotency().purge(now()));
    drop(tx);
    scene.store.read().unwrap().databases().ids(None, 1).unwrap();
    // The connections of that time stay read-only. None of them is used for a write.
    set("RESET default_transaction_read_only");
    adding(&scene.store, 1, "ann").commit(Durability::Synced).unwrap();
    assert_eq!(scene.count("ann"), "1");
    let mut tx = scene.store.write(&WriteKeys::none()).unwrap();
    tx.idempotency().purge(now()).unwrap();
    tx.commit(Durability::Synced).unwrap();
}

#[test]
fn a_write_in_a_transaction_that_reads_is_a_fault_of_the_program() {
    let Some(scene) = scene() else { return };
    let mut tx = scene.store.read().unwrap();
    let refused = tx.idempotency().purge(now());
    assert!(matches!(refused, Err(MetadataError::Fault { .. })), "{refused:?}");
}

/// The statement is a transaction by itself. It has the name of the object, by which the proxy knows it.
#[test]
fn the_outcome_of_an_extension_is_unknown_if_its_answer_is_lost() {
    let Some(scene) = scene() else { return };
    let (records, owner) = (scene.store.records(database(1)), holder("a", 1));
    assert_eq!(run(scene.store.nodes().start(&owner, LEASE)), Ok(Renewal::Held));
    for (weather, is_saved) in [
        (Weather::CutBefore(b"an/object-cut"), false),
        (Weather::CutAfter(b"an/object-cut"), true),
        // The connection of the next calls has prepared the statement already, or not.
        (Weather::CutAfter(b"an/object-cut"), true),
        (Weather::CutBefore(b"an/object-cut"), false),
    ] {
        let mut row = lead(&records, &owner);
        let counter = scene.store.write_counter().unwrap();
        let mut lost = extension(&row, &[7]);
        lost.segments[0].object = "an/object-cut".to_owned();
        scene.proxy.set(weather);
        let result = run(records.extend(&lost, &()));
        assert!(matches!(result, Err(RecordsError::Unknown(_))), "{weather:?}: {result:?}");
        scene.proxy.set(Weather::Fair);
        if is_saved {
            row.extend(&lost).unwrap();
        }
        // The locks of the lost transaction are free, and what it has done can be looked up.
        let again = lead(&records, &owner);
        assert_eq!((again.durable_length, &again.segments), (row.durable_length, &row.segments), "{weather:?}");
        assert_eq!(scene.store.write_counter().unwrap() > counter, is_saved, "{weather:?}");
        let late = run(records.extend(&lost, &()));
        assert_eq!(late, Ok(Saved::Fenced), "an epoch ends with the next acquisition");
        assert_eq!(run(records.extend(&extension(&again, &[1]), &())), Ok(Saved::Saved));
    }
}

#[test]
fn the_outcome_of_an_acquisition_is_unknown_if_its_commit_is_lost() {
    let Some(scene) = scene() else { return };
    let (records, owner) = (scene.store.records(database(1)), holder("a", 1));
    assert_eq!(run(scene.store.nodes().start(&owner, LEASE)), Ok(Renewal::Held));
    for (weather, epochs) in [(Weather::CutBefore(COMMIT), 0), (Weather::CutAfter(COMMIT), 1)] {
        let before = run(records.load(None)).unwrap();
        scene.proxy.set(weather);
        let result = run(records.acquire(&owner, None));
        assert!(matches!(result, Err(RecordsError::Unknown(_))), "{weather:?}: {result:?}");
        scene.proxy.set(Weather::Fair);
        assert_eq!(lead(&records, &owner).epoch.0, before.epoch.0 + epochs + 1, "{weather:?}");
    }
}

#[test]
fn records_of_a_server_that_is_away_or_read_only_are_unavailable() {
    let Some(scene) = scene() else { return };
    let (records, nodes, owner) = (scene.store.records(database(1)), scene.store.nodes(), holder("a", 1));
    run(nodes.start(&owner, LEASE)).unwrap();
    let row = lead(&records, &owner);
    let extension = extension(&row, &[7]);
    let all_unavailable = |is_read_only: bool| {
        let none = |result: Result<(), RecordsError>| {
            assert!(matches!(result, Err(RecordsError::Unavailable(_))), "{result:?}");
        };
        none(run(records.extend(&extension, &())).map(drop));
        none(run(records.acquire(&owner, None)).map(drop));
        none(run(records.release(row.epoch)));
        none(run(nodes.renew(&owner, LEASE)).map(drop));
        let loaded: Result<Record, RecordsError> = run(records.load(None));
        assert_eq!(loaded.is_ok(), is_read_only);
    };
    // The next call of each pool may use a connection that has just ended, and then cannot know what became of it.
    let cut_all = || {
        scene.proxy.cut_all();
        let _ = run(records.release(Epoch(0)));
        let _ = run(records.load(None));
    };
    scene.proxy.set(Weather::Refusing);
    cut_all();
    all_unavailable(false);
    scene.proxy.set(Weather::Fair);
    let Home::Postgres { admin, name, .. } = &scene.home else { panic!("this is Postgres") };
    let set = |sql: &str| {
        PgConnection::establish(admin).unwrap().batch_execute(&format!("ALTER DATABASE {name} {sql}")).unwrap();
    };
    set("SET default_transaction_read_only = on");
    cut_all();
    all_unavailable(true);
    set("RESET default_transaction_read_only");
    cut_all();
    assert_eq!(run(records.load(None)).unwrap(), row, "nothing was changed");
    assert!(matches!(run(records.acquire(&owner, None)), Ok(Acquired::Leading(_))));
}
