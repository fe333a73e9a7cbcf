//! Branches, tags, releases and revision expressions.

use branchyard_domain::access::{Participate, Read, Write};
use branchyard_domain::errors::{ReadError, RefError, ReleaseError};
use branchyard_domain::usecases::{NewBranch, NewRelease, NewTag};
use branchyard_domain::values::{CommitHash, CommitPrefix, Revision, Title};
use branchyard_domain_testing::fakes::SAME_DIGITS;

use crate::harness::{DB, DomainHarness, create, name, world};

impl DomainHarness {
    pub(crate) fn branch(&self, branch: &str, from: Revision) -> Result<(), RefError> {
        let wanted = NewBranch { name: name(branch), from };
        self.hub.branches().create(&self.access::<Write>(&self.ada), wanted, None).map(drop)
    }

    fn tag(&self, tag: &str, from: Revision) -> Result<(), RefError> {
        let wanted = NewTag { name: name(tag), from, message: None };
        self.hub.tags().create(&self.access::<Write>(&self.ada), wanted, None).map(drop)
    }

    fn delete_branch(&self, branch: &str) -> Result<(), RefError> {
        self.hub.branches().delete(&self.access::<Write>(&self.ada), branch, None).map(drop)
    }

    fn resolve(&self, text: &str) -> Option<CommitHash> {
        match self.hub.sql().resolve(&self.access::<Read>(&self.ada), Some(text)) {
            Ok(hash) => Some(hash),
            Err(ReadError::Ref(RefError::NoSuchRef { .. })) => None,
            Err(other) => panic!("{other}"),
        }
    }

    fn release(&self, tag: &str, commit: CommitHash, create_tag: bool) -> Result<(), ReleaseError> {
        let title = Title::parse("First").unwrap();
        let wanted = NewRelease { tag: name(tag), title, commit: commit.into(), description: None, create_tag };
        self.hub.releases().create(&self.access::<Write>(&self.ada), wanted, None).map(drop)
    }
}

pub(crate) fn at(branch: &str) -> Revision {
    Revision::Branch(branch.to_owned())
}

#[test]
fn branches_start_at_branches_and_commits() {
    let world = world();
    world.branch("from-branch", at("main")).unwrap();
    world.branch("from-commit", Revision::Commit(world.head("main").unwrap().into())).unwrap();
    assert_eq!(world.head("from-commit"), world.head("main"));
    assert!(matches!(world.branch("from-branch", at("main")), Err(RefError::BranchExists(_))));
    assert!(matches!(world.branch("x", at("gone")), Err(RefError::NoSuchBranch(_))));
    assert!(matches!(world.branch("x", at("not..a name")), Err(RefError::NoSuchBranch(_))));
    let unknown = CommitHash::parse(&"0".repeat(40)).unwrap();
    assert!(matches!(world.branch("x", Revision::Commit(unknown.into())), Err(RefError::NoSuchRef { .. })));
    assert_eq!(world.events(), ["push main", "+from-branch", "+from-commit"]);
}

#[test]
fn what_keeps_a_branch_from_being_deleted() {
    let world = world();
    world.branch("work", at("main")).unwrap();
    assert!(matches!(world.delete_branch("main"), Err(RefError::DefaultBranch(_))));
    assert!(matches!(world.delete_branch("gone"), Err(RefError::NoSuchBranch(_))));
    let writing = world.queue("work", "work", "DELETE FROM t WHERE id = 1");
    assert!(matches!(world.delete_branch("work"), Err(RefError::InUse(id)) if id == writing.id));
    world.work();
    let access = world.access::<Write>(&world.ada);
    let changed = world.hub.branches().delete(&access, "work", Some(&|_| false));
    assert!(matches!(changed, Err(RefError::Changed)));
    world.delete_branch("work").unwrap();
    assert_eq!(world.head("work"), None);
    assert_eq!(world.events(), ["push main", "+work", "push work", "-work"]);
}

#[test]
fn tags_stay_and_releases_hold_them() {
    let world = world();
    let head = world.head("main").unwrap();
    world.tag("v1", at("main")).unwrap();
    assert!(matches!(world.tag("v1", at("main")), Err(RefError::TagExists(_))));
    world.wrote("main", "DELETE FROM t WHERE id = 1");
    assert_eq!(world.resolve("v1"), Some(head.clone()));

    let now = world.head("main").unwrap();
    assert!(matches!(world.release("v1", now.clone(), false), Err(ReleaseError::TagElsewhere(_))));
    assert!(matches!(world.release("v2", now.clone(), false), Err(ReleaseError::NoSuchTag(_))));
    let unknown = CommitHash::parse(&"0".repeat(40)).unwrap();
    assert!(matches!(world.release("v2", unknown, true), Err(ReleaseError::NoSuchCommit(_))));
    assert_eq!(world.resolve("v2"), None);
    world.release("v1", head.clone(), false).unwrap();
    assert!(matches!(world.release("v1", head.clone(), false), Err(ReleaseError::Exists(_))));
    world.release("v2", now, true).unwrap();
    assert!(world.resolve("v2").is_some());

    let access = world.access::<Write>(&world.ada);
    assert!(matches!(world.hub.tags().delete(&access, "v1", None), Err(RefError::ReleaseUsesTag(_))));
    world.tag("v3", at("main")).unwrap();
    world.hub.tags().delete(&access, "v3", None).unwrap();
    assert!(matches!(world.hub.tags().delete(&access, "v3", None), Err(RefError::NoSuchTag(_))));
    assert_eq!(world.hub.releases().list(&access, None, 10).unwrap().len(), 2);
    assert!(matches!(world.hub.releases().get(&access, "v3"), Err(ReleaseError::NoSuchRelease(_))));
}

#[test]
fn revisions_are_read_as_git_reads_them() {
    let world = world();
    let first = world.head("main").unwrap();
    let second = world.wrote("main", "INSERT INTO t VALUES (2,'two')");
    world.tag("v1", Revision::Commit(first.clone().into())).unwrap();
    world.branch("v1", at("main")).unwrap();
    let some = |text: &str| world.resolve(text).unwrap_or_else(|| panic!("{text} names nothing"));
    for text in ["main", "HEAD", "refs/heads/main", "main~0", "main^0", "v1", second.as_str()] {
        assert_eq!(some(text), second, "{text}");
    }
    for text in
        ["main~1", "main^", "main^1", "HEAD~", "refs/tags/v1", &format!("{second}~"), &first.as_str().to_uppercase()]
    {
        assert_eq!(some(text), first, "{text}");
    }
    assert_eq!(some("main~2"), some("main^^"));
    for text in
        ["gone", "main~é", "main~3", "main^2", "main~x", "~", "", "main^99999999999999999999", "refs/heads/gone"]
    {
        assert_eq!(world.resolve(text), None, "{text}");
    }
}

#[test]
fn the_first_digits_of_a_commit_name_it_after_branches_and_tags() {
    let world = world();
    let first = world.head("main").unwrap();
    let second = world.wrote("main", "INSERT INTO t VALUES (2,'two')");
    let digits = |commit: &CommitHash, count: usize| commit.as_str()[..count].to_owned();
    for count in 7..=39 {
        assert_eq!(world.resolve(&digits(&first, count)), Some(first.clone()), "{count}");
        assert_eq!(world.resolve(&digits(&second, count).to_uppercase()), Some(second.clone()), "{count}");
    }
    assert_eq!(world.resolve(&format!("{}~", digits(&second, 7))), Some(first.clone()));
    for text in [digits(&first, 6), "0000000".to_owned(), format!("{}g", digits(&first, 7)), format!("{first}0")] {
        assert_eq!(world.resolve(&text), None, "{text}");
    }
    world.branch("of-digits", Revision::Commit(CommitPrefix::parse(&digits(&first, 7)).unwrap())).unwrap();
    assert_eq!(world.head("of-digits"), Some(first.clone()));
    world.tag("of-digits", Revision::Commit(CommitPrefix::parse(&digits(&first, 39)).unwrap())).unwrap();
    let unknown = Revision::Commit(CommitPrefix::parse("0000000").unwrap());
    assert!(matches!(world.branch("x", unknown), Err(RefError::NoSuchRef { .. })));
    // A tag of the same name comes first.
    world.tag(&digits(&first, 8), at("main")).unwrap();
    assert_eq!(world.resolve(&digits(&first, 8)), Some(second.clone()));
    assert_eq!(world.resolve(&digits(&first, 9)), Some(first));
    // What no ref reaches any more has no digits either.
    world.branch("work", at("main")).unwrap();
    let lost = world.wrote("work", "DELETE FROM t WHERE id = 1");
    assert_eq!(world.resolve(&digits(&lost, 7)), Some(lost.clone()));
    world.delete_branch("work").unwrap();
    assert_eq!(world.resolve(&digits(&lost, 7)), None);
}

#[test]
fn digits_that_several_commits_begin_with_name_none() {
    let world = world();
    let mut commits = ["two", "three"].map(|text| {
        world.wrote_with(
            "main",
            &format!("INSERT INTO t VALUES ({}, '{text}')", text.len()),
            &format!("{text} {SAME_DIGITS}"),
        )
    });
    commits.sort();
    let digits = &commits[0].as_str()[..8];
    assert!(commits[1].as_str().starts_with(digits));
    let access = world.access::<Read>(&world.ada);
    let Err(ReadError::Ref(RefError::AmbiguousCommit { prefix, commits: found, .. })) =
        world.hub.sql().resolve(&access, Some(digits))
    else {
        panic!("{digits} names one commit")
    };
    assert_eq!((prefix.as_str(), &found[..]), (digits, &commits[..]));
    assert_eq!(world.resolve(&commits[1].as_str()[..20]), Some(commits[1].clone()));
    let start = Revision::Commit(CommitPrefix::parse(digits).unwrap());
    assert!(matches!(world.branch("x", start), Err(RefError::AmbiguousCommit { .. })));
}

#[test]
fn a_fork_does_not_show_commits_the_source_never_named() {
    let world = world();
    world.branch("work", at("main")).unwrap();
    let lost = world.wrote("work", "DELETE FROM t WHERE id = 1");
    world.delete_branch("work").unwrap();
    assert_eq!(world.resolve(lost.as_str()), None, "nothing names it any more");
    let access = world.access::<Participate>(&world.ben);
    let fork = world.hub.operations().fork(&access, "ben", None).unwrap();
    world.work();
    assert_eq!(world.outcome(fork.id).database.unwrap().1.to_string(), "ben/engines");
    let fork = world.access_to::<Read>(&world.ben, ("ben", DB.1));
    assert!(world.hub.sql().resolve(&fork, Some(lost.as_str())).is_err());
    assert_eq!(world.rows_in(("ben", DB.1), "main"), world.rows("main"));
    let other = create(&world.hub, &world.ben, ("ben", "empty"), branchyard_domain::entities::Visibility::Public);
    assert_eq!(world.events_of(other), Vec::<String>::new());
}
