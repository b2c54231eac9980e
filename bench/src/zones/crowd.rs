//! How soon a pool with very many files is there: mapped, opened, and its file system mounted.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use ferrite_fs::{Credentials, FileKind, FileSystem, Ino, NewFile, SUPER_THRESHOLD_BYTES};

use super::Plan;
use crate::Result;
use crate::node::{self, Yard};
use crate::options::Options;
use crate::report::rows;
use crate::rounds::{self, Subject};
use crate::session::Session;
use crate::tree::{Grove, Shut, Tree, Visible};

/// The case.
pub const CASE: &str = "mount of a pool";
/// Who is measured.
pub const EMPTY: &str = "no files";
/// And this.
pub const FULL: &str = "a million files";
/// Milliseconds it takes, about.
pub const TOTAL_MS: u64 = 6000;

/// Files of one folder.
const TOGETHER: u64 = 10_000;
/// Bytes of the pool for each file: an inode, a name, and what is not yet in use.
const FILE_BYTES: u64 = 640;
const NAME: &str = "crowd";

/// Measures it, where anything can be mounted.
pub fn measure(session: &mut Session<'_>, plan: &Plan) -> Result<()> {
    if !session.options.wants(CASE) || node::missing().is_some() {
        return Ok(());
    }
    session.tell("making very many files")?;
    let pools = [(EMPTY, shut(session.options, 0)?), (FULL, shut(session.options, plan.crowd)?)];
    let yard = Yard::new()?;
    let mut turns: Vec<Subject<'_>> = Vec::new();
    for (number, (name, pool)) in pools.iter().enumerate() {
        let point = yard.folder(&format!("crowd{number}"))?;
        turns.push(Subject::new(*name, move |_| Ok(seconds_to_mount(pool, &point)? * 1e3)));
    }
    let steps = &mut session.steps;
    let series = rounds::run(&mut turns, plan.rounds.min(9), &mut || steps.step(CASE, TOTAL_MS / 20))?;
    session.report.rows.extend(rows(CASE, "ms", &series, &series[0]));
    Ok(())
}

fn seconds_to_mount(pool: &Arc<Shut>, point: &Path) -> Result<f64> {
    let start = Instant::now();
    let grove = pool.open()?;
    let visible = Visible::new(tree(&grove), point);
    visible.mount()?;
    let seconds = start.elapsed().as_secs_f64();
    visible.unmount()?;
    drop(visible);
    Grove::shut(grove)?;
    Ok(seconds)
}

fn tree(grove: &Arc<Grove>) -> Tree {
    Tree { grove: Arc::clone(grove), name: NAME, cached: false, super_threshold_bytes: Some(SUPER_THRESHOLD_BYTES) }
}

/// A pool with so many files, closed.
fn shut(options: &Options, files: u64) -> Result<Arc<Shut>> {
    let grove = Grove::new(&options.place, files * FILE_BYTES + (64 << 20))?;
    let tree = tree(&grove);
    tree.make()?;
    let fs = tree.open()?;
    for first in (0..files).step_by(TOGETHER as usize) {
        let folder = make(&fs, Ino::ROOT, FileKind::Directory, first)?;
        (first..files.min(first + TOGETHER))
            .try_for_each(|number| make(&fs, folder, FileKind::File, number).map(drop))?;
    }
    drop((fs, tree));
    Grove::shut(grove)
}

fn make(fs: &FileSystem, parent: Ino, kind: FileKind, number: u64) -> Result<Ino> {
    let new = NewFile { kind, mode: 0o755, umask: 0, rdev: 0, by: Credentials { uid: 0, gid: 0 } };
    Ok(fs.create_file(parent, format!("{number}").as_bytes(), &new)?.ino)
}
