//! The contract suites of the store's ports.

use branchyard_storage::Store;

use crate::home::Home;

/// Runs a check on a store, if the engine is available.
fn on(home: Option<Home>, check: impl FnOnce(&Store)) {
    if let Some(home) = home {
        check(&home.ready());
    }
}

macro_rules! checks {
    ($suite:ident: $($name:ident),+ $(,)?) => {
        mod $suite {
            use branchyard_domain_testing::suites::$suite;

            mod sqlite {
                $(#[test]
                fn $name() {
                    crate::suite::on(Some(crate::home::Home::sqlite()), |store| super::$suite::$name(store));
                })+
            }

            mod postgres {
                $(#[test]
                fn $name() {
                    crate::suite::on(crate::home::Home::postgres(), |store| super::$suite::$name(store));
                })+
            }

            #[test]
            fn every_check_is_run() {
                let all: Vec<&str> = $suite::ALL.iter().map(|(name, _)| *name).collect();
                assert_eq!(all, [$(stringify!($name)),+], "add the new check to this list");
            }
        }
    };
}

checks!(
    metadata:
    branch_facts, request_facts, changes_sent_together,
    accounts,
    organizations,
    members,
    deleted_users,
    tokens, user_keys,
    sessions,
    attempts_to_sign_in,
    request_counts,
    invitations,
    applications, grants, access_tokens, authorization_codes, device_authorizations,
    profiles,
    user_lists,
    databases,
    database_lists,
    former_names, former_names_property,
    quarantine,
    mirrors,
    trimmed_operations,
    collaborators,
    activities,
    stars,
    rankings,
    refs,
    named_commits,
    ref_log,
    collections,
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
    hook_secrets,
    deliveries,
    delivery_log,
    delivery_leases,
    transactions,
    concurrency,
    versions,
    rights_versions,
    watch_marks,
);

checks!(deployments: deployments, instances, ledger, backups_and_samples, deployment_operations, one_transaction,
    deployment_marks);
