//! The experiments there are.

use crate::options::{OnProgress, Options};
use crate::report::Report;
use crate::{
    Result, alternatives, barriers, buffering, db_log, ftl, llc, media, objects, pace, protection, superpages,
    write_schemes, zones,
};

/// One experiment.
pub struct Experiment {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it shows, in a line.
    pub about: &'static str,
    run: fn(&Options, OnProgress<'_>) -> Result<Report>,
}

/// Every experiment.
pub const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "protection",
        about: "what guards cost beside the bare copy (PMBD, figures 3 and 8), NBD beside its peers, recovery",
        run: protection::run,
    },
    Experiment {
        name: "buffering",
        about: "buffers in DRAM before a guard by page table (PMBD, figures 5 and 6)",
        run: buffering::run,
    },
    Experiment {
        name: "write-schemes",
        about: "ways of storing, in process and under applications (PMBD, figures 9 and 10)",
        run: write_schemes::run,
    },
    Experiment {
        name: "barriers",
        about: "ordering, in process and under applications (PMBD, figures 11 and 12, table III)",
        run: barriers::run,
    },
    Experiment {
        name: "pace",
        about: "slower media, in process and under a database (PMBD, figure 15), and how exactly they are emulated",
        run: pace::run,
    },
    Experiment {
        name: "media",
        about: "the protected disk beside disks of memory, this machine's disk, an SSD and a hard disk (PMBD, figure 14)",
        run: media::run,
    },
    Experiment {
        name: "objects",
        about: "what an object's update costs beside LMDB, libpmemobj and disks (flash-backed DRAM, figure 5, table 1)",
        run: objects::run,
    },
    Experiment {
        name: "db-log",
        about: "commits of SQLite, Redis and PostgreSQL, strict and relaxed, beside disks (flash-backed DRAM, table 1, figure 7)",
        run: db_log::run,
    },
    Experiment {
        name: "llc",
        about: "policies of the last-level cache before a memory that wears, on real programs (chapter 2, figures 2.1 to 2.14)",
        run: llc::run,
    },
    Experiment {
        name: "zones",
        about: "files by records, by threads and by name, in every way in, beside memory's file systems (ZonFS, figures 5 \
                and 6)",
        run: zones::run,
    },
    Experiment {
        name: "superpages",
        about: "large and small files on superpages and on normal pages, and TLB misses (chapter 5, figures 5.3 to 5.10)",
        run: superpages::run,
    },
    Experiment {
        name: "alternatives",
        about: "applications on our file system, on disk file systems on our disk, and on memory's (PMBD, figure 13)",
        run: alternatives::run,
    },
    Experiment {
        name: "ftl",
        about: "erases and copies of a flash drive under file systems, page-level and FAST (nvm-storage-hierarchy, figures 3.11 \
                and 3.12)",
        run: ftl::run,
    },
];

/// The experiment called `name`.
pub fn find(name: &str) -> Option<&'static Experiment> {
    EXPERIMENTS.iter().find(|experiment| experiment.name == name)
}

impl Experiment {
    /// Runs it; `on_progress` is called between slices and says whether to go on.
    ///
    /// # Errors
    /// What keeps it from running at all, and [`crate::Error::NoCase`] where it is asked for none of its cases. A peer that this machine lacks is no error: its rows are missing and the
    /// verdict says so.
    pub fn run(&self, options: &Options, on_progress: OnProgress<'_>) -> Result<Report> {
        let report = (self.run)(options, on_progress)?;
        options.only.ensure_some()?;
        Ok(report)
    }
}
