//! One direction of an emulated medium, which all threads share.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Speed;
use crate::shard::Padded;

/// Where and how long accesses of one direction wait.
pub(crate) struct StorePipe {
    times: f64,
    latency_ticks: u64,
    ticks_per_byte: f64,
    /// When the last byte that anyone has asked for will be through.
    free_at: Padded<AtomicU64>,
}

impl StorePipe {
    /// A pipe of that speed, idle, by a counter with `per_ns` ticks in a nanosecond.
    pub fn new(speed: &Speed, per_ns: f64) -> Self {
        let byte_ns = speed.bandwidth_mb_s.map_or(0.0, |rate| 1000.0 / rate as f64);
        Self {
            times: speed.times,
            latency_ticks: (speed.latency_ns as f64 * per_ns).ceil() as u64,
            ticks_per_byte: byte_ns * per_ns,
            free_at: Padded::default(),
        }
    }

    /// Whether every access is as fast as its copy.
    #[inline]
    pub fn is_open(&self) -> bool {
        !self.is_relative() && self.latency_ticks == 0 && self.ticks_per_byte == 0.0
    }

    /// Whether the time of the copy counts.
    #[inline]
    pub fn is_relative(&self) -> bool {
        self.times > 1.0
    }

    /// Queues an access of `bytes` that begins at `start` behind those before it, and gives the tick at which it is
    /// done. The bandwidth is taken at once, so that no other access can be told the same time.
    #[inline]
    pub fn queue(&self, start: u64, bytes: u64) -> u64 {
        if self.ticks_per_byte == 0.0 {
            return start.saturating_add(self.latency_ticks);
        }
        let ticks = (bytes as f64 * self.ticks_per_byte).ceil() as u64;
        let through = |free_at: u64| free_at.max(start).saturating_add(ticks);
        let queued =
            self.free_at.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free_at| Some(through(free_at)));
        queued.map_or(start, through).saturating_add(self.latency_ticks)
    }

    /// The tick at which what began at `start` and took `ticks` by itself is done.
    #[inline]
    pub fn stretch(&self, start: u64, ticks: u64) -> u64 {
        start.saturating_add((ticks as f64 * self.times).ceil() as u64)
    }
}
