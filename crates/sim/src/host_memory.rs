//! Checks that the tables of a simulation fit in memory. An allocation that does not fit ends the process without a
//! message, or the machine's other work.

use std::fs;

use crate::{Error, Result};

/// Refuses tables of `bytes` bytes for `what` if less memory is available.
///
/// # Errors
/// [`Error::Model`], which says how much is needed and available.
pub fn ensure(bytes: u64, what: &str) -> Result<()> {
    match available() {
        Some(available) if bytes > available => {
            let [needed, there] = [bytes, available].map(|bytes| bytes.div_ceil(1 << 20));
            Err(Error::Model(format!("{what} takes {needed} MiB of memory, and {there} MiB are available")))
        }
        _ => Ok(()),
    }
}

/// Returns the bytes that this process may still allocate, or `None` if the kernel does not report them.
fn available() -> Option<u64> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let group = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limit = group.lines().find_map(|line| line.strip_prefix("0::")).and_then(|path| {
        let read = |name: &str| fs::read_to_string(format!("/sys/fs/cgroup{}/{name}", path.trim_end())).ok();
        group_left(&read("memory.max")?, &read("memory.current")?)
    });
    let available = of_meminfo(&meminfo)?;
    Some(limit.map_or(available, |limit| available.min(limit)))
}

fn of_meminfo(text: &str) -> Option<u64> {
    let kib = text.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB"))?;
    kib.parse::<u64>().ok()?.checked_mul(1024)
}

/// Returns the bytes that a control group may still use, or `None` without a limit.
fn group_left(max: &str, current: &str) -> Option<u64> {
    let [max, current] = [max, current].map(|text| text.trim().parse::<u64>());
    Some(max.ok()?.saturating_sub(current.ok()?))
}

#[cfg(test)]
mod tests;
