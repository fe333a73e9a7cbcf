//! The fork network of a database, drawn as a tree of the databases the viewer can see.

use std::fmt::Write as _;

use branchyard_domain::Hub;
use branchyard_domain::access::{Caller, DatabaseAccess, Read};
use branchyard_domain::entities::DatabaseLocator;
use branchyard_domain::errors::{AccessError, DatabaseError};

use crate::format::Markup;
use crate::paths;

/// Maximum number of databases drawn.
const DRAWN: usize = 60;
/// Pixels between lines, and between levels.
const LINE: usize = 32;
const STEP: usize = 24;

/// A database in the tree, in drawing order.
struct NetworkNode {
    locator: DatabaseLocator,
    depth: usize,
    /// The line of the parent.
    parent: Option<usize>,
}

pub(super) struct Network {
    nodes: Vec<NetworkNode>,
    is_cut: bool,
}

impl Network {
    /// Collects the network from its root, or from the database itself if the root is hidden or deleted.
    pub(super) fn around(hub: &Hub, access: &DatabaseAccess<Read>) -> Result<Self, DatabaseError> {
        let view = hub.databases().get(access)?;
        let caller = access.caller();
        let root = match &view.network_root {
            Some(root) => seen(hub, caller, root)?,
            None => None,
        };
        let mut network = Self { nodes: Vec::new(), is_cut: false };
        network.add(hub, caller, &root.unwrap_or_else(|| access.clone()), 0, None)?;
        Ok(network)
    }

    fn add(
        &mut self,
        hub: &Hub,
        caller: &Caller,
        access: &DatabaseAccess<Read>,
        depth: usize,
        parent: Option<usize>,
    ) -> Result<(), DatabaseError> {
        if self.nodes.len() >= DRAWN {
            self.is_cut = true;
            return Ok(());
        }
        let line = self.nodes.len();
        self.nodes.push(NetworkNode { locator: access.database().locator.clone(), depth, parent });
        for fork in hub.databases().forks(access, None, DRAWN)? {
            if let Some(fork) = seen(hub, caller, &fork)? {
                self.add(hub, caller, &fork, depth + 1, Some(line))?;
            }
        }
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns `true` if some databases were left out.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Draws the tree as SVG with links to the databases. Names of owners and databases contain nothing that needs escaping.
    pub(super) fn draw(&self, here: &str) -> Markup {
        let x = |depth: usize| 12 + depth * STEP;
        let y = |line: usize| LINE / 2 + line * LINE;
        let widest = self.nodes.iter().map(|node| x(node.depth) + 20 + node.locator.to_string().len() * 9).max();
        let (width, height) = (widest.unwrap_or_default() + 20, self.nodes.len() * LINE);
        let mut svg = format!(
            "<svg class=\"network\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" role=\"group\" \
             aria-label=\"Fork network\">"
        );
        for (line, node) in self.nodes.iter().enumerate() {
            let (right, down) = (x(node.depth), y(line));
            if let Some(parent) = node.parent {
                let (left, up) = (x(node.depth.saturating_sub(1)), y(parent));
                let _ = write!(svg, "<path d=\"M{left} {up}V{}q0 8 8 8H{right}\"/>", down.saturating_sub(8));
            }
        }
        for (line, node) in self.nodes.iter().enumerate() {
            let (right, down, name) = (x(node.depth), y(line), node.locator.to_string());
            let current = if name == here { " class=\"here\" aria-current=\"true\"" } else { "" };
            let _ = write!(
                svg,
                "<a href=\"{}\"{current}><circle cx=\"{right}\" cy=\"{down}\" r=\"5\"/><text x=\"{}\" y=\"{}\">{name}</text></a>",
                paths::database(&node.locator),
                right + 14,
                down + 5,
            );
        }
        svg.push_str("</svg>");
        Markup::trusted(svg)
    }
}

/// Opens a database of the network. Returns `None` if it is no longer accessible.
fn seen(hub: &Hub, caller: &Caller, locator: &DatabaseLocator) -> Result<Option<DatabaseAccess<Read>>, DatabaseError> {
    match hub.databases().access::<Read>(caller, locator.owner.as_str(), locator.name.as_str()) {
        Ok(access) => Ok(Some(access)),
        Err(
            AccessError::NoSuchDatabase | AccessError::SignInRequired | AccessError::Denied(_) | AccessError::Mirror,
        ) => Ok(None),
        Err(error @ AccessError::Port(_)) => Err(error.into()),
    }
}
