//! Sinks between the rows of the engine and the sink of the caller.

use branchyard_domain::ports::{Column, RowSink, ValueRef};
use std::ops::ControlFlow;

/// A sink that discards all rows.
pub(super) struct DiscardRows;

impl RowSink for DiscardRows {
    fn columns(&mut self, _: &[Column]) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn row(&mut self, _: &[ValueRef<'_>]) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// A sink that passes on the list of databases without the names of files.
pub(super) struct WithoutFiles<'a>(pub(super) &'a mut dyn RowSink);

impl RowSink for WithoutFiles<'_> {
    fn columns(&mut self, columns: &[Column]) -> ControlFlow<()> {
        self.0.columns(columns)
    }

    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        match row {
            [number, name, _] => self.0.row(&[*number, *name, ValueRef::Text(b"")]),
            _ => ControlFlow::Break(()),
        }
    }
}
