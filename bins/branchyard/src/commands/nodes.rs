//! The commands `node list`, `node drain` and `node remove`. `docs/administration.md` documents their JSON.

use branchyard_domain::entities::{Node, NodeState};
use serde_json::{Value, json};

use super::administration::{audit, plain, time, time_or_null};
use super::print;
use crate::cli::NodeAction;
use crate::compose::Stores;

pub(super) fn run(stores: &Stores, action: &NodeAction) -> anyhow::Result<()> {
    let (nodes, proof) = (stores.hub.nodes(), stores.hub.administration().operator());
    match action {
        NodeAction::List { json } => list(&nodes.list(&proof)?, *json),
        NodeAction::Drain { id, undo: false, json } => {
            let node = nodes.drain(&proof, id)?;
            audit("node drain", id)?;
            let rest =
                "its operations and databases go to other nodes, and its server can be stopped once it leads none";
            changed(&node, &format!("drained; {rest}"), *json)
        }
        NodeAction::Drain { id, undo: true, json } => {
            let node = nodes.end_drain(&proof, id)?;
            audit("node drain --undo", id)?;
            changed(&node, "not drained", *json)
        }
        NodeAction::Remove { id, json } => remove(stores, id, *json),
    }
}

/// Returns the state of a node, and since when it has it.
fn state(node: &Node) -> (&'static str, String) {
    let (state, since) = node.state();
    let word = match state {
        NodeState::Live => "live",
        NodeState::Drained => "drained",
        NodeState::Ended => "ended",
    };
    (word, time(since))
}

fn node_json(node: &Node) -> Value {
    let (state, since) = state(node);
    json!({
        "id": node.id,
        "state": state,
        "since": since,
        "started_at": time(node.started_at),
        "drained_at": time_or_null(node.drained_at),
        "lease_until": time(node.lease_until),
        "address": node.address,
        "version": node.version,
        "databases": node.databases,
        "copies": node.copies.map(|copies| json!({
            "count": copies.count,
            "bytes": copies.bytes,
            "limit_bytes": copies.limit_bytes,
            "behind": copies.behind,
            "behind_bytes": copies.behind_bytes,
        })),
    })
}

fn list(nodes: &[Node], as_json: bool) -> anyhow::Result<()> {
    for node in nodes {
        if as_json {
            print(node_json(node))?;
            continue;
        }
        let (state, since) = state(node);
        let drained = match node.drained_at {
            Some(at) if !node.is_live => format!(", drained since {}", time(at)),
            _ => String::new(),
        };
        let lease = if node.is_live { format!(", lease until {}", time(node.lease_until)) } else { String::new() };
        let address = node.address.as_deref().map(|address| format!(", at {}", plain(address))).unwrap_or_default();
        let (id, version, databases) = (&node.id, &node.version, node.databases);
        print(format!(
            "{id}: {state} since {since}{drained}{address}, version {version}, leads {databases} databases{lease}"
        ))?;
    }
    Ok(())
}

fn changed(node: &Node, sentence: &str, as_json: bool) -> anyhow::Result<()> {
    if as_json { print(node_json(node)) } else { print(format!("{}: {sentence}", node.id)) }
}

fn remove(stores: &Stores, id: &str, as_json: bool) -> anyhow::Result<()> {
    let operations = stores.hub.nodes().remove(&stores.hub.administration().operator(), id)?;
    audit("node remove", id)?;
    if as_json {
        return print(json!({ "id": id, "operations": operations }));
    }
    match operations {
        0 => print(format!("{id}: removed")),
        count => print(format!("{id}: removed; {count} operations that it ran will run again on other nodes")),
    }
}
