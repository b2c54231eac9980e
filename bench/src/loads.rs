//! The paper's eight loads (pmbd.txt, table II): real programs on a file system, timed from outside.
//!
//! A load's time ends when all that it wrote has reached the disk, so that the page cache hides nothing.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::options::Length;
use crate::scratch::Scratch;
use crate::{Result, program};

mod clamav;
mod postgres;
pub(crate) mod postmark;
mod source;

pub use postgres::{PostgresCluster, PostgresServer, transactions_per_s};
pub(crate) use postgres::{USER, as_user};

/// A load: programs in a folder of the file system that is measured.
pub struct AppLoad {
    /// The paper's name of the load.
    pub name: &'static str,
    /// The packages of the programs, for a note if they are missing.
    pub needs: &'static str,
    programs: &'static [&'static str],
    data: LoadData,
    /// A script that prepares the folder `$home`, from the archive `$source` of a source tree if the load needs one.
    prepare: &'static str,
    run: LoadAction,
    /// A script that removes what a run has left.
    reset: &'static str,
}

/// The data of a load.
#[derive(Clone, Copy, PartialEq)]
enum LoadData {
    Nothing,
    /// A source tree.
    Source,
    /// PostgreSQL's files.
    Cluster,
}

/// The work of a load.
enum LoadAction {
    /// A script, which is timed.
    Script(&'static str),
    /// A function, which returns seconds.
    By(fn(&LoadKit, &Path) -> Result<f64>),
}

/// Unpacks the source tree.
const UNPACK: &str = r#"mkdir $home/tree; tar -xf "$source" -C $home/tree"#;

/// Makes a patch to every tenth file.
const MAKE_PATCH: &str = r#"
cd $home; cp "$source" source.tar
mkdir tree; tar -xf source.tar -C tree
cp -r tree new
find new -type f -name '*.[ch]' | sort | awk 'NR % 10 == 1' | xargs -r sed -i '1s|^|/* changed */\n|'
diff -ru --no-dereference tree new > patch || test $? = 1
rm -r new"#;

/// A developer's round: a source tree is unpacked, patched, packed, and compared with the one before.
const DEVELOP: &str = r#"
cd $home; mkdir new
tar -xf source.tar -C new
patch --silent --strip=1 --directory=new < patch
tar -cf new.tar new
diff -r --no-dereference tree new > difference || test $? = 1"#;

const UNTAR: &str = "mkdir $home/tree; tar -xf $home/source.tar -C $home/tree";
const INDEX: &str = "mkdir $home/index; glimpseindex -H $home/index $home/tree";

const fn load(
    name: &'static str,
    needs: &'static str,
    programs: &'static [&'static str],
    data: LoadData,
    run: LoadAction,
) -> AppLoad {
    AppLoad { name, needs, programs, data, prepare: "", run, reset: "" }
}

/// Every load, those that write most first.
pub const LOADS: [AppLoad; 8] = [
    AppLoad {
        prepare: r#"cp "$source" $home/source.tar"#,
        reset: "rm -r $home/tree",
        ..load("untar", "tar", &["tar"], LoadData::Source, LoadAction::Script(UNTAR))
    },
    AppLoad {
        prepare: UNPACK,
        reset: "rm $home/packed.tar",
        ..load("tar", "tar", &["tar"], LoadData::Source, LoadAction::Script("tar -cf $home/packed.tar -C $home tree"))
    },
    AppLoad {
        prepare: MAKE_PATCH,
        reset: "cd $home; rm -r new new.tar difference",
        ..load(
            "devel",
            "tar, patch and diffutils",
            &["tar", "patch", "diff"],
            LoadData::Source,
            LoadAction::Script(DEVELOP),
        )
    },
    load("sfs", "postmark", &["postmark"], LoadData::Nothing, LoadAction::By(postmark::run)),
    load("tpcc", "postgresql and postgresql-contrib", &[], LoadData::Cluster, LoadAction::By(postgres::tpcc)),
    load("tpch", "postgresql", &[], LoadData::Cluster, LoadAction::By(postgres::tpch)),
    AppLoad {
        prepare: UNPACK,
        reset: "rm -r $home/index",
        ..load("glimpseindex", "glimpse", &["glimpseindex"], LoadData::Source, LoadAction::Script(INDEX))
    },
    AppLoad {
        prepare: UNPACK,
        ..load("clamav", "clamav", &["clamscan"], LoadData::Source, LoadAction::By(clamav::run))
    },
];

impl AppLoad {
    /// Whether this machine has all that the load needs.
    pub fn is_available(&self, kit: &LoadKit) -> Result<bool> {
        Ok(has(self.programs)
            && match self.data {
                LoadData::Nothing => true,
                LoadData::Cluster => kit.cluster()?.is_some(),
                LoadData::Source => kit.source()?.is_some(),
            })
    }

    /// Puts into `home` what the load needs.
    pub fn prepare(&self, kit: &LoadKit, home: &Path) -> Result<()> {
        match self.data {
            LoadData::Nothing => Ok(()),
            LoadData::Source => {
                let source = kit.source()?.map(PathBuf::as_path).unwrap_or(Path::new(""));
                program::shell(&[("home", home), ("source", source)], self.prepare)
            }
            LoadData::Cluster => kit.cluster()?.map_or(Ok(()), |cluster| cluster.copy_to(home)),
        }
    }

    /// Runs the load, and returns the seconds that it took. Nothing of the file system is in the page cache before.
    pub fn run(&self, kit: &LoadKit, home: &Path) -> Result<f64> {
        match self.run {
            LoadAction::Script(script) => timed(home, || program::shell(&[("home", home)], script)),
            LoadAction::By(run) => run(kit, home),
        }
    }

    /// Removes what a run has left.
    pub fn reset(&self, home: &Path) -> Result<()> {
        program::shell(&[("home", home)], self.reset)
    }
}

/// The sizes of the loads.
#[derive(Clone, Copy, Debug)]
pub struct AppSize {
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

impl AppSize {
    /// The sizes of a run of `length`.
    pub fn of(length: Length) -> Self {
        Self {
            source_bytes: length.pick([96 << 20, 16 << 20, 256 << 10]),
            files: length.pick([3000, 500, 20]),
            transactions: length.pick([12_000, 2000, 20]),
            branches: length.pick([8, 1, 1]),
            seconds: length.pick([3, 1, 1]),
            orders: length.pick([100_000, 10_000, 100]),
        }
    }

    /// Bytes of a disk that has room for any one of the loads.
    pub fn disk_bytes(&self) -> u64 {
        let trees = 5 * self.source_bytes;
        let tables = (16 << 20) * self.branches + 1400 * self.orders + (200 << 20);
        (trees.max(if self.files > 100 { tables } else { 0 }) + (24 << 20)).next_multiple_of(2 << 20)
    }
}

/// The data that the loads of one experiment are prepared from, in memory.
pub struct LoadKit {
    scratch: Scratch,
    size: AppSize,
    source: OnceCell<Option<PathBuf>>,
    cluster: OnceCell<Option<PostgresCluster>>,
}

impl LoadKit {
    /// Empty data in `place`; each part is made on first use.
    pub fn new(place: &Path, size: AppSize) -> Result<Self> {
        Ok(Self { scratch: Scratch::new(place)?, size, source: OnceCell::new(), cluster: OnceCell::new() })
    }

    /// The archive of the source tree.
    fn source(&self) -> Result<Option<&PathBuf>> {
        if self.source.get().is_none() {
            let made = source::make(&self.scratch, self.size.source_bytes)?;
            let _ = self.source.set(made);
        }
        Ok(self.source.get().and_then(Option::as_ref))
    }

    fn cluster(&self) -> Result<Option<&PostgresCluster>> {
        if self.cluster.get().is_none() {
            let made = PostgresCluster::make(&self.scratch, &self.size)?;
            let _ = self.cluster.set(made);
        }
        Ok(self.cluster.get().and_then(Option::as_ref))
    }
}

/// The seconds that `work` takes, including the write-back of the page cache.
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

#[cfg(test)]
mod tests;
