//! The pages, as a browser without JavaScript sees them.

mod account;
mod activity;
mod administration;
mod browser;
mod changes;
mod clones;
mod data;
mod deployments;
mod docs;
mod downloads;
mod editing;
mod first_steps;
mod forks;
mod grid;
mod guards;
mod hooks;
mod imports;
mod live;
mod oauth;
mod operations;
mod organizations;
mod programs;
mod pulls;
mod reads;
mod recipes;
mod refs;
mod renames;
mod repositories;
mod resets;
mod rivers;
mod row_histories;
mod settings;
mod stars;
mod table_editor;
mod workbench;
mod writes;

use branchyard_auth::PlainPassword;
use branchyard_domain::usecases::NewUser;
use branchyard_domain::values::OwnerName;
use branchyard_testkit::{Actor, Server};

use browser::{Browser, Page};

const PASSWORD: &str = "correct horse";

/// Starts a server with open sign-up.
fn open_server() -> Server {
    Server::start_with(|config| config.web.sign_up = "open".to_owned())
}

/// Signs up a user, and returns the browser in which the user is signed in.
fn sign_up(server: &Server, name: &str) -> Browser {
    let browser = Browser::at(server);
    let page = browser.get("/sign-up").expect(200);
    let email = format!("{name}@example.test");
    let done = browser.submit(&page, "/sign-up", &[("name", name), ("email", &email), ("password", PASSWORD)]);
    browser.follow(&done.expect(303)).expect(200).shows("Your databases");
    browser
}

fn sign_in(browser: &Browser, name: &str, password: &str) -> Page {
    let page = browser.get("/sign-in").expect(200);
    browser.submit(&page, "/sign-in", &[("name", name), ("password", password)])
}

/// Creates a public database with one table for a signed-in user.
fn database(server: &Server, owner: &Browser, name: &str) -> Actor {
    let actor = server.actor_of(name);
    actor.database("rivers");
    actor.write(&format!("{name}/rivers"), "main", "create table r (id integer primary key, name text)");
    owner.get(&format!("/{name}/rivers")).expect(200);
    actor
}

/// Creates a user with a password, without the pages.
fn user(server: &Server, name: &str, is_admin: bool) {
    let password = PlainPassword::new(PASSWORD.to_owned()).unwrap();
    let hash = password.hash_from(&mut |buffer| server.hub().random(buffer)).unwrap();
    let wanted = NewUser {
        name: OwnerName::parse(name).unwrap(),
        email: format!("{name}@example.test"),
        display_name: None,
        password: Some(hash),
        is_admin,
    };
    server.hub().people().create_user(wanted).unwrap();
}
