//! Table 1: the time until an update is durable, by medium: a record in persistent memory, a block on disks.

use std::sync::Arc;
use std::time::Duration;

use ferrite_disk::{Access, Disk};
use ferrite_memory::Guard;
use ferrite_object::{Logging, NewStore, OpenStore, Store};

use super::UpdatePlan;
use super::updates::{append, refused};
use crate::Result;
use crate::copy_buffer::CopyBuffer;
use crate::media::disks::DiskField;
use crate::rounds::{BenchSubject, mean_ns};
use crate::scratch::Scratch;
use crate::session::{BenchSession, Race};

/// The case.
pub const CASE: &str = "a durable record, by medium";
/// The subject of persistent memory.
pub const OURS: &str = "persistent memory";
/// Bytes of the disks.
const DISK_BYTES: u64 = 16 << 20;
/// Few rounds are enough where a slice is longer than what disturbs it, and a disk turns in 8 ms.
const ROUNDS: usize = 5;
const SLICE_MS: u64 = 100;

/// Measures the case.
pub fn measure(session: &mut BenchSession<'_>, scratch: &Scratch, plan: &UpdatePlan) -> Result<()> {
    if !session.options.wants(CASE) {
        return Ok(());
    }
    let mut field = DiskField::default();
    field.enter_own(session, DISK_BYTES)?;
    field.enter_simulated(DISK_BYTES);
    let open = OpenStore { guard: Some(Guard::None), services: None };
    let store = Store::initialize(&scratch.path("table"), &NewStore { bytes: 64 << 20, uuid: [4; 16] }, &open);
    let log = store.and_then(|store| store.log("log", Logging::default())).map_err(refused)?;
    let (rounds, slice_ms) = if plan.rounds < ROUNDS { (1, 1) } else { (ROUNDS, SLICE_MS) };
    let time = Duration::from_millis(slice_ms);
    let ours = move |_| latency_us(time, || append(&log, &[7; 64]));
    let mut subjects = vec![BenchSubject::new(OURS, ours)];
    for (name, disk) in &field.entries {
        subjects.push(BenchSubject::new(*name, move |_| by_disk(disk, time)));
    }
    session.race(&Race { case: CASE, unit: "us", rounds, slice_ms, beside: OURS }, subjects).map(drop)
}

/// Microseconds of a block that is written behind the last one and flushed, like the log of a database.
fn by_disk(disk: &Arc<dyn Disk>, time: Duration) -> Result<f64> {
    let (block, mut at) = (CopyBuffer::new(4096), 0);
    latency_us(time, || {
        at = (at + 4096) % DISK_BYTES;
        disk.write(at, block.bytes(), Access::Cached)?;
        Ok(disk.flush()?)
    })
}

fn latency_us(time: Duration, update: impl FnMut() -> Result<()>) -> Result<f64> {
    Ok(mean_ns(time, 1, update)? / 1e3)
}
