//! The id of the cluster.

use std::thread;

use crate::home::Home;

#[test]
fn the_first_id_of_the_cluster_stays() {
    for home in Home::each() {
        let store = home.ready();
        assert_eq!(store.cluster_id().unwrap(), None);
        let adopted: Vec<String> = thread::scope(|scope| {
            let rivals: Vec<_> =
                ["one", "two", "three"].map(|id| scope.spawn(|| store.adopt_cluster_id(id).unwrap())).into();
            rivals.into_iter().map(|rival| rival.join().unwrap()).collect()
        });
        let first = store.cluster_id().unwrap().unwrap();
        assert!(adopted.iter().all(|id| *id == first), "{adopted:?}");
        assert_eq!(home.ready().adopt_cluster_id("four").unwrap(), first);
    }
}

/// A backup may be restored beside another store of databases.
#[test]
fn a_dump_leaves_the_id_out_and_is_loaded_beside_another() {
    for (from, to) in Home::each().into_iter().zip(Home::each()) {
        let (from, to) = (from.ready(), to.ready());
        from.installation("it").unwrap();
        from.adopt_cluster_id("secret-of-the-first").unwrap();
        to.adopt_cluster_id("second").unwrap();
        let mut dump = Vec::new();
        from.dump(&mut dump).unwrap();
        assert!(!String::from_utf8_lossy(&dump).contains("secret-of-the-first"));
        to.load(&mut dump.as_slice()).unwrap();
        assert_eq!(to.cluster_id().unwrap().as_deref(), Some("second"));
    }
}
