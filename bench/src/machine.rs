//! The machine that figures were taken on.

use std::fs;

use serde::Serialize;

/// What a figure depends on.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// Processors this process may use.
    pub cores: usize,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// The kernel's version.
    pub kernel: String,
    /// Runnable threads, averaged over the minute before the run: far above 0 others worked meanwhile.
    pub load: f64,
}

impl Machine {
    /// This one.
    pub fn here() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let value = |text: &str, key: &str| {
            let line = text.lines().find(|line| line.starts_with(key))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let memory = value(&read("/proc/meminfo"), "MemTotal").unwrap_or_default();
        let first = |text: &str| text.split_whitespace().next().unwrap_or_default().to_owned();
        Self {
            processor: value(&read("/proc/cpuinfo"), "model name").unwrap_or_else(|| std::env::consts::ARCH.into()),
            cores: cores(),
            memory_bytes: first(&memory).parse::<u64>().unwrap_or(0) << 10,
            kernel: read("/proc/sys/kernel/osrelease").trim().into(),
            load: first(&read("/proc/loadavg")).parse().unwrap_or(0.0),
        }
    }

    /// Whether others work on it so much that figures are not to be trusted.
    pub fn is_busy(&self) -> bool {
        self.load > 0.5 * self.cores as f64
    }
}

/// How often this thread had to leave its processor to another one, where the kernel tells.
pub fn preemptions() -> Option<u64> {
    let status = fs::read_to_string("/proc/thread-self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"))?;
    line.trim().parse().ok()
}

/// Processors this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, Into::into)
}
