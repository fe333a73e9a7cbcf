//! Resource usage of this process according to the operating system.

#[cfg(target_os = "linux")]
use std::fs::File;
#[cfg(target_os = "linux")]
use std::io::{Cursor, Read as _, Seek as _};

#[cfg(target_os = "linux")]
use procfs::FromRead;
#[cfg(target_os = "linux")]
use procfs::process::{Io, Stat, StatM};

/// The usage since the process started. A value that the system does not report is `None`; only Linux reports any.
#[derive(Debug, Default)]
pub(crate) struct ResourceUsage {
    pub(super) resident_bytes: Option<u64>,
    pub(super) cpu_seconds: Option<f64>,
    pub(super) read_bytes: Option<u64>,
    pub(super) written_bytes: Option<u64>,
}

/// The open files in which the system reports the usage. A confined process cannot open them.
#[derive(Debug, Default)]
pub(crate) struct UsageFiles {
    #[cfg(target_os = "linux")]
    stat: Option<File>,
    #[cfg(target_os = "linux")]
    statm: Option<File>,
    #[cfg(target_os = "linux")]
    io: Option<File>,
}

#[cfg(target_os = "linux")]
impl UsageFiles {
    /// Opens the files. Values of a file that cannot be opened are not reported.
    pub(super) fn open() -> Self {
        let open = |name: &str| File::open(format!("/proc/self/{name}")).ok();
        Self { stat: open("stat"), statm: open("statm"), io: open("io") }
    }

    /// Reads the usage.
    pub(super) fn read(&self) -> ResourceUsage {
        let (stat, io) = (content::<Stat>(self.stat.as_ref()), content::<Io>(self.io.as_ref()));
        ResourceUsage {
            resident_bytes: content::<StatM>(self.statm.as_ref()).map(|memory| memory.resident * procfs::page_size()),
            cpu_seconds: stat.map(|stat| (stat.utime + stat.stime) as f64 / procfs::ticks_per_second() as f64),
            read_bytes: io.as_ref().map(|io| io.read_bytes),
            written_bytes: io.as_ref().map(|io| io.write_bytes),
        }
    }
}

#[cfg(target_os = "linux")]
fn content<T: FromRead>(file: Option<&File>) -> Option<T> {
    let mut file = file?;
    file.rewind().ok()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).ok()?;
    T::from_read(Cursor::new(bytes)).ok()
}

#[cfg(not(target_os = "linux"))]
impl UsageFiles {
    /// Opens nothing.
    pub(super) fn open() -> Self {
        Self::default()
    }

    /// Returns no values.
    pub(super) fn read(&self) -> ResourceUsage {
        ResourceUsage::default()
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::UsageFiles;

    #[test]
    fn the_usage_of_this_process_is_known() {
        let files = UsageFiles::open();
        let usage = files.read();
        assert!(usage.resident_bytes.unwrap() > 1 << 20);
        assert!(usage.cpu_seconds.is_some());
        assert!(usage.read_bytes.is_some() && usage.written_bytes.is_some());
        let large = vec![1_u8; 64 << 20];
        assert!(files.read().resident_bytes.unwrap() >= usage.resident_bytes.unwrap() + (32 << 20), "{}", large[1]);
    }
}
