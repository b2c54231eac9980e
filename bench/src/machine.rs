//! The machine of a run.

use std::fs;

use serde::Serialize;

/// Percent of the processors' time that may be stolen before a complaint.
const STOLEN_PERCENT: f64 = 5.0;

/// The properties of a machine that figures depend on.
#[derive(Clone, Debug, Serialize)]
pub struct MachineState {
    /// The processor's name.
    pub processor: String,
    /// Processors this process may use.
    pub cores: usize,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// The kernel's version.
    pub kernel: String,
    /// Runnable threads, averaged over the minute before the run. Far above 0, other programs were running.
    pub load: f64,
    /// The part of the processors' time, from 0 to 1, that a hypervisor gave to other guests during the run.
    pub stolen: f64,
    #[serde(skip)]
    since: CpuTicks,
}

/// The kernel's ticks of all processors since it began.
#[derive(Clone, Copy, Debug, Default)]
struct CpuTicks {
    all: u64,
    stolen: u64,
}

impl MachineState {
    /// The machine of this process.
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
            stolen: 0.0,
            since: CpuTicks::now(),
        }
    }

    /// The machine at the end of the run that began with [`MachineState::here`].
    pub fn at_end(self) -> Self {
        Self { stolen: CpuTicks::now().stolen_since(self.since), ..self }
    }

    /// The reasons, at the end of the run, why figures are not to be trusted.
    pub fn complaints(&self) -> impl Iterator<Item = String> {
        let (load, percent) = (self.load, 100.0 * CpuTicks::now().stolen_since(self.since));
        let busy = (load > 0.5 * self.cores as f64)
            .then(|| format!("others kept this machine busy (load {load}): take the figures again"));
        let stolen = (percent > STOLEN_PERCENT)
            .then(|| format!("the host gave others {percent:.0} % of this machine's processors: figures swing"));
        busy.into_iter().chain(stolen)
    }
}

impl CpuTicks {
    fn now() -> Self {
        Self::of(&fs::read_to_string("/proc/stat").unwrap_or_default())
    }

    /// The first line has user, nice, system, idle, iowait, irq, softirq and steal; user includes the ticks of guests.
    fn of(stat: &str) -> Self {
        let line = stat.lines().next().unwrap_or_default().strip_prefix("cpu ").unwrap_or_default();
        let ticks = || line.split_whitespace().map_while(|ticks| ticks.parse::<u64>().ok());
        Self { all: ticks().take(8).sum(), stolen: ticks().nth(7).unwrap_or(0) }
    }

    fn stolen_since(self, before: Self) -> f64 {
        let all = self.all.saturating_sub(before.all).max(1);
        self.stolen.saturating_sub(before.stolen) as f64 / all as f64
    }
}

/// How often the scheduler preempted this thread, if the kernel reports that.
pub fn preemptions() -> Option<u64> {
    let status = fs::read_to_string("/proc/thread-self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"))?;
    line.trim().parse().ok()
}

/// Processors this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, Into::into)
}

#[cfg(test)]
mod tests;
