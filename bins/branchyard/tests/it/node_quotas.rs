//! Quotas that the nodes of a cluster count together.

use branchyard_testkit::{Actor, create_user};

use crate::node_calls::Nodes;

const QUOTA: u32 = 1_000;

#[test]
fn requests_of_a_user_are_counted_by_all_nodes_together() {
    let Some(nodes) = Nodes::new("quotas") else { return };
    let limited = |node| {
        nodes.start_with(node, |command| {
            command.env("BRANCHYARD_RATE_LIMIT__ENABLED", "true");
            command.env("BRANCHYARD_RATE_LIMIT__USER_PER_HOUR", QUOTA.to_string());
        })
    };
    let servers = ["first", "second", "third"].map(limited);
    let token = create_user(|args: &[&str]| nodes.command("first", args), "ada");
    let actors: Vec<_> =
        servers.iter().map(|server| Actor::new(server.origin.clone(), Some(token.clone()), "ada")).collect();
    let statuses: Vec<u16> = (0..QUOTA as usize * 13 / 10).map(|n| actors[n % 3].get("/user").status).collect();
    let served = u32::try_from(statuses.iter().filter(|status| **status == 200).count()).unwrap();
    assert!(statuses.iter().all(|status| [200, 429].contains(status)), "{statuses:?}");
    assert!((QUOTA * 99 / 100..=QUOTA * 11 / 10).contains(&served), "{served} of {QUOTA}");
    assert!(actors.iter().all(|actor| actor.get("/user").status == 429));
}
