//! The machine that figures were taken on.

use std::fs;

use serde::Serialize;

/// Percent of the processors' time that may be stolen before it is told.
const STOLEN_PERCENT: f64 = 5.0;

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
    /// Part of its processors' time that a hypervisor gave to others during the run, where one tells.
    pub stolen: f64,
    #[serde(skip)]
    since: Ticks,
}

/// The kernel's ticks of all processors since it began.
#[derive(Clone, Copy, Debug, Default)]
struct Ticks {
    all: u64,
    stolen: u64,
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
            stolen: 0.0,
            since: Ticks::now(),
        }
    }

    /// The same at the end of the run that began with [`Machine::here`].
    pub fn at_end(self) -> Self {
        Self { stolen: Ticks::now().stolen_since(self.since), ..self }
    }

    /// What is to be said if others work on it so much that figures are not to be trusted, at the end of the run.
    pub fn complaints(&self) -> impl Iterator<Item = String> {
        let (load, percent) = (self.load, 100.0 * Ticks::now().stolen_since(self.since));
        let busy = (load > 0.5 * self.cores as f64)
            .then(|| format!("others kept this machine busy (load {load}): take the figures again"));
        let stolen = (percent > STOLEN_PERCENT)
            .then(|| format!("the host gave others {percent:.0} % of this machine's processors: figures swing"));
        busy.into_iter().chain(stolen)
    }
}

impl Ticks {
    fn now() -> Self {
        Self::of(&fs::read_to_string("/proc/stat").unwrap_or_default())
    }

    /// Of the first line: user, nice, system, idle, iowait, irq, softirq, steal; guests' ticks behind them are in user's.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever reads figures of a virtual machine is told how much of it was there.
    #[test]
    fn what_the_host_took_is_a_part_of_all_time() {
        let before = Ticks::of("cpu  100 0 100 100 0 0 0 50 7 7\ncpu0 1 2 3\n");
        let after = Ticks::of("cpu  150 0 120 110 0 0 0 70 9 9\n");
        assert_eq!(after.stolen_since(before), 0.2);
        assert_eq!(before.stolen_since(before), 0.0);
        assert_eq!(Ticks::of("what").stolen_since(Ticks::of("")), 0.0, "a kernel that tells nothing took nothing");
    }
}
