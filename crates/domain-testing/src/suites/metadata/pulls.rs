//! Checks of pull requests, their content and comments.

use super::{at, branch, database, hash, id, pull, read, reference, scene, taken, write};
use branchyard_domain::entities::{
    Database, Pull, PullComment, PullContent, PullHeads, PullHidden, PullState, User, Visibility,
};
use branchyard_domain::ports::{FetchBacklog, FetchEnd, Metadata, PullFilter, PullStanding, Transaction};
use branchyard_domain::values::{CommentId, PullNumber};

/// Checks pull requests: numbers, at most one open per pair of branches, versions, states, lists.
pub fn pulls(store: &dyn Metadata) {
    let (ann, bob, menu) = scene(store);
    let fork = Database { parent_id: Some(menu.id), network_id: menu.id, ..database(11, &bob, "Menu") };
    write(store, |tx| {
        tx.databases().add(&fork).unwrap();
        for n in 1..=4 {
            assert_eq!(tx.pulls().next_number(menu.id).unwrap().get(), n);
        }
        assert_eq!(tx.pulls().next_number(fork.id).unwrap(), PullNumber::FIRST);
        tx.pulls().add(&pull(1, &menu, &menu, "a", &ann)).unwrap();
        taken(tx.pulls().add(&pull(2, &menu, &menu, "a", &bob)));
        tx.pulls().add(&pull(2, &menu, &fork, "a", &bob)).unwrap();
        tx.pulls().add(&pull(3, &menu, &menu, "b", &bob)).unwrap();
        assert_eq!(tx.databases().get(menu.id).unwrap().unwrap().version, 1, "numbers are no change of the database");
    });
    let mut first = pull(1, &menu, &menu, "a", &ann);
    write(store, |tx| {
        assert_eq!(tx.pulls().get(menu.id, first.number).unwrap().unwrap(), first);
        assert_eq!(tx.pulls().get(fork.id, first.number).unwrap(), None);
        let found = tx.pulls().find_open(menu.id, fork.id, &reference("a"), &reference("main")).unwrap().unwrap();
        assert_eq!(found, pull(2, &menu, &fork, "a", &bob));
        assert_eq!(tx.pulls().find_open(menu.id, fork.id, &reference("b"), &reference("main")).unwrap(), None);

        first.close(at(8)).unwrap();
        first.title = "closed".to_owned();
        first.description = None;
        first.updated_at = at(8);
        assert!(tx.pulls().update(&first).unwrap());
        assert!(!tx.pulls().update(&first).unwrap(), "its version is past");
        first.version = 2;
        assert_eq!(tx.pulls().get(menu.id, first.number).unwrap().unwrap(), first);
        // Another pull request may open between the same branches, and then this one cannot be reopened.
        tx.pulls().add(&pull(4, &menu, &menu, "a", &bob)).unwrap();
        first.reopen().unwrap();
        taken(tx.pulls().update(&first));
        let mut fourth = pull(4, &menu, &menu, "a", &bob);
        fourth.merge(at(9), ann.name.clone(), hash(3), hash(1), hash(2)).unwrap();
        assert!(tx.pulls().update(&fourth).unwrap());
        fourth.version = 2;
        assert_eq!(tx.pulls().get(menu.id, fourth.number).unwrap().unwrap(), fourth);
        assert_eq!(tx.pulls().merged_as(menu.id, &[hash(1), hash(2), hash(3)]).unwrap(), [(hash(3), fourth.number)]);
        assert_eq!(tx.pulls().merged_as(menu.id, &[]).unwrap(), []);
        assert_eq!(tx.pulls().merged_as(fork.id, &[hash(3)]).unwrap(), []);
        assert!(tx.pulls().update(&first).unwrap());
        first.version = 3;
        assert_eq!(tx.pulls().get(menu.id, first.number).unwrap().unwrap(), first);
        first.close(at(10)).unwrap();
        assert!(tx.pulls().update(&first).unwrap());
    });
    read(store, |tx| {
        let mut numbers = |filter: PullFilter, before: Option<i64>, limit| {
            let before = before.map(|n| PullNumber::new(n).unwrap());
            let list = tx.pulls().list(menu.id, &filter, before, limit).unwrap();
            list.iter().map(|pull| pull.number.get()).collect::<Vec<_>>()
        };
        let standing = |standing| PullFilter { standing: Some(standing), contains: None };
        let with = |text: &str| PullFilter { standing: None, contains: Some(text.to_owned()) };
        assert_eq!(numbers(PullFilter::default(), None, 10), [4, 3, 2, 1]);
        assert_eq!(numbers(PullFilter::default(), Some(4), 2), [3, 2]);
        assert_eq!(numbers(standing(PullStanding::Open), None, 10), [3, 2]);
        assert_eq!(numbers(standing(PullStanding::Closed), None, 10), [1]);
        assert_eq!(numbers(standing(PullStanding::Merged), None, 10), [4]);
        assert_eq!(numbers(with("CLOSED"), None, 10), [1], "a title that was changed");
        assert_eq!(numbers(with("nobody wrote this"), None, 10), [0_i64; 0]);
        assert_eq!(numbers(with("%"), None, 10), [0_i64; 0], "a sign of the store's own means nothing");
    });
}

/// Checks the content of pull requests: it follows the source, is fetched once, and is listed by source and by base.
pub fn pull_content(store: &dyn Metadata) {
    let (ann, bob, menu) = scene(store);
    let fork = Database { parent_id: Some(menu.id), network_id: menu.id, ..database(11, &bob, "Menu") };
    let number = |n| PullNumber::new(n).unwrap();
    let shown = |tx: &mut dyn Transaction, n| tx.pulls().get(menu.id, number(n)).unwrap().unwrap().content;
    let heads = |from, to| Some(PullHeads { from: hash(from), to: hash(to) });
    write(store, |tx| {
        tx.databases().add(&fork).unwrap();
        tx.branches().add(menu.id, &branch("main", 1), None).unwrap();
        tx.branches().add(menu.id, &branch("a", 2), None).unwrap();
        tx.branches().add(fork.id, &branch("a", 3), None).unwrap();
        let published = PullContent { is_published: true, heads: heads(3, 1), ..PullContent::default() };
        tx.pulls().add(&pull(1, &menu, &menu, "a", &ann)).unwrap();
        tx.pulls().add(&Pull { content: published.clone(), ..pull(2, &menu, &fork, "a", &bob) }).unwrap();
        assert_eq!(shown(tx, 2), published);
        tx.pulls().add(&pull(3, &menu, &fork, "b", &bob)).unwrap();
        let mut closed = pull(4, &menu, &fork, "a", &ann);
        closed.close(at(7)).unwrap();
        tx.pulls().add(&closed).unwrap();
    });
    write(store, |tx| {
        assert_eq!(
            tx.pulls().record_source_move(menu.id, &reference("a"), &hash(5), at(10)).unwrap(),
            0,
            "is there already"
        );
        assert_eq!((shown(tx, 1).heads, shown(tx, 1).fetch_due_at), (heads(5, 1), None));
        assert_eq!(tx.pulls().record_source_move(fork.id, &reference("a"), &hash(6), at(10)).unwrap(), 1);
        assert_eq!(tx.pulls().record_source_move(fork.id, &reference("none"), &hash(6), at(10)).unwrap(), 0);
        assert_eq!((shown(tx, 2).heads, shown(tx, 2).fetch_due_at), (heads(6, 1), Some(at(10))));
        assert!(shown(tx, 2).is_published);
        assert_eq!(shown(tx, 4).heads, None, "a closed pull stays as it is");
        assert_eq!(tx.pulls().get(menu.id, number(2)).unwrap().unwrap().version, 2);
    });
    write(store, |tx| {
        let due = |tx: &mut dyn Transaction, now| {
            let found = tx.pull_fetches().due(at(now), 10, 10).unwrap();
            found.iter().map(|fetch| (fetch.number.get(), fetch.tries)).collect::<Vec<_>>()
        };
        assert_eq!(due(tx, 9), []);
        assert_eq!(due(tx, 10), [(2, 0)]);
        assert!(!tx.pull_fetches().lease(menu.id, number(2), at(9), at(20)).unwrap(), "not due yet");
        assert!(tx.pull_fetches().lease(menu.id, number(2), at(10), at(20)).unwrap());
        assert!(!tx.pull_fetches().lease(menu.id, number(2), at(11), at(20)).unwrap(), "leased");
        assert_eq!(due(tx, 11), []);
        assert_eq!(due(tx, 20), [(2, 0)], "the lease ended");
        assert!(tx.pull_fetches().extend_lease(menu.id, number(2), at(25)).unwrap());
        assert_eq!(due(tx, 24), [], "the lease was prolonged");
        assert!(!tx.pull_fetches().extend_lease(menu.id, number(3), at(25)).unwrap(), "there is no lease to prolong");
        let waiting = FetchBacklog { due: 1, oldest_due_at: Some(at(10)) };
        assert_eq!(tx.pull_fetches().backlog(at(10)).unwrap(), waiting, "leased or not");
        assert_eq!(tx.pull_fetches().backlog(at(9)).unwrap(), FetchBacklog { due: 0, oldest_due_at: None });
        assert!(!tx.pull_fetches().settle(menu.id, number(2), FetchEnd::Failed(at(30))).unwrap());
        assert_eq!(due(tx, 29), []);
        assert_eq!(due(tx, 30), [(2, 1)]);
        // The source moves while its previous head is being fetched.
        assert!(tx.pull_fetches().lease(menu.id, number(2), at(30), at(40)).unwrap());
        assert_eq!(tx.pulls().record_source_move(fork.id, &reference("a"), &hash(7), at(31)).unwrap(), 1);
        assert_eq!(due(tx, 31), [], "one fetch at a time");
        assert!(!tx.pull_fetches().settle(menu.id, number(2), FetchEnd::Fetched(&hash(6))).unwrap());
        assert_eq!(due(tx, 31), [(2, 0)]);
        assert!(tx.pull_fetches().lease(menu.id, number(2), at(31), at(40)).unwrap());
        assert!(tx.pull_fetches().settle(menu.id, number(2), FetchEnd::Fetched(&hash(7))).unwrap());
        assert_eq!((due(tx, 99), shown(tx, 2).heads), (vec![], heads(7, 1)));
        assert!(!tx.pull_fetches().lease(menu.id, number(2), at(99), at(100)).unwrap());
        // The number of returned fetches is limited per author.
        tx.pulls().add(&pull(5, &menu, &fork, "c", &bob)).unwrap();
        tx.pulls().add(&pull(6, &menu, &fork, "d", &ann)).unwrap();
        for (name, now) in [("b", 50), ("c", 51), ("d", 52)] {
            tx.pulls().record_source_move(fork.id, &reference(name), &hash(8), at(now)).unwrap();
        }
        assert_eq!(due(tx, 60), [(3, 0), (5, 0), (6, 0)]);
        let shares = tx.pull_fetches().due(at(60), 1, 10).unwrap();
        assert_eq!(shares.iter().map(|fetch| fetch.number.get()).collect::<Vec<_>>(), [3, 6]);
        assert_eq!(tx.pull_fetches().due(at(60), 1, 1).unwrap().len(), 1);
        assert!(!tx.pull_fetches().settle(menu.id, number(3), FetchEnd::Dropped).unwrap());
        assert_eq!(due(tx, 60), [(5, 0), (6, 0)]);
        // After a restart, no fetch is leased, and pull requests show source heads that moved unnoticed.
        assert!(tx.pull_fetches().lease(menu.id, number(5), at(60), at(999)).unwrap());
        assert!(tx.branches().move_head(fork.id, &reference("a"), &hash(3), &hash(9), at(61), None).unwrap());
        // A pull request of an earlier release, which stored no heads and asked for no consent.
        let secret = Database { visibility: Visibility::Private, network_id: menu.id, ..database(12, &bob, "secret") };
        tx.databases().add(&secret).unwrap();
        tx.branches().add(secret.id, &branch("main", 20), None).unwrap();
        tx.pulls().add(&pull(7, &menu, &secret, "main", &bob)).unwrap();
        assert_eq!(tx.pull_fetches().recover(at(62)).unwrap(), 3);
        let closed = tx.pulls().get(menu.id, number(7)).unwrap().unwrap();
        assert_eq!((closed.state, closed.updated_at), (PullState::Closed { at: at(62) }, at(62)));
        assert_eq!((closed.content.hidden, closed.content.heads), (Some(PullHidden::WithSource), None));
        assert_eq!(due(tx, 62), [(5, 0), (6, 0), (2, 0)]);
        assert_eq!(shown(tx, 2).heads, heads(9, 1));
    });
    write(store, |tx| {
        let numbers = |found: Vec<Pull>| found.iter().map(|pull| pull.number.get()).collect::<Vec<_>>();
        assert_eq!(numbers(tx.pulls().list_unmerged_from(fork.id, None, 10).unwrap()), [2, 3, 4, 5, 6]);
        assert_eq!(numbers(tx.pulls().list_unmerged_from(fork.id, Some((menu.id, number(3))), 2).unwrap()), [4, 5]);
        assert_eq!(
            numbers(tx.pulls().list_unmerged_from(menu.id, None, 10).unwrap()),
            [0_i64; 0],
            "within the database"
        );
        assert_eq!(numbers(tx.pulls().list_unmerged_to(menu.id, Some(number(2)), 2).unwrap()), [3, 4]);
        let mut hidden = tx.pulls().get(menu.id, number(2)).unwrap().unwrap();
        hidden.hide(PullHidden::WithSource, at(70)).unwrap();
        assert!(tx.pulls().update(&hidden).unwrap());
        hidden.version += 1;
        assert_eq!(tx.pulls().get(menu.id, number(2)).unwrap().unwrap(), hidden);
        assert_eq!(numbers(tx.pulls().list_unmerged_to(menu.id, None, 10).unwrap()), [3, 4, 5, 6]);
        let mut merged = tx.pulls().get(menu.id, number(5)).unwrap().unwrap();
        merged.merge(at(71), ann.name.clone(), hash(1), hash(2), hash(3)).unwrap();
        assert!(tx.pulls().update(&merged).unwrap());
        assert_eq!(numbers(tx.pulls().list_unmerged_from(fork.id, None, 10).unwrap()), [3, 4, 6]);
        assert_eq!(
            tx.pull_fetches().due(at(99), 10, 10).unwrap().len(),
            1,
            "what is merged or hidden waits for nothing"
        );
    });
}

/// Checks comments on pull requests.
pub fn comments(store: &dyn Metadata) {
    let (ann, bob, menu) = scene(store);
    let comment = |n: u128, by: &User, when| PullComment {
        id: CommentId::from_uuid(id(n)),
        author: by.name.clone(),
        body: format!("comment {n}"),
        created_at: when,
        updated_at: when,
    };
    let first = pull(1, &menu, &menu, "a", &ann);
    let expected = [comment(3, &bob, at(1)), comment(1, &ann, at(2)), comment(2, &bob, at(2))];
    write(store, |tx| {
        tx.pulls().add(&first).unwrap();
        tx.pulls().add(&pull(2, &menu, &menu, "b", &ann)).unwrap();
        for (n, by, when) in [(1, &ann, at(2)), (2, &bob, at(2)), (3, &bob, at(1))] {
            tx.pull_comments().add(menu.id, first.number, by.id, &comment(n, by, when)).unwrap();
        }
    });
    read(store, |tx| {
        assert_eq!(tx.pull_comments().list(menu.id, first.number, None, 10).unwrap(), expected);
        assert_eq!(tx.pull_comments().list(menu.id, first.number, None, 2).unwrap(), expected[..2]);
        let after = Some((expected[1].created_at, expected[1].id));
        assert_eq!(tx.pull_comments().list(menu.id, first.number, after, 10).unwrap(), expected[2..]);
        assert!(tx.pull_comments().list(menu.id, PullNumber::new(2).unwrap(), None, 10).unwrap().is_empty());
    });
}
