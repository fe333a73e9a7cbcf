//! The table-valued function `generate_series(start, stop, step)` of sessions, which the engine does not contain.
//!
//! It behaves as SQLite's own: `stop` is 4294967295 and `step` 1 if they are left out; a step of 0 counts as 1; a negative
//! step counts down; a NULL argument yields no rows. The crate `rusqlite` has an implementation too, but its arithmetic
//! overflows at the ends of the 64-bit range.
#![expect(
    unsafe_code,
    reason = "the traits of virtual tables are unsafe to implement: the layout of the types matters"
)]

use std::borrow::Cow;
use std::ffi::{CStr, c_int};
use std::marker::PhantomData;

use rusqlite::types::ValueRef;
use rusqlite::vtab::{
    Context, Filters, IndexConstraintOp, IndexInfo, Module, VTab, VTabConfig, VTabConnection, VTabCursor,
};
use rusqlite::{Connection, Error, Result, ffi};

/// The value of `stop` if it is left out.
const LAST: i64 = 0xffff_ffff;
/// Number of the first hidden column. The three of them are the arguments, in order.
const ARGUMENTS: c_int = 1;

/// Adds the function to a connection.
pub(super) fn add(connection: &Connection) -> Result<()> {
    const MODULE: Module<SeriesTable> = Module::eponymous_only_module();
    connection.create_module(c"generate_series", &MODULE, None)
}

#[repr(C)]
struct SeriesTable {
    /// Must be first.
    base: ffi::sqlite3_vtab,
}

// SAFETY: the base is the first field, and the layout is that of C.
unsafe impl<'vtab> VTab<'vtab> for SeriesTable {
    type Aux = ();
    type Cursor = SeriesCursor<'vtab>;

    fn connect(
        connection: &mut VTabConnection,
        _: Option<&()>,
        _: &[u8],
        _: &[u8],
        _: &[u8],
        _: &[&[u8]],
    ) -> Result<(Cow<'static, CStr>, Self)> {
        connection.config(VTabConfig::Innocuous)?;
        let columns = c"CREATE TABLE x(value, start hidden, stop hidden, step hidden)";
        Ok((Cow::Borrowed(columns), Self { base: ffi::sqlite3_vtab::default() }))
    }

    /// Asks for the arguments that are known, in order. Bit `n` of the plan is set if argument `n` is among them.
    fn best_index(&self, info: &mut IndexInfo) -> Result<bool> {
        let mut found: [Option<usize>; 3] = [None; 3];
        let mut is_unusable = false;
        for (at, constraint) in info.constraints().enumerate() {
            let argument = usize::try_from(constraint.column() - ARGUMENTS).ok();
            let Some(slot) = argument.and_then(|argument| found.get_mut(argument)) else { continue };
            if constraint.operator() != IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_EQ {
                continue;
            }
            if constraint.is_usable() {
                *slot = Some(at);
            } else {
                is_unusable = true;
            }
        }
        if is_unusable {
            return Ok(false);
        }
        if found[0].is_none() {
            return Err(Error::ModuleError("the first argument of generate_series() is missing".to_owned()));
        }
        let mut plan = 0;
        let mut place = 0;
        for (argument, at) in found.into_iter().enumerate() {
            let Some(at) = at else { continue };
            plan |= 1 << argument;
            place += 1;
            let mut usage = info.constraint_usage(at);
            usage.set_argv_index(place);
            usage.set_omit(true);
        }
        let is_bounded = found[1].is_some();
        info.set_estimated_cost(if is_bounded { 1.0 } else { 2_147_483_647.0 });
        info.set_estimated_rows(if is_bounded { 1_000 } else { 2_147_483_647 });
        info.set_idx_num(plan);
        Ok(true)
    }

    fn open(&'vtab mut self) -> Result<SeriesCursor<'vtab>> {
        Ok(SeriesCursor {
            base: ffi::sqlite3_vtab_cursor::default(),
            start: 0,
            stop: 0,
            step: 1,
            at: 0,
            count: 0,
            table: PhantomData,
        })
    }
}

#[repr(C)]
struct SeriesCursor<'vtab> {
    /// Must be first.
    base: ffi::sqlite3_vtab_cursor,
    start: i64,
    stop: i64,
    step: i64,
    /// Number of rows before the present one.
    at: u128,
    count: u128,
    table: PhantomData<&'vtab SeriesTable>,
}

/// Returns the number of members of a series.
fn count(start: i64, stop: i64, step: i64) -> u128 {
    let (start, stop, step) = (i128::from(start), i128::from(stop), i128::from(step));
    let span = if step > 0 { stop - start } else { start - stop };
    u128::try_from(span).map_or(0, |span| span / step.unsigned_abs() + 1)
}

/// Returns an argument as the engine converts it to an integer.
fn integer(value: ValueRef<'_>) -> i64 {
    match value {
        ValueRef::Null => 0,
        ValueRef::Integer(number) => number,
        // Saturates.
        ValueRef::Real(number) => number as i64,
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
            let text = String::from_utf8_lossy(bytes);
            let text = text.trim();
            text.parse().unwrap_or_else(|_| text.parse::<f64>().map_or(0, |number| number as i64))
        }
    }
}

impl SeriesCursor<'_> {
    fn value(&self) -> i64 {
        let offset = i128::try_from(self.at).unwrap_or(0).saturating_mul(i128::from(self.step));
        // A member lies between the ends of the series.
        i64::try_from(i128::from(self.start).saturating_add(offset)).unwrap_or(self.stop)
    }
}

// SAFETY: the base is the first field, and the layout is that of C.
unsafe impl VTabCursor for SeriesCursor<'_> {
    fn filter(&mut self, plan: c_int, _: Option<&str>, arguments: &Filters<'_>) -> Result<()> {
        let mut given = arguments.iter();
        let has_null = arguments.iter().any(|argument| matches!(argument, ValueRef::Null));
        let mut next = |argument: c_int, default: i64| match plan & (1 << argument) {
            0 => default,
            _ => given.next().map_or(default, integer),
        };
        self.start = next(0, 0);
        self.stop = next(1, LAST);
        self.step = match next(2, 1) {
            0 => 1,
            step => step,
        };
        self.at = 0;
        self.count = if has_null { 0 } else { count(self.start, self.stop, self.step) };
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        self.at += 1;
        Ok(())
    }

    fn eof(&self) -> bool {
        self.at >= self.count
    }

    fn column(&self, context: &mut Context, column: c_int) -> Result<()> {
        context.set_result(&match column {
            1 => self.start,
            2 => self.stop,
            3 => self.step,
            _ => self.value(),
        })
    }

    fn rowid(&self) -> Result<i64> {
        Ok(i64::try_from(self.at).unwrap_or(i64::MAX).saturating_add(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(sql: &str) -> Vec<i64> {
        let connection = Connection::open_in_memory().unwrap();
        add(&connection).unwrap();
        let mut statement = connection.prepare(sql).unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    #[test]
    fn a_series_has_the_members_that_sqlite_gives_it() {
        for (arguments, expected) in [
            ("1, 5", vec![1, 2, 3, 4, 5]),
            ("0, 20, 5", vec![0, 5, 10, 15, 20]),
            ("0, 19, 5", vec![0, 5, 10, 15]),
            ("10, 1, -3", vec![10, 7, 4, 1]),
            ("1, 10, -1", vec![]),
            ("2, 1", vec![]),
            ("3, 3, 0", vec![3]),
            ("'2', 3.9", vec![2, 3]),
            ("null, 3", vec![]),
            ("1, null", vec![]),
            ("1, 3, null", vec![]),
            ("9223372036854775806, 9223372036854775807", vec![i64::MAX - 1, i64::MAX]),
            ("-9223372036854775808, 9223372036854775807, 9223372036854775807", vec![i64::MIN, -1, i64::MAX - 1]),
            ("9223372036854775807, -9223372036854775808, -9223372036854775807 - 1", vec![i64::MAX, -1]),
        ] {
            assert_eq!(values(&format!("select value from generate_series({arguments})")), expected, "{arguments}");
        }
        assert_eq!(values("select value from generate_series(7) limit 2"), [7, 8]);
        assert_eq!(values("select max(stop) from generate_series(4294967294)"), [LAST]);
        assert_eq!(values("select value from generate_series where start = 1 and stop = 3"), [1, 2, 3]);
        assert_eq!(values("select value from generate_series(1, 4) where value % 2 = 0 order by value desc"), [4, 2]);
        let joined = "select b.value from generate_series(1, 2) a join generate_series(a.value, 2) b order by 1";
        assert_eq!(values(joined), [1, 2, 2]);
        assert_eq!(values("select count(*) from generate_series(1, 100000)"), [100_000]);
    }

    #[test]
    fn a_series_needs_its_first_argument() {
        let connection = Connection::open_in_memory().unwrap();
        add(&connection).unwrap();
        for sql in ["select * from generate_series", "create virtual table x using generate_series"] {
            assert!(connection.prepare(sql).and_then(|mut statement| statement.query([]).map(drop)).is_err(), "{sql}");
        }
    }
}
