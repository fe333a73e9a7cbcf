//! Lists of databases: what they show of each database, and how many statements they take.

use std::cell::Cell;
use std::sync::Arc;

use branchyard_domain::Hub;
use branchyard_domain::access::{Admin, Caller, Own, Participate, Read};
use branchyard_domain::entities::{MemberRole, Role, User, Visibility};
use branchyard_domain::ports::{DatabaseFilter, Ranking};
use branchyard_domain::usecases::{NewDatabase, NewOrganization, NewUser};
use branchyard_domain::values::{DatabaseName, OwnerName};
use branchyard_domain_testing::fakes;
use diesel::connection::{Instrumentation, InstrumentationEvent, set_default_instrumentation};

use crate::home::Home;

/// Rows of the longer list.
const ROWS: usize = 30;
/// Most statements of a list: begin, the page, roles as a member and as a collaborator, forks, parents and roots, the roles on
/// those, roll back.
const STATEMENTS: usize = 10;

thread_local! {
    static COUNTED: Cell<usize> = const { Cell::new(0) };
}

/// Counts the statements of the thread that runs them.
struct CountStatements;

impl Instrumentation for CountStatements {
    fn on_connection_event(&mut self, event: InstrumentationEvent<'_>) {
        if let InstrumentationEvent::StartQuery { .. } = event {
            COUNTED.set(COUNTED.get() + 1);
        }
    }
}

fn user(hub: &Hub, name: &str, is_admin: bool) -> Arc<User> {
    let wanted = NewUser {
        name: OwnerName::parse(name).unwrap(),
        email: format!("{name}@example.test"),
        display_name: None,
        password: None,
        is_admin,
    };
    Arc::new(hub.people().create_user(wanted).unwrap())
}

/// A store with databases of two users and an organization, some of them private, shared, forked or quarantined.
struct Listed {
    hub: Hub,
    callers: Vec<Caller>,
    bob: Caller,
    #[expect(dead_code, reason = "holds the files of the store")]
    home: Home,
}

impl Listed {
    fn on(home: Home) -> Self {
        set_default_instrumentation(|| Some(Box::new(CountStatements))).unwrap();
        let hub = fakes::hub().storing(Arc::new(home.ready()));
        let [ada, bob, eve] =
            [("ada", false), ("bob", false), ("eve", true)].map(|(name, is_admin)| user(&hub, name, is_admin));
        let [by_ada, by_bob] = [&ada, &bob].map(|user| Caller::User(Arc::clone(user)));
        hub.organizations().create(&ada, NewOrganization::named(OwnerName::parse("acme").unwrap()), None).unwrap();
        let own = hub.organizations().access::<Own>(&by_ada, "acme").unwrap();
        hub.members().put(&own, &bob, MemberRole::Member).unwrap();
        for number in 0..16 {
            let visibility = if number % 4 == 0 { Visibility::Private } else { Visibility::Public };
            for owner in ["ada", "acme"] {
                let wanted = NewDatabase {
                    owner: owner.to_owned(),
                    name: DatabaseName::parse(&format!("d{number}")).unwrap(),
                    visibility,
                    description: None,
                    default_branch: None,
                };
                hub.databases().create(&ada, wanted, None).unwrap();
            }
            let name = format!("d{number}");
            if number % 8 == 0 {
                let admin = hub.databases().access::<Admin>(&by_ada, "ada", &name).unwrap();
                hub.collaborators().put(&admin, &bob, Role::Write).unwrap();
            }
            if let (0..10, Ok(source)) = (number, hub.databases().access::<Participate>(&by_bob, "ada", &name)) {
                hub.operations().fork(&source, "bob", None).unwrap();
            }
        }
        while hub.operations().run_next("test").unwrap().is_some() {}
        let administration = hub.administration();
        administration.quarantine(&administration.operator(), "ada", "d1").unwrap();
        let callers = [ada, Arc::clone(&bob), eve].map(Caller::User);
        let callers = callers.into_iter().chain([Caller::Anonymous]).collect();
        Self { hub, callers, bob: Caller::User(bob), home }
    }

    /// Returns the number of statements of a list with so many rows.
    fn statements(&self, caller: &Caller, rows: usize) -> usize {
        COUNTED.set(0);
        let listed = self.hub.databases().list(caller, &DatabaseFilter::default(), None, rows).unwrap();
        assert_eq!(listed.len(), rows);
        let by_name = COUNTED.get();
        let all = DatabaseFilter::default();
        let ranked = self.hub.databases().ranked(caller, &all, Ranking::Creation, None, rows).unwrap();
        assert_eq!((ranked.len(), COUNTED.get()), (rows, 2 * by_name));
        by_name
    }
}

#[test]
fn a_list_takes_as_many_statements_for_thirty_rows_as_for_three() {
    for home in Home::each() {
        let listed = Listed::on(home);
        let whole = listed.hub.databases().list(&listed.bob, &DatabaseFilter::default(), None, 100).unwrap();
        assert!(whole.len() > ROWS && whole.iter().any(|view| view.parent.is_some()), "{}", whole.len());
        let thirty = listed.statements(&listed.bob, ROWS);
        assert!((1..=STATEMENTS).contains(&thirty), "{thirty} statements");
        assert!(listed.statements(&listed.bob, 3) <= thirty);
    }
}

#[test]
fn a_list_shows_of_each_database_what_the_database_shows() {
    for home in Home::each() {
        let listed = Listed::on(home);
        for caller in &listed.callers {
            let views = listed.hub.databases().list(caller, &DatabaseFilter::default(), None, 100).unwrap();
            assert!(views.len() > 20, "{caller:?}: {}", views.len());
            for view in views {
                let locator = &view.database.locator;
                let (owner, name) = (locator.owner.as_str(), locator.name.as_str());
                let access = listed.hub.databases().access::<Read>(caller, owner, name).unwrap();
                let alone = listed.hub.databases().get(&access).unwrap();
                let shown = |view: &branchyard_domain::usecases::DatabaseView| {
                    (view.role, view.fork_network_count, view.parent.clone(), view.network_root.clone())
                };
                assert_eq!(shown(&view), shown(&alone), "{caller:?}: {locator}");
            }
        }
    }
}
