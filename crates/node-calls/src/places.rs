//! Where the file of a database is changed.

use branchyard_domain::ports::EngineError;
use branchyard_domain::values::DatabaseId;

/// A node that leads a database, or is to lead it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaderNode {
    /// Its id.
    pub id: String,
    /// The origin at which other nodes reach it (`cluster.advertise`). `None` if it has none.
    pub address: Option<String>,
}

/// The place at which the file of a database is changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WritePlace {
    /// This node, which leads the database.
    Here,
    /// Another node.
    At(LeaderNode),
}

/// Finds the nodes that lead databases.
pub trait WritePlaces: Send + Sync {
    /// Returns the place at which the file of a database is changed. If no node leads the database, this one takes the lead, unless
    /// it is drained. Blocks.
    ///
    /// # Errors
    /// [`EngineError::Unavailable`] if that cannot be found out just now.
    fn place(&self, database: DatabaseId) -> Result<WritePlace, EngineError>;
}
