//! Resource usage of this process according to the operating system.

/// The usage since the process started. A value that the system does not report is `None`; only Linux reports any.
#[derive(Debug, Default)]
pub(super) struct ResourceUsage {
    pub(super) resident_bytes: Option<u64>,
    pub(super) cpu_seconds: Option<f64>,
    pub(super) read_bytes: Option<u64>,
    pub(super) written_bytes: Option<u64>,
}

impl ResourceUsage {
    /// Reads the usage.
    #[cfg(target_os = "linux")]
    pub(super) fn read() -> Self {
        let Ok(process) = procfs::process::Process::myself() else { return Self::default() };
        let (stat, io) = (process.stat().ok(), process.io().ok());
        Self {
            resident_bytes: process.statm().ok().map(|memory| memory.resident * procfs::page_size()),
            cpu_seconds: stat.map(|stat| (stat.utime + stat.stime) as f64 / procfs::ticks_per_second() as f64),
            read_bytes: io.as_ref().map(|io| io.read_bytes),
            written_bytes: io.as_ref().map(|io| io.write_bytes),
        }
    }

    /// Returns no values.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn read() -> Self {
        Self::default()
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::ResourceUsage;

    #[test]
    fn the_usage_of_this_process_is_known() {
        let usage = ResourceUsage::read();
        assert!(usage.resident_bytes.unwrap() > 1 << 20);
        assert!(usage.cpu_seconds.is_some());
        assert!(usage.read_bytes.is_some() && usage.written_bytes.is_some());
    }
}
