//! Panics as lines of the log.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::{self, PanicHookInfo};

use super::flush;

/// Logs panics instead of printing them, with the fields of the span in which they happen. Waits until the line is written,
/// because the process may be about to end.
pub(super) fn log() {
    panic::set_hook(Box::new(|info| {
        let thread = std::thread::current();
        let (thread, panic) = (thread.name().unwrap_or("unnamed"), message(info));
        let location = info.location().map(tracing::field::display);
        let backtrace = Backtrace::capture();
        let backtrace = (backtrace.status() == BacktraceStatus::Captured).then(|| tracing::field::display(&backtrace));
        tracing::error!(thread, panic, location, backtrace, "a thread panicked");
        flush();
    }));
}

fn message<'a>(info: &'a PanicHookInfo<'_>) -> &'a str {
    let payload = info.payload();
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("a value that is no text")
}
