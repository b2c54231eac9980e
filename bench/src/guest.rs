//! Guests with a part of their memory (vpm.txt, figures 5 to 8): loads over a region of V bytes with P bytes of frames,
//! beside the same engine with all memory and beside `mmap` with `msync`, in processes of their own.
//!
//! The loads have the shapes of filebench, dbench and lmbench, on an array of files in the region: there is no file system
//! in it. The program computes for each page as long as the paper's whole stack does, so a part of the time is no access to
//! memory, as in the paper.

use std::cell::RefCell;
use std::path::Path;

use crate::options::Length;
use crate::region_work::{BenchGuest, GuestPool, MappedPeer, RegionOrder, RegionSetup, RegionWorker, frames_bytes};
use crate::report::{ReportRow, claim};
use crate::rounds::BenchSubject;
use crate::session::{BenchSession, Experiment, Race};
use crate::verdict::{figure, line, ratios, remark, values};
use crate::{Error, Result};

mod guest_case;
mod reattach;
mod update_cost;

use guest_case::{GuestCase, GuestSubject, SubjectMemory};

/// Bytes of a region, rounds, and milliseconds of a slice.
#[derive(Clone, Copy, Debug)]
pub struct GuestPlan {
    /// Bytes of a region.
    pub size: u64,
    /// Rounds that are counted.
    pub rounds: usize,
    /// Milliseconds of a slice.
    pub slice_ms: u64,
    /// Bytes of the guest that is killed and attached again.
    pub killed_bytes: u64,
}

impl GuestPlan {
    fn of(length: Length) -> Self {
        let (size, rounds) = (length.pick([160 << 20, 80 << 20, 10 << 20]), length.pick([11, 3, 1]));
        let (slice_ms, killed_bytes) = (length.pick([500, 120, 5]), length.pick([1 << 30, 1 << 30, 8 << 20]));
        Self { size, rounds, slice_ms, killed_bytes }
    }
}

/// Why no region can be had: the reason for leaving out every case. Returns the program of workers.
pub fn regions<'a>(session: &BenchSession<'a>) -> std::result::Result<&'a Path, String> {
    ferrite_memory::TrapRegion::new(4096).map_err(|why| why.to_string())?;
    session.options.ferrite.as_deref().ok_or_else(|| "there is no worker".into())
}

fn run(session: &mut BenchSession<'_>) -> Result<()> {
    let plan = GuestPlan::of(session.options.length);
    let cases = session.wanted(GuestCase::all(session.options.length), |case| case.name.clone());
    let ferrite = match regions(session) {
        Ok(ferrite) => ferrite,
        Err(why) => {
            session.left_out("every guest", why);
            return Ok(());
        }
    };
    for case in &cases {
        measure_case(session, &plan, ferrite, case)?;
    }
    update_cost::measure(session, &plan, ferrite)?;
    reattach::measure(session, &plan, ferrite)?;
    session.left_out("swap", "tmpfs with a swap file is not durable, and has nothing that a sync could wait for");
    Ok(())
}

/// A subject that runs, and everything that it needs.
struct RunningSubject {
    name: String,
    worker: RefCell<RegionWorker>,
    /// Bytes stored, and bytes written to the disk, in all slices.
    stored_bytes: RefCell<u64>,
    disk_before_bytes: u64,
    // Dropped behind the worker.
    _pool: Option<GuestPool>,
    _peer: Option<MappedPeer>,
}

impl RunningSubject {
    fn start(
        session: &BenchSession<'_>,
        size: u64,
        ferrite: &Path,
        case: &GuestCase,
        of: &GuestSubject,
    ) -> Result<Self> {
        let place = &session.options.place;
        let load = case.load(size);
        let (pool, peer, setup) = match of.memory {
            SubjectMemory::Guest { kind, percent } => {
                let new = BenchGuest { name: "g".into(), size, pm_bytes: frames_bytes(size, percent) };
                let mut pool = GuestPool::new(place, std::slice::from_ref(&new))?;
                pool.release()?;
                let setup = pool.setup(kind, &new, load);
                (Some(pool), None, setup)
            }
            SubjectMemory::Peer(kind) => {
                let peer = MappedPeer::new(place, kind, size)?;
                let setup = peer.setup(load);
                (None, Some(peer), setup)
            }
        };
        let setup = RegionSetup {
            write_times: case.write_times,
            has_batches: of.has_batches,
            keeps_copies: of.keeps_copies,
            ..setup
        };
        let mut worker = RegionWorker::start(ferrite, &of.name, setup)?;
        let filled = worker.order(&RegionOrder::Fill)?;
        Ok(Self {
            name: of.name.clone(),
            worker: RefCell::new(worker),
            stored_bytes: RefCell::new(0),
            disk_before_bytes: filled.disk_written_bytes(),
            _pool: pool,
            _peer: peer,
        })
    }

    /// Runs a slice; returns its MB/s.
    fn slice(&self, seed: u64, slice_ms: u64) -> Result<f64> {
        let order = RegionOrder::Run { nanos: slice_ms * 1_000_000, seed };
        let figures = self.worker.borrow_mut().order(&order)?;
        *self.stored_bytes.borrow_mut() += figures.stored_bytes;
        Ok(figures.rate())
    }

    /// Returns the bytes written to the disk for each byte that the program stored, in all slices.
    fn disk_bytes_per_byte(&self) -> Result<f64> {
        let idle = self.worker.borrow_mut().order(&RegionOrder::Run { nanos: 0, seed: 0 })?;
        let written = idle.disk_written_bytes().saturating_sub(self.disk_before_bytes);
        Ok(written as f64 / (*self.stored_bytes.borrow()).max(1) as f64)
    }
}

fn measure_case(session: &mut BenchSession<'_>, plan: &GuestPlan, ferrite: &Path, case: &GuestCase) -> Result<()> {
    let mut running = Vec::new();
    for subject in &case.subjects {
        session.announce(&format!("filling the memory of {}, {}", case.name, subject.name))?;
        match RunningSubject::start(session, plan.size, ferrite, case, subject) {
            Ok(started) => running.push(started),
            Err(why @ Error::Interrupted) => return Err(why),
            Err(why) => session.left_out(&format!("{} of {}", subject.name, case.name), why),
        }
    }
    if running.is_empty() {
        return Ok(());
    }
    let beside = case.subjects[0].name.as_str();
    let race = Race { case: &case.name, unit: "MB/s", rounds: plan.rounds, slice_ms: plan.slice_ms, beside };
    let slice_ms = plan.slice_ms;
    let subject = |one| {
        let one: &RunningSubject = one;
        BenchSubject::new(one.name.as_str(), move |seed| one.slice(seed, slice_ms))
    };
    let subjects = running.iter().map(subject).collect();
    session.race(&race, subjects)?;
    let is_part = |one: &&RunningSubject| one.name == "hv 20 %";
    if let Some(part) = running.iter().find(is_part) {
        let (bytes, name) = (part.disk_bytes_per_byte()?, format!("{}: disk bytes a byte stored", case.name));
        session.report.rows.push(ReportRow::once(name, &part.name, bytes, &part.name, 1.0));
    }
    Ok(())
}

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "guest",
    about: "programs in less memory than they use, full-virtual (hv) and para-virtual (pv) (vpm, figures 5 to 8)",
    expected_ms: [810_000, 30_000, 4000],
    run,
    verdict: &[
        line("file server, kept of all memory", "file server*"),
        figure("zipf, hv at 20 % (wanted 0.88)", "hv 20 %").case(", zipf 0.99").paper("0.8"),
        figure("hv at 40 % (wanted 0.92)", "hv 40 %").case(", zipf 0.99"),
        figure("uniform, hv at 20 % (wanted 0.80)", "hv 20 %").case(", uniform").paper("0.8"),
        figure("pv at 20 %", "pv 20 %").case(", uniform").beside(guest_case::ALL_PARA).paper("0.8"),
        line("web server, kept of all memory", "web server, uniform"),
        figure("hv at 20 % (wanted 0.97)", "hv 20 %").paper("0.8"),
        figure("pv at 20 %", "pv 20 %").beside(guest_case::ALL_PARA).paper("0.8"),
        line("varmail, kept of all memory", "varmail, uniform"),
        figure("hv at 20 % (wanted 0.92)", "hv 20 %").paper("0.6"),
        figure("hv at 60 % (wanted 0.97)", "hv 60 %").paper("0.95"),
        figure("pv at 20 % (wanted 0.85)", "pv 20 %").beside(guest_case::ALL_PARA),
        figure("pv at 40 % (wanted 0.92)", "pv 40 %").beside(guest_case::ALL_PARA).paper("0.4"),
        figure("mmap and msync on this disk", guest_case::MSYNC),
        line("dbench, kept of all memory", "dbench, uniform"),
        figure("hv at 20 %", "hv 20 %"),
        figure("pv at 20 %", "pv 20 %").beside(guest_case::ALL_PARA),
        line("PCM, stores 8 times as long, beside all PCM", "PCM: *"),
        figure("file server, hv at 70 % (wanted 0.95)", "hv 70 %").case("file server").paper("0.95"),
        figure("file server, pv at 50 % (wanted 1.2)", "pv 50 %").case("file server").paper("above 1"),
        figure("varmail, hv at 70 % (wanted 0.95)", "hv 70 %").case("varmail").paper("0.95"),
        figure("varmail, pv at 50 % (wanted 0.95)", "pv 50 %").case("varmail").paper("0.95"),
        line("a sequential rewrite (fwr) beside a bare mapping", "fwr*"),
        figure("within P (wanted 0.97)", "hv").case(", within P").paper("0.9"),
        figure("over V, larger than P, at the disk's speed", "hv").case(", over V").paper("0.9"),
        line("a flush for each batch beside one for each run", "batching: *"),
        figure("file server, hv at 20 % (wanted 2)", "hv 20 %"),
        line("copies kept (lazy reallocation) beside none, varmail on PCM", "lazy reallocation: *"),
        figure("hv at 30 % (wanted 1.3)", "hv 30 %").paper("1.3"),
        line("4 KiB made durable, times as long as the bare copy and fence", update_cost::CASE),
        figure("persist and barrier (wanted 3 at most)", update_cost::PARA),
        figure("a store and a fence", update_cost::FULL),
        figure("msync on this disk", guest_case::MSYNC),
        figure("msync beside persist and barrier (wanted 10 at least)", guest_case::MSYNC).beside(update_cost::PARA),
        line("bytes written to the disk for each byte stored (wanted 1.1 at most)", "*: disk bytes a byte stored"),
        figure("hv at 20 %", "hv 20 %").value(""),
        line("opening a pool and a guest that were killed, wanted below 50 ms", reattach::CASE),
        figure("", reattach::SUBJECT).value("ms"),
        remark("rates are of programs that compute as long as the paper's stack"),
    ],
    paper: &[
        claim("figure 5", 0.9, "fwr with a part of its memory, at least"),
        claim("figure 6 (a)", 0.8, "file server, hv and pv at 20 %"),
        claim("figure 6 (b)", 0.6, "varmail, hv at 20 %"),
        claim("figure 6 (b)", 0.95, "varmail, hv at 60 %"),
        claim("figure 6 (b)", 0.4, "varmail, pv at 40 %"),
        claim("figure 6 (c)", 0.8, "web server, hv and pv at 20 %"),
        claim("figure 7", 0.95, "PCM, hv at 70 % and pv at 50 %"),
        claim("figure 8 (b)", 1.3, "varmail on PCM, lazy reallocation beside none, from 25 % on"),
    ],
    charts: &[
        values("Figure 5: MB/s of a sequential rewrite (fwr)", "fwr*"),
        ratios("Figure 6: rate beside all memory, by the part of memory", "*uniform"),
        ratios("Figure 6: rate beside all memory, files chosen by zipf 0.99", "*zipf 0.99"),
        ratios("Figure 7: rate beside all PCM", "PCM: *"),
        ratios("Figure 8 (a): a flush for each batch or for each run", "batching: *"),
        ratios("Figure 8 (b): copies kept or not", "lazy reallocation: *"),
        values("Microseconds until 4 KiB are durable", update_cost::CASE),
    ],
};

#[cfg(test)]
mod tests;
