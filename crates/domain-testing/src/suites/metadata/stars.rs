//! Checks of stars and rankings.

use super::{at, database, database_id, owner, read, scene, user, write};
use branchyard_domain::entities::{Database, Visibility};
use branchyard_domain::ports::{DatabaseFilter, Metadata, Ranking};

/// Checks stars: counts, lists, removal.
pub fn stars(store: &dyn Metadata) {
    let (ann, bob, menu) = scene(store);
    let other = database(11, &bob, "other");
    write(store, |tx| {
        tx.databases().add(&other).unwrap();
        assert!(tx.stars().add(menu.id, ann.id, at(1)).unwrap());
        assert!(tx.stars().add(menu.id, bob.id, at(2)).unwrap());
        assert!(!tx.stars().add(menu.id, bob.id, at(3)).unwrap(), "it is there already");
        assert!(tx.stars().add(other.id, bob.id, at(4)).unwrap());
    });
    let count = |database: &Database| read(store, |tx| tx.databases().get(database.id).unwrap().unwrap().star_count);
    assert_eq!((count(&menu), count(&other)), (2, 1));
    read(store, |tx| {
        let star = tx.stars().get(menu.id, bob.id).unwrap().unwrap();
        assert_eq!((star.user_id, star.username.as_str(), star.starred_at), (bob.id, "bob", at(2)));
        assert_eq!(tx.stars().get(other.id, ann.id).unwrap(), None);
        assert_eq!(tx.databases().get(menu.id).unwrap().unwrap().version, menu.version, "no new version");
        let names = |after, limit| {
            let found = tx.stars().list(menu.id, after, limit).unwrap();
            found.into_iter().map(|star| star.username.key()).collect::<Vec<_>>()
        };
        let mut names = names;
        assert_eq!(names(None, 10), ["ann", "bob"]);
        assert_eq!(names(None, 1), ["ann"]);
        assert_eq!(names(Some("ann"), 10), ["bob"]);
    });
    write(store, |tx| {
        assert!(tx.stars().remove(menu.id, ann.id).unwrap());
        assert!(!tx.stars().remove(menu.id, ann.id).unwrap());
    });
    assert_eq!((count(&menu), count(&other)), (1, 1));
    write(store, |tx| tx.stars().clear(menu.id).unwrap());
    assert_eq!((count(&menu), count(&other)), (0, 1));
    read(store, |tx| assert!(tx.stars().list(menu.id, None, 10).unwrap().is_empty()));
}

/// Checks rankings: each order, pages, ties by id, visibility, and the same filters as in lists by name.
pub fn rankings(store: &dyn Metadata) {
    let (ann, bob) = (user(1, "Ann"), user(2, "bob"));
    let all: Vec<Database> = (0..5_u8)
        .map(|n| {
            let mut one = database(10 + u128::from(n), &ann, &format!("d{n}"));
            one.created_at = at(i64::from(n));
            one.last_write_at = [Some(at(50)), None, Some(at(70)), Some(at(60)), Some(at(80))][usize::from(n)];
            one
        })
        .collect();
    write(store, |tx| {
        tx.users().add(&ann).unwrap();
        tx.users().add(&bob).unwrap();
        for one in &all {
            tx.databases().add(one).unwrap();
        }
        let mut hidden = all[4].clone();
        hidden.visibility = Visibility::Private;
        assert!(tx.databases().update(&hidden).unwrap());
        tx.stars().add(database_id(11), ann.id, at(1)).unwrap();
        tx.stars().add(database_id(11), bob.id, at(1)).unwrap();
        tx.stars().add(database_id(12), bob.id, at(1)).unwrap();
        tx.stars().add(database_id(14), bob.id, at(1)).unwrap();
    });
    read(store, |tx| {
        let mut paged = |viewer, filter: &DatabaseFilter, ranking: Ranking| {
            let (mut seen, mut after) = (Vec::new(), None);
            loop {
                let page = tx.databases().list_ranked(viewer, filter, ranking, after, 2).unwrap();
                let Some(last) = page.last() else { return seen };
                after = Some((ranking.of(last), last.id));
                seen.extend(page.iter().map(|d| d.locator.name.to_string()));
            }
        };
        let everything = DatabaseFilter::default();
        assert_eq!(paged(None, &everything, Ranking::Stars), ["d1", "d2", "d3", "d0"]);
        assert_eq!(paged(Some(ann.id), &everything, Ranking::Stars), ["d1", "d4", "d2", "d3", "d0"]);
        assert_eq!(paged(None, &everything, Ranking::LastWrite), ["d2", "d3", "d0", "d1"]);
        assert_eq!(paged(Some(ann.id), &everything, Ranking::Creation), ["d4", "d3", "d2", "d1", "d0"]);
        let of_bob = DatabaseFilter { starred_by: Some(bob.id), ..DatabaseFilter::default() };
        assert_eq!(paged(None, &of_bob, Ranking::Creation), ["d2", "d1"], "what is hidden is not listed");
        assert_eq!(paged(Some(bob.id), &of_bob, Ranking::Creation), ["d2", "d1"], "a star opens nothing");
        let mut named = |filter: &DatabaseFilter| tx.databases().list(None, filter, None, 10).unwrap().len();
        assert_eq!(named(&of_bob), 2);
        assert_eq!(named(&DatabaseFilter { owner: Some(owner("bob")), ..of_bob.clone() }), 0);
        let found = DatabaseFilter { contains: Some("D2".to_owned()), ..DatabaseFilter::default() };
        assert_eq!(tx.databases().list_ranked(None, &found, Ranking::Stars, None, 10).unwrap().len(), 1);
        let long = DatabaseFilter { contains: Some("x".repeat(100_000)), ..DatabaseFilter::default() };
        assert!(tx.databases().list_ranked(None, &long, Ranking::Stars, None, 10).unwrap().is_empty());
    });
}
