//! `/admin/nodes`: the nodes of the cluster and their store.

use askama::Template;
use branchyard_domain::access::ServerAdmin;
use branchyard_domain::entities::{Node, NodeCopies, NodeState, StoredObjects};
use branchyard_domain::errors::NodeError;
use branchyard_domain::usecases::{ClusterView, Nodes};
use branchyard_domain::values::Timestamp;

use super::{SECTIONS, administrator, audit};
use crate::format::{self, Markup};
use crate::forms::FormPost;
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};

const HERE: &str = "/admin/nodes";

/// An action on a node: the end of its path, its label, and whether it stops something.
struct NodeAction {
    path: &'static str,
    label: &'static str,
    is_danger: bool,
}

const DRAIN: NodeAction = NodeAction { path: "drain", label: "Drain", is_danger: true };
const END_DRAIN: NodeAction = NodeAction { path: "end-drain", label: "End drain", is_danger: false };
const REMOVE: NodeAction = NodeAction { path: "remove", label: "Remove", is_danger: true };

struct NodeItem {
    id: String,
    is_own: bool,
    /// The state, and since when the node has it.
    state: &'static str,
    since: Markup,
    /// Since when an ended node was drained.
    drained: Option<Markup>,
    /// When the lease ends, while it holds.
    lease_until: Option<Markup>,
    address: String,
    version: String,
    databases: String,
    copies: String,
    size: String,
    behind: String,
    action: NodeAction,
}

struct StoreItem {
    segments: String,
    bytes: String,
    most_segments: String,
    doomed: String,
    due: String,
    doomed_since: Option<Markup>,
    collected: Option<Markup>,
}

struct ClusterItem {
    is_read_only: bool,
    nodes: Vec<NodeItem>,
    store: StoreItem,
}

#[derive(Template)]
#[template(path = "admin/nodes.html")]
struct NodesPage {
    shell: LayoutContext,
    sections: &'static [(&'static str, &'static str)],
    here: &'static str,
    cluster: Option<ClusterItem>,
}

impl NodeItem {
    fn new(node: Node, own: Option<&str>, now: Timestamp) -> Self {
        let (state, since) = node.state();
        let (state, action) = match state {
            NodeState::Live => ("Live", DRAIN),
            NodeState::Drained => ("Drained", END_DRAIN),
            NodeState::Ended => ("Ended", REMOVE),
        };
        let of_copies = |text: fn(NodeCopies) -> String| node.copies.map(text).unwrap_or_default();
        Self {
            is_own: own == Some(node.id.as_str()),
            state,
            since: format::when(since, now),
            drained: node.drained_at.filter(|_| !node.is_live).map(|at| format::when(at, now)),
            lease_until: node.is_live.then(|| format::when(node.lease_until, now)),
            databases: format::count(node.databases),
            copies: of_copies(|copies| format::count(copies.count)),
            size: of_copies(|copies| match copies.limit_bytes {
                0 => format::size(copies.bytes),
                limit => format!("{} of {}", format::size(copies.bytes), format::size(limit)),
            }),
            behind: of_copies(|copies| match copies.behind {
                0 => "0".to_owned(),
                behind => format!("{} ({})", format::count(behind), format::size(copies.behind_bytes)),
            }),
            action,
            id: node.id,
            address: node.address.unwrap_or_default(),
            version: node.version,
        }
    }
}

impl StoreItem {
    fn new(objects: StoredObjects, now: Timestamp) -> Self {
        Self {
            segments: format::count(objects.segments),
            bytes: format::size(objects.bytes),
            most_segments: format::count(objects.most_segments),
            doomed: format::count(objects.doomed),
            due: format::count(objects.due),
            doomed_since: objects.doomed_since.map(|at| format::when(at, now)),
            collected: objects.collected_at.map(|at| format::when(at, now)),
        }
    }
}

impl ClusterItem {
    fn new(view: ClusterView, now: Timestamp) -> Self {
        let own = view.own_node;
        Self {
            is_read_only: view.is_read_only,
            nodes: view.nodes.into_iter().map(|node| NodeItem::new(node, own.as_deref(), now)).collect(),
            store: StoreItem::new(view.objects, now),
        }
    }
}

/// `GET /admin/nodes`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let proof = administrator(&visit)?;
    let found = visit.read(move |hub| hub.nodes().view(&proof)).await?;
    let now = visit.state.services.now();
    let cluster = found.map(|view| ClusterItem::new(view, now));
    visit.page(|shell| NodesPage { shell, sections: &SECTIONS, here: HERE, cluster })
}

/// Does something to the node named in the form. `act` returns the sentence to show.
async fn change(
    posted: FormPost,
    action: &'static str,
    act: impl FnOnce(&Nodes<'_>, &ServerAdmin, &str) -> Result<String, NodeError> + Send + 'static,
) -> PageResult {
    let proof = administrator(&posted)?;
    posted.confirmed(HERE)?;
    let (by, id) = (proof.clone(), posted.form.line("id"));
    let on = id.clone();
    let said = posted.write_always(move |hub| act(&hub.nodes(), &by, &on)).await?;
    audit(&proof, action, &id);
    posted.redirect_saying(HERE, &said)
}

/// `POST /admin/nodes/drain`
pub(crate) async fn drain(posted: FormPost) -> PageResult {
    change(posted, "node drain", |nodes, proof, id| {
        let node = nodes.drain(proof, id)?;
        Ok(format!("{} is drained. Stop its server once it writes no database.", node.id))
    })
    .await
}

/// `POST /admin/nodes/end-drain`
pub(crate) async fn end_drain(posted: FormPost) -> PageResult {
    change(posted, "node drain --undo", |nodes, proof, id| {
        nodes.end_drain(proof, id).map(|node| format!("{} is no longer drained.", node.id))
    })
    .await
}

/// `POST /admin/nodes/remove`
pub(crate) async fn remove(posted: FormPost) -> PageResult {
    change(posted, "node remove", |nodes, proof, id| {
        Ok(match nodes.remove(proof, id)? {
            0 => format!("{id} is removed."),
            operations => {
                let counted = format::counted(operations, "operation runs", "operations run");
                format!("{id} is removed. {counted} again on other nodes.")
            }
        })
    })
    .await
}
