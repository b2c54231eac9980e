//! The pace of a program's own stores to persistent memory, which no medium of ours sees.

use std::time::{Duration, Instant};

use super::file_mapping::FileMapping;
use crate::Result;

/// Bytes of a copy that is timed.
const PROBE_BYTES: u64 = 64 << 10;
/// Copies that are timed; the median counts.
const PROBES: usize = 33;

/// Waits behind stores, as long as they take longer on a slower medium.
pub struct StorePace {
    nanos_per_byte: f64,
}

impl StorePace {
    /// The pace of a medium whose stores take `times` as long as those to DRAM.
    pub fn new(times: f64) -> Result<Self> {
        let longer = times - 1.0;
        let nanos_per_byte = if longer > 0.0 { longer * dram_nanos()? / PROBE_BYTES as f64 } else { 0.0 };
        Ok(Self { nanos_per_byte })
    }

    /// Waits behind a store of `bytes`.
    pub fn wait(&self, bytes: u64) {
        spin((self.nanos_per_byte * bytes as f64) as u64);
    }
}

/// Returns the nanoseconds in which a probe is copied to memory and fenced.
fn dram_nanos() -> Result<f64> {
    let (memory, from) = (FileMapping::anonymous(PROBE_BYTES)?, vec![1; PROBE_BYTES as usize]);
    let bytes = memory.bytes();
    let mut nanos: Vec<f64> = (0..PROBES)
        .map(|_| {
            let begun = Instant::now();
            bytes.store_durable(0, &from);
            begun.elapsed().as_nanos() as f64
        })
        .collect();
    nanos.sort_by(f64::total_cmp);
    Ok(nanos[PROBES / 2])
}

/// Computes for `nanos`.
pub fn spin(nanos: u64) {
    if nanos == 0 {
        return;
    }
    let (begun, time) = (Instant::now(), Duration::from_nanos(nanos));
    while begun.elapsed() < time {
        std::hint::spin_loop();
    }
}
