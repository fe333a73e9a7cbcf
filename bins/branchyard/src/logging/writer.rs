//! The thread that writes the log, and the bounded buffer in front of it.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// Maximum number of bytes that wait to be written. Lines beyond it are dropped.
pub(super) const BUFFER_BYTES: usize = 1 << 20;
/// How long the thread gathers lines before it writes them. Waking it for each line would cost more than the line.
const GATHER: Duration = Duration::from_millis(5);
/// Pause before a write to an output that takes nothing for the moment.
const RETRY: Duration = Duration::from_millis(5);

/// Passes lines to the thread that writes them. Cheap to clone.
#[derive(Clone)]
pub(super) struct LogWriter(Arc<Shared>);

struct Shared {
    buffer: Mutex<Buffer>,
    /// Signals the first line of an empty buffer, or a flush.
    filled: Condvar,
    /// Signals that lines were written or lost.
    drained: Condvar,
}

#[derive(Default)]
struct Buffer {
    /// Whole lines that wait to be written.
    bytes: Vec<u8>,
    lines: u64,
    /// Number of lines that were accepted, and of those that the thread is done with.
    accepted: u64,
    done: u64,
    dropped: u64,
    /// Whether a caller waits for [`LogWriter::flush`].
    is_urgent: bool,
}

impl LogWriter {
    /// Creates a writer to standard error. Nothing else in this process waits for it: it has a file descriptor of its own.
    pub(super) fn to_stderr() -> io::Result<Self> {
        Self::start(File::from(io::stderr().as_fd().try_clone_to_owned()?))
    }

    /// Starts the thread. It runs until the process ends.
    pub(super) fn start(out: impl Write + Send + 'static) -> io::Result<Self> {
        let shared = Arc::new(Shared { buffer: Mutex::default(), filled: Condvar::new(), drained: Condvar::new() });
        let for_thread = Arc::clone(&shared);
        thread::Builder::new().name("log".to_owned()).spawn(move || for_thread.write_all(out))?;
        Ok(Self(shared))
    }

    /// Queues a line, which ends with a newline. Never waits for the output: a line for which there is no room is dropped and
    /// counted.
    pub(super) fn push(&self, line: &[u8]) {
        let mut buffer = self.0.buffer.lock();
        if buffer.bytes.len() + line.len() > BUFFER_BYTES {
            buffer.dropped += 1;
            return;
        }
        let was_empty = buffer.bytes.is_empty();
        buffer.bytes.extend_from_slice(line);
        buffer.lines += 1;
        buffer.accepted += 1;
        drop(buffer);
        if was_empty {
            self.0.filled.notify_one();
        }
    }

    /// Waits until the lines queued so far are written or lost. Returns `false` if that takes longer than `at_most`.
    pub(super) fn flush(&self, at_most: Duration) -> bool {
        let until = Instant::now() + at_most;
        let mut buffer = self.0.buffer.lock();
        let wanted = buffer.accepted;
        while buffer.done < wanted {
            buffer.is_urgent = true;
            self.0.filled.notify_one();
            if self.0.drained.wait_until(&mut buffer, until).timed_out() {
                return buffer.done >= wanted;
            }
        }
        true
    }

    /// Returns the number of lines that were dropped or could not be written.
    pub(super) fn dropped(&self) -> u64 {
        self.0.buffer.lock().dropped
    }
}

impl Shared {
    fn write_all(&self, mut out: impl Write) {
        let (mut taken, mut reported) = (Vec::with_capacity(BUFFER_BYTES / 8), 0);
        loop {
            let lines = self.take(&mut taken);
            let is_written = write(&mut out, &taken);
            taken.clear();
            let mut buffer = self.buffer.lock();
            buffer.done += lines;
            if !is_written {
                buffer.dropped += lines;
            }
            let dropped = buffer.dropped;
            drop(buffer);
            self.drained.notify_all();
            if is_written && dropped > reported {
                tracing::warn!(
                    lines = dropped - reported,
                    "lines of the log were dropped: it could not be written fast enough"
                );
                reported = dropped;
            }
        }
    }

    /// Waits for lines, moves them to `taken`, which is empty, and returns their number.
    fn take(&self, taken: &mut Vec<u8>) -> u64 {
        let mut buffer = self.buffer.lock();
        while buffer.bytes.is_empty() {
            self.filled.wait(&mut buffer);
        }
        let until = Instant::now() + GATHER;
        while !buffer.is_urgent && !self.filled.wait_until(&mut buffer, until).timed_out() {}
        buffer.is_urgent = false;
        std::mem::swap(&mut buffer.bytes, taken);
        std::mem::take(&mut buffer.lines)
    }
}

/// Writes all bytes. Returns `false` if the output is closed or fails. An output that takes nothing for the moment is tried again.
fn write(out: &mut impl Write, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        match out.write(bytes) {
            Ok(0) => return false,
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(RETRY),
            Err(_) => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use std::io::{self, ErrorKind, Write};
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use parking_lot::{Mutex, MutexGuard};

    use super::{BUFFER_BYTES, LogWriter};

    const AMPLE: Duration = Duration::from_secs(60);

    /// An output that can be held, and that fails once it is closed.
    #[derive(Clone, Default)]
    struct Output(Arc<Mutex<(Vec<u8>, bool)>>);

    impl Output {
        fn hold(&self) -> MutexGuard<'_, (Vec<u8>, bool)> {
            self.0.lock()
        }
    }

    impl Write for Output {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut held = self.0.lock();
            if held.1 {
                return Err(ErrorKind::BrokenPipe.into());
            }
            // Takes a part of the lines at a time, as a pipe may.
            let part = &bytes[..bytes.len().min(1_000)];
            held.0.extend_from_slice(part);
            Ok(part.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_are_written_whole_and_in_order() {
        let output = Output::default();
        let writer = LogWriter::start(output.clone()).unwrap();
        let lines: Vec<String> = (0..10_000).map(|number| format!("line {number}\n")).collect();
        lines.iter().for_each(|line| writer.push(line.as_bytes()));
        assert!(writer.flush(AMPLE));
        assert_eq!(String::from_utf8(output.hold().0.clone()).unwrap(), lines.concat());
        assert_eq!(writer.dropped(), 0);
        assert!(writer.flush(Duration::ZERO), "nothing waits");
    }

    #[test]
    fn lines_beyond_the_buffer_are_dropped_and_counted_without_waiting() {
        let output = Output::default();
        let writer = LogWriter::start(output.clone()).unwrap();
        let line = [b'x'; 1 << 10];
        {
            let _held = output.hold();
            // The thread takes the first line and waits for the output.
            writer.push(b"first\n");
            while !writer.0.buffer.lock().bytes.is_empty() {
                std::thread::sleep(Duration::from_millis(1));
            }
            let began = Instant::now();
            (0..BUFFER_BYTES / line.len()).for_each(|_| writer.push(&line));
            assert_eq!(writer.dropped(), 0, "at the limit");
            writer.push(b"x");
            writer.push(&line);
            assert_eq!(writer.dropped(), 2, "past the limit");
            assert!(began.elapsed() < AMPLE);
            assert!(!writer.flush(Duration::from_millis(20)), "a flush has an end");
        }
        assert!(writer.flush(AMPLE));
        assert_eq!(output.hold().0.len(), "first\n".len() + BUFFER_BYTES);
        writer.push(b"again\n");
        assert!(writer.flush(AMPLE));
        assert!(output.hold().0.ends_with(b"again\n"));
        assert_eq!(writer.dropped(), 2);
    }

    #[test]
    fn a_closed_output_is_no_error() {
        let output = Output::default();
        let writer = LogWriter::start(output.clone()).unwrap();
        output.hold().1 = true;
        writer.push(b"lost\n");
        assert!(writer.flush(AMPLE));
        assert_eq!(writer.dropped(), 1);
        output.hold().1 = false;
        writer.push(b"written\n");
        assert!(writer.flush(AMPLE));
        assert_eq!(output.hold().0, b"written\n");
    }
}
