//! The log of a thread, as text.

use std::fmt::{Debug, Write as _};
use std::sync::Arc;

use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

struct Lines(Arc<Mutex<String>>);

struct Line<'a>(&'a mut String);

impl Visit for Line<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{field}={value:?} ").unwrap();
    }
}

impl Subscriber for Lines {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut lines = self.0.lock();
        event.record(&mut Line(&mut lines));
        lines.push('\n');
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Returns the result of `work`, and what this thread wrote to the log in the meantime.
pub(super) fn logged<T>(work: impl FnOnce() -> T) -> (T, String) {
    let lines = Arc::new(Mutex::new(String::new()));
    let result = tracing::subscriber::with_default(Lines(Arc::clone(&lines)), work);
    let text = lines.lock().clone();
    (result, text)
}
