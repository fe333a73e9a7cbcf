//! The suite of the metadata port.

use branchyard_domain_testing::suites::metadata::{self, Check};

use crate::home::Home;

fn on(home: Option<Home>, check: Check) {
    if let Some(home) = home {
        check(&home.ready());
    }
}

macro_rules! checks {
    ($($name:ident),+ $(,)?) => {
        mod sqlite {
            $(#[test]
            fn $name() {
                super::on(Some(crate::home::Home::sqlite()), super::metadata::$name);
            })+
        }

        mod postgres {
            $(#[test]
            fn $name() {
                super::on(crate::home::Home::postgres(), super::metadata::$name);
            })+
        }

        #[test]
        fn every_check_is_run() {
            let all: Vec<&str> = metadata::ALL.iter().map(|(name, _)| *name).collect();
            assert_eq!(all, [$(stringify!($name)),+], "add the new check to this list");
        }
    };
}

checks!(
    accounts,
    organizations,
    members,
    tokens,
    sessions,
    invitations,
    profiles,
    databases,
    database_lists,
    collaborators,
    activities,
    stars,
    rankings,
    refs,
    named_commits,
    pulls,
    pull_content,
    comments,
    releases,
    operations,
    leases,
    lease_turns,
    uploads,
    answers,
    events,
    hooks,
    deliveries,
    delivery_log,
    delivery_leases,
    deployments,
    instances,
    ledger,
    backups_and_samples,
    deployment_operations,
    units,
    concurrency,
    versions,
);
