//! The time of mapping and opening a pool with very many files and of mounting its file system.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use ferrite_fs::{Credentials, FileKind, FileSystem, Ino, NewFile};

use super::RecordPlan;
use crate::Result;
use crate::mount_node::{self, MountRoot};
use crate::options::BenchOptions;
use crate::pool_tree::{ClosedPool, OpenPool, PoolTree, ServedTree};
use crate::rounds::BenchSubject;
use crate::session::{BenchSession, Race};

/// The case.
pub const CASE: &str = "mount of a pool";
/// The subject without files.
pub const EMPTY: &str = "no files";
/// The subject with very many files.
pub const FULL: &str = "a million files";
/// Milliseconds that a slice is expected to take.
const SLICE_MS: u64 = 300;

/// Files of one folder.
const TOGETHER: u64 = 10_000;
/// Bytes of the pool for each file: an inode, a name, and what is not yet in use.
const FILE_BYTES: u64 = 640;
const NAME: &str = "crowd";

/// Measures the case, if anything can be mounted.
pub fn measure(session: &mut BenchSession<'_>, plan: &RecordPlan) -> Result<()> {
    if !session.options.wants(CASE) || mount_node::missing().is_some() {
        return Ok(());
    }
    session.announce("making very many files")?;
    let pools = [(EMPTY, closed_pool(session.options, 0)?), (FULL, closed_pool(session.options, plan.many_files)?)];
    let mount_root = MountRoot::new()?;
    let mut subjects: Vec<BenchSubject<'_>> = Vec::new();
    for (number, (name, pool)) in pools.iter().enumerate() {
        let point = mount_root.folder(&format!("crowd{number}"))?;
        subjects.push(BenchSubject::new(*name, move |_| Ok(seconds_to_mount(pool, &point)? * 1e3)));
    }
    let (unit, rounds, slice_ms) = ("ms", plan.rounds.min(9), SLICE_MS);
    session.race(&Race { case: CASE, unit, rounds, slice_ms, beside: EMPTY }, subjects).map(drop)
}

fn seconds_to_mount(pool: &Arc<ClosedPool>, point: &Path) -> Result<f64> {
    let start = Instant::now();
    let open_pool = pool.open()?;
    let served_tree = ServedTree::new(PoolTree::new(&open_pool, NAME), point);
    served_tree.mount()?;
    let seconds = start.elapsed().as_secs_f64();
    served_tree.unmount()?;
    drop(served_tree);
    OpenPool::close(open_pool)?;
    Ok(seconds)
}

/// A closed pool with so many files.
fn closed_pool(options: &BenchOptions, files: u64) -> Result<Arc<ClosedPool>> {
    let open_pool = OpenPool::new(&options.place, files * FILE_BYTES + (64 << 20))?;
    let tree = PoolTree::new(&open_pool, NAME);
    tree.make()?;
    let fs = tree.open()?;
    for first in (0..files).step_by(TOGETHER as usize) {
        let folder = make(&fs, Ino::ROOT, FileKind::Directory, first)?;
        (first..files.min(first + TOGETHER))
            .try_for_each(|number| make(&fs, folder, FileKind::File, number).map(drop))?;
    }
    drop((fs, tree));
    OpenPool::close(open_pool)
}

fn make(fs: &FileSystem, parent: Ino, kind: FileKind, number: u64) -> Result<Ino> {
    let new = NewFile { kind, mode: 0o755, umask: 0, rdev: 0, by: Credentials { uid: 0, gid: 0 } };
    Ok(fs.create_file(parent, format!("{number}").as_bytes(), &new)?.ino)
}
