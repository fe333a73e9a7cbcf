//! `UPDATE` statements that stay prepared.

use diesel::associations::HasTable;
use diesel::backend::Backend;
use diesel::prelude::*;
use diesel::query_builder::{AsChangeset, AstPass, IntoUpdateTarget, QueryFragment, QueryId};

/// An update with its target rows, before its assignments.
pub(crate) struct UpdateTarget<Table: QuerySource, Chosen> {
    table: Table::FromClause,
    chosen: Chosen,
}

/// Builds an update like [`diesel::update`], whose statements are prepared each time because their assignments may
/// differ.
///
/// Each call of this function has constant assignments. There are as many texts as calls, each stays prepared, and
/// preparing is half the cost of a small update. Not suitable for rows selected by a list
/// ([`eq_any`](diesel::ExpressionMethods::eq_any)), whose length changes the text.
pub(crate) fn update<T: IntoUpdateTarget>(chosen: T) -> UpdateTarget<<T as HasTable>::Table, T::WhereClause>
where
    <T as HasTable>::Table: QuerySource,
{
    let target = chosen.into_update_target();
    UpdateTarget { table: target.table.from_clause(), chosen: target.where_clause }
}

impl<Table: QuerySource, Chosen> UpdateTarget<Table, Chosen> {
    pub(crate) fn set<V: AsChangeset<Target = Table>>(
        self,
        values: V,
    ) -> Update<Table::FromClause, V::Changeset, Chosen> {
        Update { table: self.table, values: values.as_changeset(), chosen: self.chosen }
    }
}

/// A complete update.
pub(crate) struct Update<Table, Values, Chosen> {
    table: Table,
    values: Values,
    chosen: Chosen,
}

impl<DB, Table, Values, Chosen> QueryFragment<DB> for Update<Table, Values, Chosen>
where
    DB: Backend,
    Table: QueryFragment<DB>,
    Values: QueryFragment<DB>,
    Chosen: QueryFragment<DB>,
{
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, DB>) -> QueryResult<()> {
        out.push_sql("UPDATE ");
        self.table.walk_ast(out.reborrow())?;
        out.push_sql(" SET ");
        self.values.walk_ast(out.reborrow())?;
        self.chosen.walk_ast(out)
    }
}

/// The text identifies the statement.
impl<Table, Values, Chosen> QueryId for Update<Table, Values, Chosen> {
    type QueryId = ();
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl<Conn, Table, Values, Chosen> RunQueryDsl<Conn> for Update<Table, Values, Chosen> {}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use diesel::connection::{InstrumentationEvent, SimpleConnection as _};
    use diesel::prelude::*;
    use diesel::sql_types::{BigInt, Nullable};

    use super::update;
    use crate::connection::AnyConnection;
    use crate::schema::hooks;
    use crate::static_sql::fixed;

    #[test]
    fn an_update_is_prepared_once() {
        let mut conn = AnyConnection::Sqlite(SqliteConnection::establish(":memory:").unwrap());
        conn.batch_execute("CREATE TABLE hooks (id TEXT PRIMARY KEY, url TEXT NOT NULL, due_at INTEGER)").unwrap();
        conn.batch_execute("INSERT INTO hooks (id, url) VALUES ('1', ''), ('2', '')").unwrap();
        let kept = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&kept);
        let AnyConnection::Sqlite(inner) = &mut conn else { unreachable!("it was opened as SQLite") };
        inner.set_instrumentation(move |event: InstrumentationEvent<'_>| {
            if matches!(event, InstrumentationEvent::CacheQuery { .. }) {
                counted.fetch_add(1, Ordering::SeqCst);
            }
        });
        for url in ["a", "b", "c"] {
            let due = hooks::due_at.eq(fixed::<Nullable<BigInt>>("7 + 1"));
            assert_eq!(update(hooks::table.find("1")).set((hooks::url.eq(url), due)).execute(&mut conn), Ok(1));
        }
        assert_eq!(kept.load(Ordering::SeqCst), 1);
        // Shows why this module exists. If diesel learns to keep these statements prepared, the module is no longer
        // needed.
        diesel::update(hooks::table.find("2")).set(hooks::url.eq("d")).execute(&mut conn).unwrap();
        assert_eq!(kept.load(Ordering::SeqCst), 1);
        let rows: Vec<(String, String, Option<i64>)> =
            hooks::table.select((hooks::id, hooks::url, hooks::due_at)).order(hooks::id).load(&mut conn).unwrap();
        assert_eq!(rows, [("1".to_owned(), "c".to_owned(), Some(8)), ("2".to_owned(), "d".to_owned(), None)]);
    }
}
