//! Who is asking, and the proof that they may.
//!
//! A use case takes a [`DatabaseAccess`] of the level it needs. There is one way to get one
//! ([`crate::usecases::Databases::access`]), and it alone decides between "not there" and "not allowed". The same holds for
//! organizations and [`OrganizationAccess`].

mod organization;

use std::marker::PhantomData;
use std::sync::Arc;

use crate::entities::{Database, Role, User};

pub use organization::{Belong, OrganizationAccess, Own, Standing, Visit};

/// Who is asking.
#[derive(Debug, Clone)]
pub enum Caller {
    /// Nobody in particular.
    Anonymous,
    /// A person whose credential was checked.
    User(Arc<User>),
}

impl Caller {
    /// The person, when there is one.
    pub fn user(&self) -> Option<&Arc<User>> {
        match self {
            Self::Anonymous => None,
            Self::User(user) => Some(user),
        }
    }
}

/// What an access allows.
pub trait Level: Send + Sync + 'static {
    /// The least role on the database.
    const NEEDS: Role;
    /// How that role is called.
    const NAME: &'static str;
    /// Who holds it: possibly nobody in particular, or always a person.
    type Who: Clone + Send + Sync;

    /// The holder, if this caller can be one.
    fn who(caller: &Caller) -> Option<Self::Who>;
}

macro_rules! levels {
    ($($(#[$doc:meta])* $name:ident: $role:ident, $text:literal, $who:ty, $pick:expr;)+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub enum $name {}

        impl Level for $name {
            const NEEDS: Role = Role::$role;
            const NAME: &'static str = $text;
            type Who = $who;

            fn who(caller: &Caller) -> Option<$who> {
                let pick: fn(&Caller) -> Option<$who> = $pick;
                pick(caller)
            }
        }
    )+};
}

levels! {
    /// See and query; nobody in particular may hold it.
    Read: Read, "read", Caller, |caller| Some(caller.clone());
    /// Read, by a person: open pulls, comment, fork.
    Participate: Read, "read", Arc<User>, |caller| caller.user().cloned();
    /// Change data and refs.
    Write: Write, "write", Arc<User>, |caller| caller.user().cloned();
    /// Change settings, collaborators, hooks; delete.
    Admin: Admin, "admin", Arc<User>, |caller| caller.user().cloned();
}

/// Proof that a caller may do what `L` allows on a database.
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
    /// `None` when the role is too low or the level needs a person.
    pub(crate) fn grant(database: Database, viewer: Caller, role: Role) -> Option<Self> {
        if role < L::NEEDS {
            return None;
        }
        let who = L::who(&viewer)?;
        Some(Self { database, who, viewer, role, level: PhantomData })
    }

    /// The database, as it was when access was decided.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Who holds the access.
    pub fn who(&self) -> &L::Who {
        &self.who
    }

    /// Who holds the access, as a caller.
    pub fn caller(&self) -> &Caller {
        &self.viewer
    }

    /// The highest role of the caller on the database.
    pub fn role(&self) -> Role {
        self.role
    }
}
