//! The subjects of experiments with files: a file system in this process, one that is mounted, by its worker, and copies
//! without a file system.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use ferrite_fs::{FileSystem, SUPER_THRESHOLD_BYTES};
use ferrite_pool::layout::CHUNK;

use crate::ferrite::{OwnerProcess, under_run};
use crate::field::Field;
use crate::mount_node::{self, MountNode};
use crate::pool_tree::ClosedPool;
use crate::records::{BareFolder, FileOrder, LibraryFolder, carry_out};
use crate::rounds::BenchSubject;
use crate::session::{BenchSession, Race};
use crate::worker::FolderWorker;
use crate::{Result, program};

/// A subject that carries out orders.
pub enum FileSubject {
    /// Copies without a file system.
    Bare(BareFolder),
    /// A file system of ours in this process.
    Library(LibraryFolder),
    /// A mounted file system.
    // The worker ends before the node is unmounted.
    Mounted(Box<(FolderWorker, MountNode)>),
    /// A file system of ours whose worker `ferrite run` runs.
    Run(Box<(FolderWorker, OwnerProcess)>),
}

impl FileSubject {
    /// `node`, formatted and mounted. Its worker is `ferrite`'s, and syncs after each write if `syncs` is true.
    pub fn mounted(node: MountNode, ferrite: &Path, syncs: bool) -> Result<Self> {
        node.format()?;
        let worker = FolderWorker::start(Command::new(ferrite), node.path(), syncs)?;
        Ok(Self::Mounted(Box::new((worker, node))))
    }

    /// The file system `name` of `pool`, mounted on `point` by a process of `ferrite`'s. Returns `None` if `ferrite` is
    /// not the whole program.
    pub fn run(ferrite: &Path, pool: Arc<ClosedPool>, name: &'static str, point: &Path) -> Result<Option<Self>> {
        let owner = OwnerProcess::start(Command::new(ferrite), ferrite, pool, name, point)?;
        let Some(owner) = owner else { return Ok(None) };
        let mut command = under_run(ferrite);
        command.arg(ferrite);
        Ok(Some(Self::Run(Box::new((FolderWorker::start(command, point, false)?, owner)))))
    }

    /// Whether the subject can carry out `order`.
    fn takes(&self, order: &FileOrder) -> bool {
        if let Self::Bare(folder) = self { folder.takes(order) } else { true }
    }

    /// Carries out `order`, and returns what it measured.
    pub fn order(&mut self, order: &FileOrder) -> Result<f64> {
        match self {
            Self::Bare(folder) => folder.order(order),
            Self::Library(folder) => carry_out(folder, order),
            Self::Mounted(mounted) => mounted.0.order(order),
            Self::Run(run) => {
                let value = run.0.order(order)?;
                if let FileOrder::Prepare { files, file_bytes } = *order
                    && file_bytes >= SUPER_THRESHOLD_BYTES
                {
                    run.1.wait_for_superpages(files * (file_bytes / CHUNK * CHUNK))?;
                }
                Ok(value)
            }
        }
    }

    /// Finishes work of the background, so that no slice pays for the one before it. The owner of a pool that a worker
    /// stores into does that by itself.
    pub fn finish_background(&self) -> Result<()> {
        match self {
            Self::Library(folder) => folder.finish_background(),
            Self::Mounted(mounted) => mounted.1.finish_background(),
            Self::Run(_) | Self::Bare(_) => Ok(()),
        }
    }

    /// The file system, if it is open in this process.
    pub fn library(&self) -> Option<&Arc<FileSystem>> {
        if let Self::Library(folder) = self { Some(&folder.fs) } else { None }
    }
}

impl Field<FileSubject> {
    /// Has every subject carry out `order`, outside of any slice.
    pub fn prepare(&mut self, session: &mut BenchSession<'_>, order: &FileOrder) -> Result<()> {
        self.entries.iter_mut().try_for_each(|(name, entrant)| {
            session.announce(&format!("preparing files on {name}"))?;
            entrant.order(order)?;
            entrant.finish_background()
        })
    }

    /// Measures the subjects that can carry out the orders in turn. `order` makes the order of a round, and `value` the
    /// row's value of what was measured.
    pub fn race(
        &mut self,
        session: &mut BenchSession<'_>,
        race: &Race<'_>,
        order: &dyn Fn(u64) -> FileOrder,
        value: &dyn Fn(f64) -> f64,
    ) -> Result<()> {
        let first = order(0);
        let takers: Vec<_> = self.entries.iter_mut().filter(|(_, entrant)| entrant.takes(&first)).collect();
        let count = takers.len() as u64;
        let mut subjects: Vec<BenchSubject<'_>> = Vec::new();
        for (name, entrant) in takers {
            subjects.push(BenchSubject::new(*name, move |slice| {
                let measured = entrant.order(&order(slice / count))?;
                entrant.finish_background()?;
                Ok(value(measured))
            }));
        }
        session.race(race, subjects).map(drop)
    }
}

/// The program whose workers mounted file systems need, or why nothing can be mounted here.
pub fn mounting<'a>(session: &BenchSession<'a>) -> std::result::Result<&'a Path, String> {
    match (mount_node::missing(), &session.options.ferrite) {
        (None, Some(ferrite)) => Ok(ferrite),
        (why, _) => Err(why.unwrap_or_else(|| "there is no worker".into())),
    }
}

/// Whether the program `name` is here; if not, that is noted as the reason why `subject` was left out.
pub fn has_program(session: &mut BenchSession<'_>, subject: &str, name: &str) -> bool {
    let is_there = program::find(name).is_some();
    if !is_there {
        session.left_out(subject, format!("there is no {name}"));
    }
    is_there
}

#[cfg(test)]
mod tests;
