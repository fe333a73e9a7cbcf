//! Listing, draining and removing nodes.

use std::sync::Arc;
use std::time::Duration;

use branchyard_domain::entities::{DatabaseLocator, NodeCopies, Operation, OperationStatus, StoredObjects, Work};
use branchyard_domain::ports::{Cluster as _, ClusterError, Durability, LeaseTurn, Metadata as _, WriteKeys};
use branchyard_domain::values::{AccountId, DatabaseName, OperationId, OwnerName, Timestamp};
use branchyard_segments::{Acquired, Nodes as _, Records as _, Saved, run};
use branchyard_storage::{SqlCluster, Store};
use uuid::Uuid;

use crate::durable::{ACCOUNT, LEASE, add_account, add_database, database, extension, holder, lead};
use crate::home::Home;

/// Time for which objects are kept that nothing refers to.
const GRACE: Duration = Duration::from_secs(60);

fn cluster(store: &Arc<Store>) -> SqlCluster {
    SqlCluster::new(Arc::clone(store), GRACE)
}

/// Returns the id, the state and the number of databases of each node.
fn listed(store: &Arc<Store>) -> Vec<(String, bool, bool, u64)> {
    let nodes = cluster(store).nodes().unwrap().into_iter();
    nodes.map(|node| (node.id, node.is_live, node.drained_at.is_some(), node.databases)).collect()
}

fn shown(id: &str, is_live: bool, is_drained: bool, databases: u64) -> (String, bool, bool, u64) {
    (id.to_owned(), is_live, is_drained, databases)
}

#[test]
fn a_node_is_drained_while_another_can_take_over_and_removed_once_it_has_ended() {
    for home in Home::each() {
        let store = Arc::new(home.ready());
        let nodes = cluster(&store);
        assert_eq!(listed(&store), []);
        let unknown = nodes.drain("a").unwrap_err();
        assert_eq!(unknown.to_string(), "there is no node 'a'; there are none");
        let (a, b) = (holder("a", 1), holder("b", 1));
        run(store.nodes().start(&a, LEASE)).unwrap();
        assert!(matches!(nodes.drain("a"), Err(ClusterError::LastNode(_))));
        run(store.nodes().start(&b, LEASE)).unwrap();
        lead(&store.records(database(1)), &a);
        lead(&store.records(database(2)), &a);
        let drained = nodes.drain("a").unwrap();
        assert_eq!((drained.databases, drained.version.as_str()), (2, env!("CARGO_PKG_VERSION")));
        assert_eq!(nodes.drain("a").unwrap().drained_at, drained.drained_at, "it was drained before");
        assert!(matches!(nodes.drain("b"), Err(ClusterError::LastNode(_))), "the other one is drained");
        let unknown = nodes.drain("c").unwrap_err();
        assert_eq!(unknown.to_string(), "there is no node 'c'; there are: a, b");
        assert_eq!(listed(&store), [shown("a", true, true, 2), shown("b", true, false, 0)]);

        assert!(matches!(nodes.remove("a"), Err(ClusterError::StillLive(_))));
        run(store.nodes().stop(&a)).unwrap();
        let a = holder("a", 2);
        run(store.nodes().start(&a, LEASE)).unwrap();
        assert_eq!(listed(&store)[0], shown("a", true, true, 0), "a restart ends no drain");
        assert_eq!(nodes.end_drain("a").unwrap().drained_at, None);
        assert!(matches!(nodes.end_drain("c"), Err(ClusterError::NoSuchNode { .. })));
        nodes.drain("a").unwrap();
        run(store.nodes().stop(&a)).unwrap();
        nodes.require_ended("a").unwrap();
        nodes.remove("a").unwrap();
        assert!(matches!(nodes.remove("a"), Err(ClusterError::NoSuchNode { .. })));
        assert_eq!(listed(&store), [shown("b", true, false, 0)]);
        run(store.nodes().start(&holder("a", 3), LEASE)).unwrap();
        assert_eq!(listed(&store)[0], shown("a", true, false, 0), "it is a new node");
    }
}

#[test]
fn the_copies_of_a_node_are_those_that_its_present_run_has_measured() {
    for home in Home::each() {
        let store = Arc::new(home.ready());
        let nodes = cluster(&store);
        assert_eq!(nodes.own_node(), None);
        let copies = |store: &Arc<Store>| cluster(store).nodes().unwrap().into_iter().next().unwrap().copies;
        let first = holder("a", 1);
        run(store.nodes().start(&first, LEASE)).unwrap();
        assert_eq!((nodes.own_node().as_deref(), copies(&store)), (Some("a"), None));
        let measured = NodeCopies { count: 3, bytes: 5_000_000_000, limit_bytes: 7, behind: 2, behind_bytes: 9 };
        store.save_copies(&first, &measured).unwrap();
        assert_eq!(copies(&store), Some(measured));
        run(store.nodes().stop(&first)).unwrap();
        // Times are in microseconds.
        std::thread::sleep(Duration::from_millis(5));
        let second = holder("a", 2);
        run(store.nodes().start(&second, LEASE)).unwrap();
        assert_eq!(copies(&store), None);
        store.save_copies(&first, &measured).unwrap();
        assert_eq!(copies(&store), None, "a former run measures nothing any more");
        store.save_copies(&second, &NodeCopies::default()).unwrap();
        assert_eq!(copies(&store), Some(NodeCopies::default()));
    }
}

#[test]
fn the_store_is_measured() {
    for home in Home::each() {
        let store = Arc::new(home.ready());
        let nodes = cluster(&store);
        assert_eq!(nodes.stored_objects().unwrap(), StoredObjects::default());
        let a = holder("a", 1);
        run(store.nodes().start(&a, LEASE)).unwrap();
        for (number, lengths) in [(1, [5, 7].as_slice()), (2, &[11])] {
            let row = lead(&store.records(database(number)), &a);
            assert!(matches!(
                run(store.records(database(number)).extend(&extension(&row, lengths), &())),
                Ok(Saved::Saved)
            ));
        }
        store.objects().doom(&["x/1".to_owned(), "x/2".to_owned()], Duration::ZERO).unwrap();
        let measured = nodes.stored_objects().unwrap();
        assert_eq!((measured.segments, measured.bytes, measured.most_segments), (3, 23, 2));
        assert_eq!((measured.doomed, measured.due, measured.collected_at), (2, 0, None));
        assert!(measured.doomed_since.is_some());
        let at_once = SqlCluster::new(Arc::clone(&store), Duration::ZERO);
        assert_eq!(at_once.stored_objects().unwrap().due, 2);
        store.objects().begin("a", LEASE, Duration::ZERO).unwrap();
        store.objects().end("a", true).unwrap();
        assert!(nodes.stored_objects().unwrap().collected_at.is_some());
    }
}

#[test]
fn a_withdrawn_lease_is_free_and_fences_its_holder() {
    for home in Home::each() {
        let store = Arc::new(home.ready());
        let (records, a, b) = (store.records(database(1)), holder("a", 1), holder("b", 1));
        for node in [&a, &b] {
            run(store.nodes().start(node, LEASE)).unwrap();
        }
        let row = lead(&records, &a);
        let late = extension(&row, &[5]);
        records.withdraw(branchyard_segments::Epoch(row.epoch.0 + 1)).unwrap();
        assert!(matches!(run(records.acquire(&b, None)).unwrap(), Acquired::Held(_)), "that was another epoch");
        records.withdraw(row.epoch).unwrap();
        assert_eq!(run(records.extend(&late, &())).unwrap(), Saved::Fenced);
        let next = lead(&records, &b);
        assert!(next.epoch.0 > row.epoch.0 + 1);
        records.withdraw(row.epoch).unwrap();
        assert_eq!(run(records.load(None)).unwrap().owner, Some(b));
    }
}

#[test]
fn a_drained_node_leases_nothing_and_names_what_it_runs() {
    for home in Home::each() {
        let (store, other) = (Arc::new(home.ready()), Arc::new(home.open()));
        run(store.nodes().start(&holder("a_1", 1), LEASE)).unwrap();
        run(other.nodes().start(&holder("ab1", 1), LEASE)).unwrap();
        add_account(&home);
        for number in 1..=3 {
            add_database(&home, database(number), [1; 20]);
            queue(&store, number);
        }
        let first = lease(&store, "a_1/0").unwrap();
        let second = lease(&other, "ab1/0").unwrap();
        assert!(!store.follow_drain().unwrap());
        cluster(&other).drain("a_1").unwrap();
        assert!(store.follow_drain().unwrap());
        assert!(!other.follow_drain().unwrap());
        assert_eq!(lease(&store, "a_1/1"), None);
        assert!(store.busy_databases().unwrap().into_iter().eq([first]), "another node has a similar id");
        assert!(other.busy_databases().unwrap().into_iter().eq([second]));

        let mut tx = store.write(&WriteKeys::server()).unwrap();
        assert_eq!(tx.operations().recover("a_1").unwrap(), 1);
        tx.commit(Durability::Synced).unwrap();
        assert!(store.busy_databases().unwrap().is_empty());
        assert_eq!(lease(&other, "ab1/1"), Some(first), "what has begun comes first");

        cluster(&store).end_drain("a_1").unwrap();
        assert!(!store.follow_drain().unwrap());
        assert!(lease(&store, "a_1/0").is_some());
    }
}

fn queue(store: &Store, number: u64) {
    let id = database(number);
    let operation = Operation {
        id: OperationId::from_uuid(Uuid::from_u128(u128::from(number))),
        database_id: id,
        locator: DatabaseLocator { owner: OwnerName::parse("ann").unwrap(), name: DatabaseName::parse("d").unwrap() },
        work: Work::Purge,
        status: OperationStatus::Queued,
        created_by: AccountId::from_uuid(Uuid::parse_str(ACCOUNT).unwrap()),
        created_by_name: OwnerName::parse("ann").unwrap(),
        created_at: Timestamp::from_seconds(1),
        started_at: None,
        finished_at: None,
        attempts: 0,
        trace: None,
    };
    let mut tx = store.write(&WriteKeys::database(id)).unwrap();
    tx.operations().add(&operation).unwrap();
    tx.commit(Durability::Synced).unwrap();
}

/// Leases the next operation, and returns its database.
fn lease(store: &Store, holder: &str) -> Option<branchyard_domain::values::DatabaseId> {
    let mut tx = store.write(&WriteKeys::none()).unwrap();
    let turn = LeaseTurn { after: None, kind: None, without: &[] };
    let (now, until) = (Timestamp::from_seconds(10), Timestamp::from_seconds(40));
    let leased = tx.operations().lease(holder, now, until, turn).unwrap();
    tx.commit(Durability::Synced).unwrap();
    leased.map(|operation| operation.database_id)
}
