//! The paper's eight loads (pmbd.txt, table II): what real programs do with a file system, timed from outside.
//!
//! A load's time ends when all that it wrote has reached the disk, so that the page cache hides nothing.

use std::cell::OnceCell;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::options::Length;
use crate::scratch::Scratch;
use crate::{Result, program};

mod clamav;
mod devel;
mod glimpse;
mod postgres;
mod sfs;
mod source;
mod tar;
mod tpcc;
mod tpch;
mod untar;

pub use postgres::{Cluster, Server};
pub(crate) use postgres::{USER, as_user};
use source::Source;

/// Something that a program does in a folder of the file system that is measured.
pub trait Load {
    /// Puts what it needs into `home`.
    fn prepare(&self, home: &Path) -> Result<()>;

    /// Does it; the seconds it took. Nothing of the file system is in the page cache before.
    fn run(&self, home: &Path) -> Result<f64>;

    /// Removes what a run has left.
    fn reset(&self, home: &Path) -> Result<()> {
        let _ = home;
        Ok(())
    }
}

/// A load, or none where this machine lacks what it needs.
pub type Made = Result<Option<Box<dyn Load>>>;

/// One of the loads, made or not.
pub struct Kind {
    /// The paper's name of it.
    pub name: &'static str,
    /// What it needs and where that is from, for a machine that lacks it.
    pub needs: &'static str,
    make: fn(&Kit) -> Made,
}

/// Those that write most first.
pub const KINDS: [Kind; 8] = [
    Kind { name: "untar", needs: "tar", make: untar::make },
    Kind { name: "tar", needs: "tar", make: tar::make },
    Kind { name: "devel", needs: "tar, patch and diffutils", make: devel::make },
    Kind { name: "sfs", needs: "postmark", make: sfs::make },
    Kind { name: "tpcc", needs: "postgresql and postgresql-contrib", make: tpcc::make },
    Kind { name: "tpch", needs: "postgresql", make: tpch::make },
    Kind { name: "glimpseindex", needs: "glimpse", make: glimpse::make },
    Kind { name: "clamav", needs: "clamav", make: clamav::make },
];

/// How large the loads are.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Bytes of the source tree.
    pub source_bytes: u64,
    /// Files of sfs.
    pub files: u64,
    /// Transactions of sfs.
    pub transactions: u64,
    /// Branches of tpcc, of 100,000 accounts each.
    pub branches: u64,
    /// Seconds of tpcc.
    pub seconds: u64,
    /// Orders of tpch, of four items each.
    pub orders: u64,
}

impl Size {
    /// For a run of `length`.
    pub fn of(length: Length) -> Self {
        match length {
            Length::Full => Self {
                source_bytes: 96 << 20,
                files: 3000,
                transactions: 12_000,
                branches: 8,
                seconds: 3,
                orders: 100_000,
            },
            Length::Quick => {
                Self { source_bytes: 16 << 20, files: 500, transactions: 2000, branches: 1, seconds: 1, orders: 10_000 }
            }
            Length::Smoke => {
                Self { source_bytes: 256 << 10, files: 20, transactions: 20, branches: 1, seconds: 1, orders: 100 }
            }
        }
    }

    /// Bytes of a disk that has room for each of them alone.
    pub fn disk_bytes(&self) -> u64 {
        let trees = 5 * self.source_bytes;
        let tables = (16 << 20) * self.branches + 1400 * self.orders + (200 << 20);
        (trees.max(if self.files > 100 { tables } else { 0 }) + (24 << 20)).next_multiple_of(2 << 20)
    }
}

/// What the loads of one experiment are made from; it lies in memory.
pub struct Kit {
    scratch: Scratch,
    size: Size,
    source: OnceCell<Option<Source>>,
    cluster: OnceCell<Option<Cluster>>,
}

impl Kit {
    /// One in `place`.
    pub fn new(place: &Path, size: Size) -> Result<Self> {
        Ok(Self { scratch: Scratch::new(place)?, size, source: OnceCell::new(), cluster: OnceCell::new() })
    }

    fn source(&self) -> Result<Option<&Source>> {
        if self.source.get().is_none() {
            let made = Source::make(&self.scratch.path("source.tar"), self.size.source_bytes)?;
            let _ = self.source.set(made);
        }
        Ok(self.source.get().and_then(Option::as_ref))
    }

    fn cluster(&self) -> Result<Option<&Cluster>> {
        if self.cluster.get().is_none() {
            let made = Cluster::make(&self.scratch, &self.size)?;
            let _ = self.cluster.set(made);
        }
        Ok(self.cluster.get().and_then(Option::as_ref))
    }
}

impl Kind {
    /// Makes it; `None` where something is missing.
    pub fn make(&self, kit: &Kit) -> Made {
        (self.make)(kit)
    }
}

/// The seconds that `work` takes, with the writing back of what it left in the page cache.
fn timed(home: &Path, work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let start = Instant::now();
    work()?;
    program::run(Command::new("sync").arg("--file-system").arg(home))?;
    Ok(start.elapsed().as_secs_f64())
}

/// Whether all of `names` are on this machine.
fn has(names: &[&str]) -> bool {
    names.iter().all(|name| program::find(name).is_some())
}
