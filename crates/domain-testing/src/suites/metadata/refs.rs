//! Checks of branches, tags and releases.

use super::{at, branch, change, database, hash, id, pull, read, reference, scene, tag, taken, write};
use branchyard_domain::entities::{Branch, Pull, PullContent, PullHeads, PullHidden, Release};
use branchyard_domain::ports::{DatabaseCounts, Metadata};
use branchyard_domain::values::{CommitHash, ReleaseId};

/// Checks branches and tags: unique names, compare-and-set, byte order, copies.
pub fn refs(store: &dyn Metadata) {
    let (_, bob, menu) = scene(store);
    let other = database(11, &bob, "other");
    // Byte order: upper case before lower case, `-` before `/`, non-ASCII letters last.
    let names = ["Main", "a", "a-b", "a/b", "a0", "main", "é"];
    let strings = |branches: &[Branch]| branches.iter().map(|branch| branch.name.to_string()).collect::<Vec<_>>();
    write(store, |tx| {
        tx.databases().add(&other).unwrap();
        for name in ["a0", "é", "main", "a/b", "Main", "a", "a-b"] {
            tx.branches().add(menu.id, &branch(name, 1), None).unwrap();
            tx.tags().add(menu.id, &tag(name, 2), None).unwrap();
        }
        taken(tx.branches().add(menu.id, &branch("main", 9), None));
        taken(tx.tags().add(menu.id, &tag("main", 9), None));
        assert!(tx.branches().move_head(menu.id, &reference("main"), &hash(1), &hash(5), at(9), None).unwrap());
        assert!(!tx.branches().move_head(menu.id, &reference("main"), &hash(1), &hash(6), at(9), None).unwrap());
        assert!(!tx.branches().move_head(menu.id, &reference("none"), &hash(1), &hash(6), at(9), None).unwrap());
        assert!(!tx.branches().move_head(other.id, &reference("main"), &hash(5), &hash(6), at(9), None).unwrap());
    });
    write(store, |tx| {
        let main = Branch { name: reference("main"), head: hash(5), updated_at: at(9) };
        assert_eq!(tx.branches().get(menu.id, &main.name).unwrap().unwrap(), main);
        assert_eq!(tx.branches().get(other.id, &main.name).unwrap(), None);
        assert_eq!(tx.tags().get(menu.id, &reference("é")).unwrap().unwrap(), tag("é", 2));
        assert_eq!(tx.tags().get(menu.id, &reference("none")).unwrap(), None);
        assert_eq!(strings(&tx.branches().list(menu.id, None, 100).unwrap()), names);
        assert_eq!(strings(&tx.branches().list(menu.id, Some("a-b"), 2).unwrap()), names[3..5]);
        let tags = tx.tags().list(menu.id, Some("Main"), 100).unwrap();
        assert_eq!(tags.iter().map(|tag| tag.name.to_string()).collect::<Vec<_>>(), names[1..]);
        tx.refs().copy_all(menu.id, other.id).unwrap();
        assert_eq!(tx.branches().list(other.id, None, 100).unwrap(), tx.branches().list(menu.id, None, 100).unwrap());
        assert_eq!(tx.tags().list(other.id, None, 100).unwrap(), tx.tags().list(menu.id, None, 100).unwrap());
        assert!(!tx.branches().remove(menu.id, &main.name, &hash(1), None).unwrap());
        assert!(tx.branches().remove(menu.id, &main.name, &hash(5), None).unwrap());
        assert!(!tx.branches().remove(menu.id, &main.name, &hash(5), None).unwrap());
        assert!(tx.tags().remove(menu.id, &main.name, None).unwrap());
        assert!(!tx.tags().remove(menu.id, &main.name, None).unwrap());
        assert!(tx.branches().get(other.id, &main.name).unwrap().is_some());
    });
}

/// Checks the list of commits that a database refers to.
pub fn named_commits(store: &dyn Metadata) {
    let (ann, bob, menu) = scene(store);
    let other = database(11, &bob, "other");
    write(store, |tx| {
        tx.databases().add(&other).unwrap();
        for (name, head) in [("a", 5), ("b", 3), ("c", 5)] {
            tx.branches().add(menu.id, &branch(name, head), None).unwrap();
        }
        tx.branches().add(other.id, &branch("z", 99), None).unwrap();
        tx.tags().add(menu.id, &tag("t", 3), None).unwrap();
        tx.tags().add(menu.id, &tag("u", 10), None).unwrap();
        let mut merged = pull(1, &menu, &menu, "a", &ann);
        tx.pulls().add(&merged).unwrap();
        merged.merge(at(9), bob.name.clone(), hash(5), hash(1), hash(7)).unwrap();
        assert!(tx.pulls().update(&merged).unwrap());
        tx.pulls().add(&pull(2, &menu, &menu, "b", &ann)).unwrap();
        // A pull request refers to its heads once they are fetched, unless it is hidden.
        let showing = |n: i64, from: &str, heads: (u64, u64)| {
            let heads = PullHeads { from: hash(heads.0), to: hash(heads.1) };
            let content = PullContent { heads: Some(heads), ..PullContent::default() };
            Pull { content, ..pull(n, &menu, &other, from, &ann) }
        };
        let mut hidden = showing(5, "f", (40, 41));
        tx.pulls().add(&hidden).unwrap();
        hidden.hide(PullHidden::Withdrawn, at(9)).unwrap();
        assert!(tx.pulls().update(&hidden).unwrap());
        tx.pulls().add(&showing(3, "d", (11, 12))).unwrap();
        let mut unfetched = showing(4, "e", (30, 31));
        unfetched.content.fetch_due_at = Some(at(9));
        tx.pulls().add(&unfetched).unwrap();
        // Refs that left commits behind, at 20.
        tx.branches().add(menu.id, &branch("gone", 50), change(1, 19, false)).unwrap();
        assert!(tx.branches().remove(menu.id, &reference("gone"), &hash(50), change(2, 20, true)).unwrap());
        tx.tags().add(other.id, &tag("gone", 51), change(3, 19, false)).unwrap();
        assert!(tx.tags().remove(other.id, &reference("gone"), change(4, 20, true)).unwrap());
        // A commit that its branch still reaches needs no record to be kept.
        tx.branches().add(menu.id, &branch("moved", 60), change(5, 19, false)).unwrap();
        let to = (&hash(60), &hash(5));
        assert!(
            tx.branches().move_head(menu.id, &reference("moved"), to.0, to.1, at(9), change(6, 20, false)).unwrap()
        );
    });
    read(store, |tx| {
        let counts = |branches, tags, open_pulls| DatabaseCounts { branches, tags, releases: 0, open_pulls };
        assert_eq!(tx.refs().counts(menu.id, 100).unwrap(), counts(4, 2, 3));
        assert_eq!(tx.refs().counts(menu.id, 2).unwrap(), counts(2, 2, 2), "no more than the limit");
        assert_eq!(tx.refs().counts(other.id, 100).unwrap(), counts(1, 0, 0));
        let expected: Vec<CommitHash> = [1, 3, 5, 7, 10, 11, 12].into_iter().map(hash).collect();
        assert_eq!(tx.refs().named_commits(menu.id, None, 100).unwrap(), expected);
        assert_eq!(tx.refs().named_commits(menu.id, None, 2).unwrap(), expected[..2]);
        assert_eq!(tx.refs().named_commits(menu.id, Some(&hash(3)), 2).unwrap(), expected[2..4]);
        assert!(tx.refs().named_commits(menu.id, Some(&hash(12)), 2).unwrap().is_empty());
        // What is not fetched yet is kept, too. A hidden pull request keeps nothing.
        let kept: Vec<CommitHash> = [1, 3, 5, 7, 10, 11, 12, 30, 31].into_iter().map(hash).collect();
        assert_eq!(tx.refs().kept_commits(menu.id, None, None, 100).unwrap(), kept);
        assert_eq!(tx.refs().kept_commits(menu.id, None, Some(&hash(10)), 2).unwrap(), kept[5..7]);
        // What refs left behind is kept for a while, and is not named.
        let with_deleted: Vec<CommitHash> = [1, 3, 5, 7, 10, 11, 12, 30, 31, 50].into_iter().map(hash).collect();
        assert_eq!(tx.refs().kept_commits(menu.id, Some(at(19)), None, 100).unwrap(), with_deleted);
        assert_eq!(tx.refs().kept_commits(menu.id, Some(at(20)), None, 100).unwrap(), kept);
    });
}

/// Checks releases.
pub fn releases(store: &dyn Metadata) {
    let (_, _, menu) = scene(store);
    let release = |n: u64, tag: &str, when| Release {
        id: ReleaseId::from_uuid(id(n.into())),
        tag: reference(tag),
        title: format!("release {n}"),
        commit: hash(n),
        description: (n == 1).then(|| "notes".to_owned()),
        created_at: when,
        updated_at: when,
    };
    let expected = [release(3, "c", at(2)), release(1, "a", at(1)), release(2, "b", at(1))];
    write(store, |tx| {
        for name in ["a", "b", "c"] {
            tx.tags().add(menu.id, &tag(name, 1), None).unwrap();
        }
        for release in &expected {
            tx.releases().add(menu.id, release).unwrap();
        }
        taken(tx.releases().add(menu.id, &release(4, "a", at(5))));
        assert_eq!(tx.releases().get(menu.id, &reference("a")).unwrap().unwrap(), expected[1]);
        assert_eq!(tx.releases().get(menu.id, &reference("d")).unwrap(), None);
        assert_eq!(tx.releases().list(menu.id, None, 10).unwrap(), expected);
        assert_eq!(tx.refs().counts(menu.id, 10).unwrap().releases, 3);
        assert_eq!(tx.releases().list(menu.id, Some((at(2), "c")), 1).unwrap(), expected[1..2]);
        assert_eq!(tx.releases().list(menu.id, Some((at(1), "a")), 10).unwrap(), expected[2..]);
        let mut edited =
            Release { title: "ünï".to_owned(), description: None, updated_at: at(9), ..expected[1].clone() };
        assert!(tx.releases().update(menu.id, &edited).unwrap());
        assert_eq!(tx.releases().get(menu.id, &edited.tag).unwrap().unwrap(), edited);
        assert_eq!(tx.releases().list(menu.id, None, 10).unwrap()[1], edited, "it keeps its place");
        edited.tag = reference("d");
        assert!(!tx.releases().update(menu.id, &edited).unwrap());
        assert!(tx.releases().remove(menu.id, &reference("a")).unwrap());
        assert!(!tx.releases().remove(menu.id, &reference("a")).unwrap());
    });
}
