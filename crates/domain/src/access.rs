//! Callers, and proofs of their permissions.
//!
//! A use case takes a [`DatabaseAccess`] of the level it needs. [`crate::usecases::Databases::access`] is the only
//! way to obtain one, and the only place that decides between "not found" and "not allowed". The same holds for
//! [`OrganizationAccess`].

mod organization;
pub(crate) mod ownership;
pub(crate) mod visibility;

use std::marker::PhantomData;
use std::sync::Arc;

use crate::entities::{Database, Role, User};

pub use organization::{Belong, OrganizationAccess, Own, Standing, Visit};

/// The origin of a request.
#[derive(Debug, Clone)]
pub enum Caller {
    /// An unauthenticated client.
    Anonymous,
    /// An authenticated user.
    User(Arc<User>),
}

impl Caller {
    /// Returns the user, or `None` for an anonymous caller.
    pub fn user(&self) -> Option<&Arc<User>> {
        match self {
            Self::Anonymous => None,
            Self::User(user) => Some(user),
        }
    }
}

/// Proof that a caller administers the server. [`crate::usecases::Administration`] creates it.
#[derive(Debug, Clone)]
pub struct ServerAdmin(Option<Arc<User>>);

impl ServerAdmin {
    pub(crate) fn new(user: Option<Arc<User>>) -> Self {
        Self(user)
    }

    /// Returns the administrator, or `None` for a command on the machine of the server.
    pub fn user(&self) -> Option<&Arc<User>> {
        self.0.as_ref()
    }
}

/// A level of permission on a database.
pub trait Level: Send + Sync + 'static {
    /// The minimum role on the database.
    const NEEDS: Role;
    /// Name of that role.
    const NAME: &'static str;
    /// Whether anonymous callers hold this level only where they may run SQL.
    const IS_QUERY: bool;
    /// The holder of the access: [`Caller`] if anonymous access is possible, else a user.
    type Who: Clone + Send + Sync;

    /// Returns the holder, or `None` if the level requires a user and the caller is anonymous.
    fn who(caller: &Caller) -> Option<Self::Who>;
}

macro_rules! levels {
    ($($(#[$doc:meta])* $name:ident: $role:ident, $text:literal, $is_query:literal, $who:ty, $pick:expr;)+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub enum $name {}

        impl Level for $name {
            const NEEDS: Role = Role::$role;
            const NAME: &'static str = $text;
            const IS_QUERY: bool = $is_query;
            type Who = $who;

            fn who(caller: &Caller) -> Option<$who> {
                let pick: fn(&Caller) -> Option<$who> = $pick;
                pick(caller)
            }
        }
    )+};
}

levels! {
    /// See and browse. Anonymous callers may hold this level.
    Read: Read, "read", false, Caller, |caller| Some(caller.clone());
    /// Run SQL that reads. Anonymous callers may hold this level where server and database allow it.
    Query: Read, "read", true, Caller, |caller| Some(caller.clone());
    /// Open pull requests, comment and fork. Requires the read role and a user.
    Participate: Read, "read", false, Arc<User>, |caller| caller.user().cloned();
    /// Change data and refs.
    Write: Write, "write", false, Arc<User>, |caller| caller.user().cloned();
    /// Change settings, collaborators and hooks, and delete the database.
    Admin: Admin, "admin", false, Arc<User>, |caller| caller.user().cloned();
}

/// A level that includes running SQL.
pub trait RunsSql: Level {}

impl RunsSql for Query {}
impl RunsSql for Participate {}
impl RunsSql for Write {}
impl RunsSql for Admin {}

/// Proof that a caller has the permissions of level `L` on a database.
#[derive(Debug)]
pub struct DatabaseAccess<L: Level> {
    database: Database,
    who: L::Who,
    viewer: Caller,
    role: Role,
    level: PhantomData<L>,
}

impl<L: Level> Clone for DatabaseAccess<L> {
    fn clone(&self) -> Self {
        Self {
            database: self.database.clone(),
            who: self.who.clone(),
            viewer: self.viewer.clone(),
            role: self.role,
            level: PhantomData,
        }
    }
}

impl<L: Level> DatabaseAccess<L> {
    /// Returns `None` if the role is too low, or the level requires a user and the caller is anonymous.
    pub(crate) fn grant(database: Database, viewer: Caller, role: Role) -> Option<Self> {
        if role < L::NEEDS {
            return None;
        }
        let who = L::who(&viewer)?;
        Some(Self { database, who, viewer, role, level: PhantomData })
    }

    /// Returns the database as it was when access was decided, except that its size and the time of its last write may be
    /// older.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Returns the holder of the access.
    pub fn who(&self) -> &L::Who {
        &self.who
    }

    /// Returns the holder of the access as a caller.
    pub fn caller(&self) -> &Caller {
        &self.viewer
    }

    /// Returns the highest role of the caller on the database.
    pub fn role(&self) -> Role {
        self.role
    }
}
