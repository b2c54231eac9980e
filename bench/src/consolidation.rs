//! A tile of five guests that share a budget (vpm.txt, figures 9 and 10, table 2): two file servers, varmail, a web server
//! and dbench, para-virtual as in the paper, beside the same tile with all its memory in the same run.
//!
//! Memory of a guest that a program has mapped does not move. So each guest has a fixed part of the budget, in proportion to
//! the pages that it stores to with all memory; a tile with all memory measures these first.

use std::path::Path;
use std::thread;

use crate::Result;
use crate::guest::regions;
use crate::options::Length;
use crate::region_work::{
    BenchGuest, GuestPool, LoadShape, RegionFigures, RegionKind, RegionLoad, RegionOrder, RegionWorker, frames_bytes,
};
use crate::report::{claim, rows};
use crate::rounds::Series;
use crate::session::{BenchSession, Experiment};
use crate::verdict::{figure, line, ratios, remark, values};

mod budget_parts;

use budget_parts::budget_parts;

/// The subject that all are compared with.
const ALL: &str = "all memory";
/// The case of figure 10.
const USAGE: &str = "pages stored to, part of the tile";

/// A guest of the tile: its name, its load, and MiB of memory as in table 2.
struct TileGuest {
    name: &'static str,
    kind: RegionLoad,
    mib: u64,
}

impl TileGuest {
    fn case(&self) -> String {
        format!("tile: {}", self.name)
    }
}

const TILE: [TileGuest; 5] = [
    TileGuest { name: "file server 1", kind: RegionLoad::FileServer, mib: 624 },
    TileGuest { name: "file server 2", kind: RegionLoad::FileServer, mib: 624 },
    TileGuest { name: "varmail", kind: RegionLoad::VarMail, mib: 160 },
    TileGuest { name: "web server", kind: RegionLoad::WebServer, mib: 720 },
    TileGuest { name: "dbench", kind: RegionLoad::Dbench, mib: 56 },
];

/// The sizes of a run.
#[derive(Clone, Copy, Debug)]
struct TilePlan {
    /// The divisor of the paper's sizes.
    scale: u64,
    /// The budgets, in percent of the tile's memory.
    percents: &'static [u64],
    rounds: usize,
    slice_ms: u64,
}

impl TilePlan {
    fn of(length: Length) -> Self {
        Self {
            scale: length.pick([2, 8, 52]),
            percents: length.pick([&[15, 25, 50], &[15, 50], &[50]]),
            rounds: length.pick([9, 3, 1]),
            slice_ms: length.pick([2000, 600, 5]),
        }
    }

    /// The bytes of `guest`.
    fn size(&self, guest: &TileGuest) -> u64 {
        (guest.mib << 20) / self.scale / 4096 * 4096
    }
}

/// Five programs, and the pool of their guests, which this process owns.
struct RunningTile {
    name: String,
    workers: Vec<RegionWorker>,
    // Dropped behind the workers.
    _pool: GuestPool,
}

impl RunningTile {
    /// Starts a tile whose guests have `pm_bytes` of frames each, and fills their memory.
    fn start(place: &Path, ferrite: &Path, plan: &TilePlan, name: String, pm_bytes: &[u64]) -> Result<Self> {
        let new = |(guest, pm_bytes): (&TileGuest, &u64)| {
            let name = guest.name.replace(' ', "-");
            BenchGuest { name, size: plan.size(guest), pm_bytes: *pm_bytes }
        };
        let guests: Vec<BenchGuest> = TILE.iter().zip(pm_bytes).map(new).collect();
        let pool = GuestPool::new(place, &guests)?;
        let start = |(guest, new): (&TileGuest, &BenchGuest)| {
            let setup = pool.setup(RegionKind::Para, new, LoadShape::new(guest.kind, 0));
            RegionWorker::start(ferrite, guest.name, setup)
        };
        let workers = TILE.iter().zip(&guests).map(start).collect::<Result<Vec<_>>>()?;
        let mut tile = Self { name, workers, _pool: pool };
        tile.order(&RegionOrder::Fill)?;
        Ok(tile)
    }

    /// Carries out `order` in all programs at once.
    fn order(&mut self, order: &RegionOrder) -> Result<Vec<RegionFigures>> {
        thread::scope(|scope| {
            let asked: Vec<_> =
                self.workers.iter_mut().map(|worker| scope.spawn(move || worker.order(order))).collect();
            asked.into_iter().map(|one| one.join().expect("no panic")).collect()
        })
    }
}

fn run(session: &mut BenchSession<'_>) -> Result<()> {
    let plan = TilePlan::of(session.options.length);
    if session.wanted(TILE, TileGuest::case).is_empty() {
        return Ok(());
    }
    let ferrite = match regions(session) {
        Ok(ferrite) => ferrite,
        Err(why) => {
            session.left_out("the tile", why);
            return Ok(());
        }
    };
    let place = &session.options.place;
    session.announce("filling a tile with all its memory")?;
    let all: Vec<u64> = TILE.iter().map(|guest| frames_bytes(plan.size(guest), 100)).collect();
    let mut whole = RunningTile::start(place, ferrite, &plan, ALL.into(), &all)?;
    let nanos = plan.slice_ms * 1_000_000;
    let used: Vec<u64> = stored_pages(&mut whole, nanos)?;
    add_usage(session, &used);
    let memory: u64 = TILE.iter().map(|guest| plan.size(guest)).sum();
    let mut tiles = vec![whole];
    for percent in plan.percents {
        session.announce(&format!("filling a tile with {percent} % of its memory"))?;
        let parts = budget_parts(memory * percent / 100, &used);
        tiles.push(RunningTile::start(place, ferrite, &plan, format!("{percent} %"), &parts)?);
    }
    measure(session, &plan, &mut tiles)
}

/// Returns the pages that each guest of a tile with all memory has stored to, behind a slice. Filling the files counts too.
fn stored_pages(tile: &mut RunningTile, nanos: u64) -> Result<Vec<u64>> {
    let figures = tile.order(&RegionOrder::Run { nanos, seed: 0 })?;
    Ok(figures.iter().map(|one| one.counts.map_or(0, |counts| counts.truth_frames)).collect())
}

/// Adds the rows of figure 10.
fn add_usage(session: &mut BenchSession<'_>, used: &[u64]) {
    let all = used.iter().sum::<u64>().max(1) as f64;
    let series =
        |(guest, pages): (&TileGuest, &u64)| Series { name: guest.name.into(), values: vec![*pages as f64 / all] };
    let series: Vec<Series> = TILE.iter().zip(used).map(series).collect();
    session.report.rows.extend(rows(USAGE, "", &series, &series[0]));
}

/// Measures the tiles in turn. Of the programs of a tile, all run at the same time.
fn measure(session: &mut BenchSession<'_>, plan: &TilePlan, tiles: &mut [RunningTile]) -> Result<()> {
    let nanos = plan.slice_ms * 1_000_000;
    let none = |tile: &RunningTile| Series { name: tile.name.clone(), values: Vec::new() };
    // By guest, then by tile.
    let mut series: Vec<Vec<Series>> = TILE.iter().map(|_| tiles.iter().map(none).collect()).collect();
    let count = tiles.len();
    for round in 0..=plan.rounds {
        for turn in 0..count {
            let which = (round + turn) % count;
            let figures = tiles[which].order(&RegionOrder::Run { nanos, seed: (round * count + turn) as u64 })?;
            session.step(&format!("a tile with {}", tiles[which].name), plan.slice_ms)?;
            if round > 0 {
                figures.iter().zip(&mut series).for_each(|(one, guest)| guest[which].values.push(one.rate()));
            }
        }
    }
    for (guest, series) in TILE.iter().zip(&series) {
        session.report.rows.extend(rows(&guest.case(), "MB/s", series, &series[0]));
    }
    Ok(())
}

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "consolidation",
    about: "five guests in a part of their memory, beside all of it (vpm, figures 9 and 10, table 2)",
    expected_ms: [90_000, 9000, 500],
    run,
    verdict: &[
        line("dbench, kept of the tile with all memory", "tile: dbench"),
        figure("at 15 % (wanted 0.7)", "15 %").paper("0.6"),
        figure("at 50 % (wanted 0.9)", "50 %").paper("0.8"),
        line("varmail, kept of the tile with all memory", "tile: varmail"),
        figure("at 15 % (wanted 0.6)", "15 %").paper("0.3"),
        figure("at 50 % (wanted 0.85)", "50 %").paper("0.6"),
        line("file servers, kept of the tile with all memory", "tile: file server *"),
        figure("at 15 %", "15 %").paper("about 1"),
        figure("at 50 %", "50 %").paper("about 1"),
        line("web server, kept of the tile with all memory", "tile: web server"),
        figure("at 15 %", "15 %").paper("about 1"),
        figure("at 50 %", "50 %").paper("about 1"),
        line("figure 10, part of the tile's stored pages", USAGE),
        figure("dbench", "dbench").value("").paper("0.04 of all memory"),
        figure("a file server", "file server *").value("").paper("0.37"),
        figure("varmail", "varmail").value("").paper("0.14"),
        figure("web server", "web server").value("").paper("0.08"),
        remark("each guest has a fixed part of the budget, in proportion to these pages"),
    ],
    paper: &[
        claim("figure 9", 0.6, "dbench, 15 % of the tile's memory"),
        claim("figure 9", 0.8, "dbench, 50 % of the tile's memory"),
        claim("figure 9", 0.3, "varmail, 15 % of the tile's memory"),
        claim("figure 9", 0.6, "varmail, 50 % of the tile's memory"),
        claim("figure 10", 0.37, "part of all memory that the file servers use"),
    ],
    charts: &[
        ratios("Figure 9: rate beside the tile with all its memory", "tile: *"),
        values("Figure 10: part of the stored pages of the tile", USAGE),
    ],
};

#[cfg(test)]
mod tests;
