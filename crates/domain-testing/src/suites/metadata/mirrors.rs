//! Checks of mirrors.

use branchyard_auth::PublicKey;
use branchyard_domain::entities::{
    Database, FailureKind, Mirror, Operation, OperationFailure, OperationKind, OperationStatus, Sealed, User, Work,
};
use branchyard_domain::ports::Metadata;

use super::{at, database, operation, operation_id, read, scene, taken, write};

fn mirror(n: u8, of: &Database, by: &User) -> Mirror {
    Mirror {
        database_id: of.id,
        url: format!("https://yard.example/ana/trees-{n}"),
        interval_seconds: 3_600,
        seed: Sealed { key_id: "k1".to_owned(), bytes: vec![n; 72] },
        public_key: PublicKey::from_bytes([n; 32]),
        created_by: by.id,
        last_sync_at: None,
        last_error: None,
        failures: 0,
        next_sync_at: None,
    }
}

/// Checks that mirrors come back as they were stored, and which of them are due.
pub fn mirrors(store: &dyn Metadata) {
    let (ann, _, _) = scene(store);
    let databases: Vec<Database> =
        (101..=103).map(|n| Database { is_mirror: true, ..database(n, &ann, &format!("mirror-{n}")) }).collect();
    let [first, second, third] = [1, 2, 3].map(|n: u8| mirror(n, &databases[usize::from(n) - 1], &ann));
    write(store, |tx| {
        for (database, mirror) in databases.iter().zip([&first, &second, &third]) {
            tx.databases().add(database).unwrap();
            tx.mirrors().add(mirror).unwrap();
        }
    });
    write(store, |tx| taken(tx.mirrors().add(&first)));
    read(store, |tx| {
        assert_eq!(tx.mirrors().get(databases[1].id).unwrap(), Some(second.clone()));
        assert!(tx.databases().get(databases[1].id).unwrap().unwrap().is_mirror);
        assert!(tx.mirrors().due(at(9), 9).unwrap().is_empty(), "none has a time");
        assert_eq!(tx.mirrors().count_by_key().unwrap(), [("k1".to_owned(), 3)]);
    });
    let first = Mirror {
        url: "https://yard.example/ana/elsewhere".to_owned(),
        interval_seconds: 60,
        seed: Sealed { key_id: "k2".to_owned(), bytes: vec![7; 72] },
        last_sync_at: Some(at(3)),
        last_error: Some("it is gone".to_owned()),
        failures: 2,
        next_sync_at: Some(at(5)),
        ..first
    };
    let second = Mirror { next_sync_at: Some(at(4)), ..second };
    write(store, |tx| {
        assert!(tx.mirrors().update(&first).unwrap());
        assert!(tx.mirrors().update(&second).unwrap());
    });
    read(store, |tx| {
        assert_eq!(tx.mirrors().get(databases[0].id).unwrap(), Some(first.clone()));
        assert_eq!(tx.mirrors().due(at(3), 9).unwrap(), []);
        assert_eq!(tx.mirrors().due(at(4), 9).unwrap(), std::slice::from_ref(&second));
        assert_eq!(tx.mirrors().due(at(5), 9).unwrap(), [second.clone(), first.clone()]);
        assert_eq!(tx.mirrors().due(at(5), 1).unwrap(), std::slice::from_ref(&second));
        assert_eq!(tx.mirrors().count_by_key().unwrap(), [("k1".to_owned(), 2), ("k2".to_owned(), 1)]);
        let others = tx.mirrors().list_sealed_otherwise("k2", None, 9).unwrap();
        assert_eq!(others, [second.clone(), third.clone()]);
        let later = tx.mirrors().list_sealed_otherwise("k2", Some(databases[1].id), 9).unwrap();
        assert_eq!(later, std::slice::from_ref(&third));
    });
    let cleared = Mirror { last_sync_at: None, last_error: None, next_sync_at: None, ..first };
    write(store, |tx| {
        assert!(tx.mirrors().update(&cleared).unwrap());
        assert!(tx.mirrors().remove(databases[1].id).unwrap());
        assert!(!tx.mirrors().remove(databases[1].id).unwrap());
        assert!(!tx.mirrors().update(&second).unwrap());
        assert!(tx.databases().update(&Database { is_mirror: false, ..databases[1].clone() }).unwrap());
    });
    read(store, |tx| {
        assert_eq!(tx.mirrors().get(databases[0].id).unwrap(), Some(cleared.clone()));
        assert_eq!(tx.mirrors().get(databases[1].id).unwrap(), None);
        assert!(!tx.databases().get(databases[1].id).unwrap().unwrap().is_mirror);
    });
}

/// Checks that the oldest settled operations of one kind go, and no others.
pub fn trimmed_operations(store: &dyn Metadata) {
    let (ann, _, menu) = scene(store);
    write(store, |tx| {
        for n in 1..=6 {
            let work = if n == 1 { operation(n, &menu, &ann).work } else { Work::MirrorSync };
            let queued = Operation { work, ..operation(n, &menu, &ann) };
            tx.operations().add(&queued).unwrap();
            if n < 6 {
                let status = OperationStatus::Failed(OperationFailure::new(FailureKind::Canceled, "ended"));
                assert!(
                    tx.operations().settle(&Operation { status, finished_at: Some(at(9)), ..queued }, None).unwrap()
                );
            }
        }
    });
    write(store, |tx| {
        let mut trim = |keep| tx.operations().trim(menu.id, OperationKind::MirrorSync, keep).unwrap();
        assert_eq!([trim(9), trim(4), trim(2), trim(2)], [0, 0, 2, 0]);
    });
    read(store, |tx| {
        let left = (1..=6).filter(|n| tx.operations().get(operation_id(*n)).unwrap().is_some()).collect::<Vec<_>>();
        assert_eq!(left, [1, 4, 5, 6]);
    });
}
