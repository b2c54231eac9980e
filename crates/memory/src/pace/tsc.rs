//! The processor's time stamp counter (Intel SDM volume 3, 18.17), which is read in a few nanoseconds.
#![allow(unsafe_code, reason = "reads the time stamp counter")]

use super::Ticks;
use crate::{Error, Result};

/// The duration of the calibration of the counter's rate, in ns.
const CALIBRATION_NS: u64 = 5_000_000;
/// Ticks after which a clock that has not moved is taken to stand still: a fifth of a second or more.
const STANDSTILL_TICKS: u64 = 1 << 30;
/// Looks at the clock of which the closest counts.
const LOOKS: u32 = 32;
/// What waits are longer by, so that neither the error of the measurement nor a clock that is being corrected
/// (by at most one part in 2000 on Linux) lets one end early.
const MARGIN: f64 = 1.0 / 1024.0;
/// A calibrated time stamp counter.
#[derive(Clone, Copy, Debug)]
pub struct Tsc {
    per_ns: f64,
    reading: u64,
}

/// The clock at some moment between two counts.
struct ClockSample {
    before: u64,
    clock_ns: u64,
    after: u64,
}

impl ClockSample {
    fn at(clock_ns: &impl Fn() -> u64) -> Self {
        let before = arch::read();
        let clock_ns = clock_ns();
        Self { before, clock_ns, after: arch::read_after_loads() }
    }

    /// The one of several that was least interrupted.
    fn closest(clock_ns: &impl Fn() -> u64) -> Self {
        let looks = (0..LOOKS).map(|_| Self::at(clock_ns));
        looks.min_by_key(|look| look.after.saturating_sub(look.before)).expect("there is one look at least")
    }
}

impl Tsc {
    /// Measures the counter against a clock that returns nanoseconds. Takes 5 ms.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the counter is missing or does not count evenly, or if the clock stands still.
    pub fn calibrate(clock_ns: impl Fn() -> u64) -> Result<Self> {
        if !arch::counts_evenly() {
            let why = "speeds are emulated by an x86-64 time stamp counter that counts evenly (invariant TSC)";
            return Err(Error::Unsupported(format!("{why}, which this processor does not report")));
        }
        let first = ClockSample::closest(&clock_ns);
        while clock_ns().saturating_sub(first.clock_ns) < CALIBRATION_NS {
            if arch::read().saturating_sub(first.after) > STANDSTILL_TICKS {
                return Err(Error::Unsupported("emulating speeds by a clock that stands still".into()));
            }
        }
        let last = ClockSample::closest(&clock_ns);
        let (ticks, ns) = (last.after - first.before, last.clock_ns - first.clock_ns);
        let empty = (0..1000).map(|_| {
            let start = arch::read();
            arch::read_after_loads() - start
        });
        Ok(Self { per_ns: ticks as f64 / ns as f64 * (1.0 + MARGIN), reading: empty.min().unwrap_or(0) })
    }
}

impl Ticks for Tsc {
    #[inline]
    fn now(&self) -> u64 {
        arch::read()
    }

    #[inline]
    fn now_after_copy(&self) -> u64 {
        arch::read_after_loads()
    }

    /// Without `pause`: a hypervisor takes a processor away that pauses again and again, and what is copied next is
    /// then found evicted. The fence that orders the readings keeps the processor as idle.
    #[inline]
    fn wait_until(&self, tick: u64) {
        while arch::read_after_loads() < tick {}
    }

    fn per_ns(&self) -> f64 {
        self.per_ns
    }

    #[inline]
    fn reading(&self) -> u64 {
        self.reading
    }
}

#[cfg(target_arch = "x86_64")]
mod arch {
    use std::arch::x86_64::{__cpuid, _mm_lfence, _rdtsc};

    const POWER_LEAF: u32 = 0x8000_0007;
    const INVARIANT: u32 = 1 << 8;

    #[inline]
    pub fn read() -> u64 {
        // SAFETY: every x86-64 has the instruction, and Linux allows it.
        unsafe { _rdtsc() }
    }

    /// The fence keeps the counter from being read before what stands before it is done.
    #[inline]
    pub fn read_after_loads() -> u64 {
        // SAFETY: every x86-64 has the instruction.
        unsafe { _mm_lfence() };
        read()
    }

    pub fn counts_evenly() -> bool {
        __cpuid(0x8000_0000).eax >= POWER_LEAF && __cpuid(POWER_LEAF).edx & INVARIANT != 0
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod arch {
    pub fn read() -> u64 {
        0
    }

    pub fn read_after_loads() -> u64 {
        0
    }

    pub fn counts_evenly() -> bool {
        false
    }
}

#[cfg(test)]
mod tests;
