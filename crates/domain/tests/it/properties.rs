//! Untrusted text is parsed without a panic, and parsed values satisfy their rules.

use branchyard_domain::access::Read;
use branchyard_domain::errors::{ReadError, RefError};
use branchyard_domain::values::{CommitHash, DatabaseName, OwnerName, PullNumber, RefName, TableName};
use proptest::prelude::*;

use crate::harness::world;

/// Texts that almost satisfy the rules, and arbitrary texts.
fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[a-zA-Z0-9_./@{~^:-]{0,40}",
        "(a|/|\\.|\\.lock|@\\{|-|é|\u{7f}| ){0,12}",
        "[0-9a-fA-F]{38,42}"
    ]
}

proptest! {
    #[test]
    fn ref_names(text in texts()) {
        if let Ok(name) = RefName::parse(&text) {
            prop_assert_eq!(name.as_str(), &text);
            prop_assert!((1..=200).contains(&text.len()));
            let never = ["..", "@{", "//", " ", "~", "^", ":", "?", "*", "[", "\\"];
            let found = never.iter().find(|part| text.contains(**part));
            prop_assert_eq!(found, None);
            prop_assert!(!text.chars().any(char::is_control));
            prop_assert!(!text.starts_with(['/', '-', '.']) && !text.ends_with(['/', '.']) && !text.ends_with(".lock"));
            prop_assert!(CommitHash::parse(&text).is_err(), "no text names both a branch and a commit");
        }
    }

    #[test]
    fn owner_and_database_names(text in texts()) {
        let safe = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b)) && !text.starts_with('-') && !text.ends_with('-');
        if let Ok(name) = OwnerName::parse(&text) {
            prop_assert!(safe(&text) && (3..=32).contains(&text.len()));
            prop_assert_eq!(name.key(), text.to_ascii_lowercase());
            prop_assert!(OwnerName::parse(&name.key()).is_ok());
        }
        if DatabaseName::parse(&text).is_ok() {
            prop_assert!(safe(&text) && (1..=64).contains(&text.len()));
        }
    }

    #[test]
    fn numbers_and_tables(text in texts()) {
        if let Ok(number) = PullNumber::parse(&text) {
            prop_assert!(number.get() >= 1);
            prop_assert!(number.get() == i64::MAX || number.to_string() == text);
        }
        if TableName::parse(&text).is_ok() {
            prop_assert!(!text.to_ascii_lowercase().starts_with("dolt_"));
        }
    }
}

#[test]
fn revision_expressions_resolve_or_do_not() {
    let world = world();
    let access = world.access::<Read>(&world.ada);
    let head = world.head("main").unwrap();
    let expressions = prop_oneof![
        texts(),
        "(main|HEAD|refs/heads/main|x)?[~^0-9é]{0,12}",
        Just(format!("{head}~^")),
        "main(~|\\^)[0-9]{1,25}",
    ];
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let outcome = runner.run(&expressions, |text| match world.hub.sql().resolve(&access, Some(&text)) {
        Ok(_) | Err(ReadError::Ref(RefError::NoSuchRef { .. })) => Ok(()),
        Err(other) => Err(TestCaseError::fail(format!("{text:?}: {other:?}"))),
    });
    outcome.unwrap();
}
