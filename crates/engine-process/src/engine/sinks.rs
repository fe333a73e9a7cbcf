//! Sinks that stand between a worker and the caller of the engine.

use std::ops::ControlFlow;

use branchyard_domain::ports::{Column, RowSink, ValueRef};

/// Forwards the columns of a result to `sink` once, although the call may begin again before its first row.
pub(super) struct OnceDescribed<'a> {
    pub(super) sink: &'a mut dyn RowSink,
    pub(super) is_described: bool,
}

impl RowSink for OnceDescribed<'_> {
    fn columns(&mut self, columns: &[Column]) -> ControlFlow<()> {
        if std::mem::replace(&mut self.is_described, true) {
            ControlFlow::Continue(())
        } else {
            self.sink.columns(columns)
        }
    }

    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        self.sink.row(row)
    }
}

/// Counts the rows that `sink` takes.
pub(super) struct CountedRows<'a> {
    pub(super) sink: &'a mut dyn RowSink,
    pub(super) count: u64,
    pub(super) is_stopped: bool,
}

impl RowSink for CountedRows<'_> {
    fn columns(&mut self, columns: &[Column]) -> ControlFlow<()> {
        let flow = self.sink.columns(columns);
        self.is_stopped = flow.is_break();
        flow
    }

    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        self.count += 1;
        let flow = self.sink.row(row);
        self.is_stopped = flow.is_break();
        flow
    }
}

/// Takes rows that no one needs.
pub(crate) struct NoRows;

impl RowSink for NoRows {
    fn columns(&mut self, _: &[Column]) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn row(&mut self, _: &[ValueRef<'_>]) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}
