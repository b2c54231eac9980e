//! What persistent metadata costs a cache of SSDs (scm-flash-backed-dram.txt, figure 6): requests of 8 threads, half of them
//! reads, with the metadata in memory that loses all, and under the schemes that persist it.
//!
//! The paper gives neither the size of a request, nor the distribution of addresses, nor the size of the cache. Here a
//! request has 4 KiB, and addresses are uniform or by Zipf's law over four times the flash.

use ferrite_memory::Scheme;

use crate::Result;
use crate::options::Length;
use crate::report::claim;
use crate::rounds::BenchSubject;
use crate::scratch::Scratch;
use crate::session::{BenchSession, Experiment, Race};
use crate::verdict::{figure, line, ratios, remark};

mod flash_subject;
mod logged_index;

use flash_subject::FlashSubject;

/// The subject that all are compared with.
const BASE: &str = "base";

/// How the metadata of a cache is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlashScheme {
    /// In memory that loses all.
    Base,
    /// By a scheme of the pool.
    By(Scheme),
    /// By the default scheme, and the hash table in a log and checkpoints too, as the paper has it.
    LoggedIndex,
}

impl FlashScheme {
    /// Every scheme with its name.
    const ALL: [(&'static str, Self); 5] = [
        (BASE, Self::Base),
        ("flush", Self::By(Scheme::Flush)),
        ("write-through", Self::By(Scheme::Writethrough)),
        ("nt", Self::By(Scheme::Nt)),
        ("nt and logged table", Self::LoggedIndex),
    ];

    /// Returns how slots are stored.
    fn stores(self) -> Scheme {
        match self {
            Self::By(scheme) => scheme,
            Self::Base => Scheme::Writeback,
            Self::LoggedIndex => Scheme::Nt,
        }
    }
}

/// A case: the drives, and the load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlashCase {
    is_simulated: bool,
    ssds: u64,
    theta: f64,
}

impl FlashCase {
    fn all(length: Length) -> Vec<Self> {
        let loads: &[(u64, f64)] = length.pick([
            &[(1, 0.0), (1, 0.9), (2, 0.0), (2, 0.9)],
            &[(1, 0.0), (1, 0.9), (2, 0.0), (2, 0.9)],
            &[(1, 0.0), (2, 0.9)],
        ]);
        let of =
            |is_simulated| loads.iter().map(move |(ssds, theta)| Self { is_simulated, ssds: *ssds, theta: *theta });
        [true, false].into_iter().flat_map(of).collect()
    }

    fn name(&self) -> String {
        let drives = if self.is_simulated { "simulated drives" } else { "RAM disks" };
        let load = if self.theta > 0.0 { format!("zipf {}", self.theta) } else { "uniform".into() };
        let ssds = if self.ssds == 1 { "1 SSD" } else { "2 SSDs" };
        format!("{drives}, {load}, {ssds}")
    }
}

/// The sizes and durations of the experiment.
pub(crate) struct FlashPlan {
    /// Bytes of all SSDs.
    flash_bytes: u64,
    leb_bytes: u64,
    /// Rounds, and requests of a slice, on simulated drives and on RAM disks.
    simulated: (usize, u64),
    ram: (usize, u64),
}

impl FlashPlan {
    fn of(length: Length) -> Self {
        Self {
            flash_bytes: length.pick([64 << 20, 32 << 20, 1 << 20]),
            leb_bytes: length.pick([1 << 20, 256 << 10, 16 << 10]),
            simulated: length.pick([(10, 8000), (8, 1000), (1, 40)]),
            ram: length.pick([(31, 80_000), (11, 8000), (1, 200)]),
        }
    }
}

fn run(session: &mut BenchSession<'_>) -> Result<()> {
    let plan = FlashPlan::of(session.options.length);
    for case in session.wanted(FlashCase::all(session.options.length), FlashCase::name) {
        let name = case.name();
        session.announce(&name)?;
        let mut subjects = Vec::new();
        for (subject, scheme) in FlashScheme::ALL {
            let scratch =
                (scheme == FlashScheme::LoggedIndex).then(|| Scratch::new(&session.options.place)).transpose()?;
            subjects.push((subject, FlashSubject::new(scheme, &case, &plan, scratch)?));
        }
        let (rounds, requests) = if case.is_simulated { plan.simulated } else { plan.ram };
        let slice_ms = requests / if case.is_simulated { 3 } else { 150 };
        let race = Race { case: &name, unit: "1/s", rounds, slice_ms, beside: BASE };
        let raced = subjects
            .iter()
            .map(|(name, subject)| BenchSubject::new(*name, move |seed| subject.run(seed + 2, requests)))
            .collect();
        session.race(&race, raced)?;
    }
    Ok(())
}

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "flash-cache",
    about: "persistent metadata of a cache of SSDs beside metadata that is lost (flash-backed DRAM, figure 6)",
    expected_ms: [600_000, 60_000, 5000],
    run,
    verdict: &[
        line("requests a second beside metadata that is lost, drives simulated at 20 times their speed", "simulated*"),
        figure("flush", "flush").fine().paper("0.980"),
        figure("write-through", "write-through").fine().paper("0.969"),
        figure("nt", "nt").fine(),
        figure("nt and the paper's logged table", "nt and logged table").fine(),
        remark("the paper's disk serves 133 requests a second and hides the cost"),
        line("the same over RAM disks, where nothing hides the cost", "RAM*"),
        figure("flush", "flush"),
        figure("write-through", "write-through"),
        figure("nt", "nt"),
        figure("nt and the paper's logged table", "nt and logged table"),
    ],
    paper: &[
        claim("figure 6", 603.0 / 615.0, "requests a second, metadata flushed beside metadata in DRAM"),
        claim("figure 6", 603.0 / 622.0, "requests a second, metadata written through beside metadata in DRAM"),
    ],
    charts: &[
        ratios("Figure 6: requests a second on simulated drives", "simulated*"),
        ratios("Requests a second over RAM disks", "RAM*"),
    ],
};

#[cfg(test)]
mod tests;
