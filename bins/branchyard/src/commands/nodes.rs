//! The commands `node list`, `node drain` and `node remove`. `docs/administration.md` documents their JSON.

use branchyard_runtime::recover_leases;
use branchyard_storage::NodeStatus;
use serde_json::{Value, json};

use super::administration::{audit, plain, time, time_or_null};
use super::print;
use crate::cli::NodeAction;
use crate::compose::Stores;

pub(super) fn run(stores: &Stores, action: &NodeAction) -> anyhow::Result<()> {
    match action {
        NodeAction::List { json } => list(stores, *json),
        NodeAction::Drain { id, undo: false, json } => {
            let node = stores.metadata.drain_node(id)?;
            audit("node drain", id)?;
            let rest =
                "its operations and databases go to other nodes, and its server can be stopped once it leads none";
            changed(&node, &format!("drained; {rest}"), *json)
        }
        NodeAction::Drain { id, undo: true, json } => {
            let node = stores.metadata.end_drain(id)?;
            audit("node drain --undo", id)?;
            changed(&node, "not drained", *json)
        }
        NodeAction::Remove { id, json } => remove(stores, id, *json),
    }
}

/// Returns the state of a node, and since when it has it.
fn state(node: &NodeStatus) -> (&'static str, String) {
    match node.drained_at {
        _ if !node.is_live => ("ended", time(node.lease_until)),
        Some(at) => ("drained", time(at)),
        None => ("live", time(node.started_at)),
    }
}

fn node_json(node: &NodeStatus) -> Value {
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
    })
}

fn list(stores: &Stores, as_json: bool) -> anyhow::Result<()> {
    for node in stores.metadata.node_statuses()? {
        if as_json {
            print(node_json(&node))?;
            continue;
        }
        let (state, since) = state(&node);
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

fn changed(node: &NodeStatus, sentence: &str, as_json: bool) -> anyhow::Result<()> {
    if as_json { print(node_json(node)) } else { print(format!("{}: {sentence}", node.id)) }
}

fn remove(stores: &Stores, id: &str, as_json: bool) -> anyhow::Result<()> {
    stores.metadata.require_ended(id)?;
    // Other nodes do this too, if there is one.
    let operations = recover_leases(&stores.hub, id)?;
    stores.metadata.remove_node(id)?;
    audit("node remove", id)?;
    if as_json {
        return print(json!({ "id": id, "operations": operations }));
    }
    match operations {
        0 => print(format!("{id}: removed")),
        count => print(format!("{id}: removed; {count} operations that it ran will run again on other nodes")),
    }
}
