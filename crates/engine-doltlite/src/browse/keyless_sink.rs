//! The sink that passes on the rows of a page and records the positions of the first and last row.

use branchyard_domain::ports::{Column, RowSink, Selected, Selection, ValueRef};
use std::ops::ControlFlow;

use super::order::ScanOrder;

/// Passes on rows without the values that were selected only for their position.
pub(super) struct KeylessSink<'a> {
    sink: &'a mut dyn RowSink,
    place: Option<Vec<usize>>,
    before: usize,
    skip: u64,
    left: u64,
    is_described: bool,
    is_stopped: bool,
    pub(super) selected: Selected,
}

impl<'a> KeylessSink<'a> {
    pub(super) fn new(sink: &'a mut dyn RowSink, order: &ScanOrder, wanted: &Selection<'_>) -> Self {
        Self {
            sink,
            place: order.place(),
            before: order.selected_values(),
            skip: wanted.skip,
            left: wanted.limit,
            is_described: false,
            is_stopped: false,
            selected: Selected::default(),
        }
    }

    /// Returns the number of rows to read: the rows to skip, the rows to return, and one that shows whether more
    /// follow.
    pub(super) fn looked_at(&self) -> u64 {
        self.skip.saturating_add(self.left).saturating_add(1).min(i64::MAX.unsigned_abs())
    }

    /// Returns `true` if no further row is needed.
    pub(super) fn is_full(&self) -> bool {
        self.is_stopped || self.selected.more
    }
}

impl RowSink for KeylessSink<'_> {
    fn columns(&mut self, columns: &[Column]) -> ControlFlow<()> {
        if std::mem::replace(&mut self.is_described, true) {
            return ControlFlow::Continue(());
        }
        let flow = self.sink.columns(columns.get(self.before..).unwrap_or_default());
        self.is_stopped = flow.is_break();
        flow
    }

    fn row(&mut self, row: &[ValueRef<'_>]) -> ControlFlow<()> {
        if self.skip > 0 {
            self.skip -= 1;
            return ControlFlow::Continue(());
        }
        if self.left == 0 {
            self.selected.more = true;
            return ControlFlow::Break(());
        }
        self.left -= 1;
        if let Some(place) = &self.place {
            let place: Vec<_> = place.iter().filter_map(|at| row.get(*at)).map(|value| value.to_cell()).collect();
            self.selected.first.get_or_insert_with(|| place.clone());
            self.selected.last = Some(place);
        }
        let flow = self.sink.row(row.get(self.before..).unwrap_or_default());
        self.is_stopped = flow.is_break();
        flow
    }
}
