//! Turns events into lines. A line has the fields of its event and those of the spans around it, at the top level.

use std::error::Error;
use std::fmt;
use std::time::Instant;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use super::line::{Line, LineFormat, fields, machine_time, write_line};
use super::repeats::Repeats;
use super::writer::LogWriter;

/// Writes each event as a line.
pub(super) struct LogLayer {
    writer: LogWriter,
    format: LineFormat,
    repeats: Repeats,
}

impl LogLayer {
    pub(super) fn new(writer: LogWriter, format: LineFormat) -> Self {
        Self { writer, format, repeats: Repeats::default() }
    }
}

/// The fields of a span, each as it stands in a line. Kept in the extensions of the span.
#[derive(Default)]
struct SpanFields(Vec<(&'static str, Vec<u8>)>);

impl<S> Layer<S> for LogLayer
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = SpanFields::default();
        attributes.record(&mut SpanVisitor { format: self.format, fields: &mut fields });
        span.extensions_mut().insert(fields);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(fields) = span.extensions_mut().get_mut::<SpanFields>() {
            values.record(&mut SpanVisitor { format: self.format, fields });
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let (mut body, mut own) = (Vec::with_capacity(256), EventFields::default());
        let mut line = fields(self.format, &mut body);
        event.record(&mut EventVisitor { line: &mut line, fields: &mut own });
        let metadata = event.metadata();
        // Libraries that log with the crate `log` arrive with the target `log`, and with their own target in a field.
        let target = own.target.as_deref().unwrap_or(metadata.target());
        for span in context.event_scope(event).into_iter().flatten() {
            let extensions = span.extensions();
            for (name, field) in extensions.get::<SpanFields>().into_iter().flat_map(|fields| &fields.0) {
                if !own.names.contains(name) {
                    own.names.push(name);
                    body.extend_from_slice(field);
                }
            }
        }
        if *metadata.level() <= Level::WARN {
            let parts = [metadata.level().as_str().as_bytes(), target.as_bytes(), own.message.as_bytes(), &body];
            match self.repeats.admit(&parts, Instant::now()) {
                None => return,
                Some(0) => {}
                Some(left_out) => fields(self.format, &mut body).plain("left_out", format_args!("{left_out}")),
            }
        }
        let fill = |line: &mut Line<'_>| {
            line.message(format_args!("{}", own.message));
            line.fields(&body);
        };
        write_line(self.format, (machine_time(), *metadata.level(), target), fill, |line| self.writer.push(line));
    }
}

/// The parts of an event that are no fields of its line.
#[derive(Default)]
struct EventFields {
    message: String,
    target: Option<String>,
    /// Names of the fields. Those of a span do not replace them.
    names: Vec<&'static str>,
}

struct EventVisitor<'a, 'b> {
    line: &'a mut Line<'b>,
    fields: &'a mut EventFields,
}

impl EventVisitor<'_, '_> {
    fn add(&mut self, field: &Field, value: FieldValue<'_>) {
        match field.name() {
            "message" => self.fields.message = value.to_text(),
            "log.target" => self.fields.target = Some(value.to_text()),
            name if name.starts_with("log.") => {}
            name => {
                self.fields.names.push(name);
                value.write(name, self.line);
            }
        }
    }
}

struct SpanVisitor<'a> {
    format: LineFormat,
    fields: &'a mut SpanFields,
}

impl SpanVisitor<'_> {
    fn add(&mut self, field: &Field, value: FieldValue<'_>) {
        let mut bytes = Vec::with_capacity(64);
        value.write(field.name(), &mut fields(self.format, &mut bytes));
        self.fields.0.retain(|(name, _)| *name != field.name());
        self.fields.0.push((field.name(), bytes));
    }
}

/// The value of a field.
enum FieldValue<'a> {
    Text(fmt::Arguments<'a>),
    Plain(fmt::Arguments<'a>),
    Float(f64),
}

impl FieldValue<'_> {
    fn write(&self, name: &str, line: &mut Line<'_>) {
        match self {
            Self::Text(text) => line.text(name, *text),
            Self::Plain(value) => line.plain(name, *value),
            Self::Float(value) => line.float(name, *value),
        }
    }

    fn to_text(&self) -> String {
        match self {
            Self::Text(text) | Self::Plain(text) => text.to_string(),
            Self::Float(value) => value.to_string(),
        }
    }
}

/// An error with its causes, on one line.
struct Chain<'a>(&'a (dyn Error + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut next = self.0.source();
        while let Some(error) = next {
            write!(f, ": {error}")?;
            next = error.source();
        }
        Ok(())
    }
}

macro_rules! visit {
    ($visitor:ty) => {
        impl Visit for $visitor {
            fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
                self.add(field, FieldValue::Text(format_args!("{value:?}")));
            }

            fn record_str(&mut self, field: &Field, value: &str) {
                self.add(field, FieldValue::Text(format_args!("{value}")));
            }

            fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
                self.add(field, FieldValue::Text(format_args!("{}", Chain(value))));
            }

            fn record_u64(&mut self, field: &Field, value: u64) {
                self.add(field, FieldValue::Plain(format_args!("{value}")));
            }

            fn record_i64(&mut self, field: &Field, value: i64) {
                self.add(field, FieldValue::Plain(format_args!("{value}")));
            }

            fn record_u128(&mut self, field: &Field, value: u128) {
                self.add(field, FieldValue::Plain(format_args!("{value}")));
            }

            fn record_i128(&mut self, field: &Field, value: i128) {
                self.add(field, FieldValue::Plain(format_args!("{value}")));
            }

            fn record_bool(&mut self, field: &Field, value: bool) {
                self.add(field, FieldValue::Plain(format_args!("{value}")));
            }

            fn record_f64(&mut self, field: &Field, value: f64) {
                self.add(field, FieldValue::Float(value));
            }
        }
    };
}

visit!(EventVisitor<'_, '_>);
visit!(SpanVisitor<'_>);

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;
    use std::time::Duration;

    use parking_lot::Mutex;
    use serde_json::{Value, json};
    use tracing_subscriber::Registry;
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::{LineFormat, LogLayer, LogWriter};

    #[derive(Clone, Default)]
    struct Output(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Output {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Returns the lines that `work` logs, without their times.
    fn lines(work: impl FnOnce()) -> Vec<Value> {
        let output = Output::default();
        let writer = LogWriter::start(output.clone()).unwrap();
        let layer = LogLayer::new(writer.clone(), LineFormat::Json);
        tracing::subscriber::with_default(Registry::default().with(layer), work);
        assert!(writer.flush(Duration::from_secs(60)));
        let text = String::from_utf8(output.0.lock().clone()).unwrap();
        let parse = |line| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            assert!(line.as_object_mut().unwrap().remove("timestamp").is_some());
            assert!(line.as_object_mut().unwrap().remove("target").is_some());
            line
        };
        text.lines().map(parse).collect()
    }

    #[test]
    fn fields_of_events_and_spans_stand_at_the_top_level_once() {
        let logged = lines(|| {
            let outer = tracing::error_span!("outer", a = 1, b = "outer", c = tracing::field::Empty);
            let _outer = outer.enter();
            outer.record("c", "late");
            let _inner = tracing::error_span!("inner", b = "inner").entered();
            tracing::info!(a = true, d = ?Some(0.5), "a message");
            tracing::warn!(b = 2.5);
        });
        assert_eq!(
            logged,
            [
                json!({"level": "INFO", "message": "a message", "a": true, "b": "inner", "c": "late", "d": "Some(0.5)"}),
                json!({"level": "WARN", "message": "", "a": 1, "b": 2.5, "c": "late"}),
            ]
        );
    }

    #[test]
    fn an_error_is_logged_with_its_causes() {
        let error = anyhow::Error::from(io::Error::other("the disk")).context("cannot write").context("cannot save");
        let error: &(dyn std::error::Error + 'static) = error.as_ref();
        let logged = lines(|| tracing::error!(error, "failed"));
        assert_eq!(
            logged,
            [json!({"level": "ERROR", "message": "failed", "error": "cannot save: cannot write: the disk"})]
        );
    }
}
