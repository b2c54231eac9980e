//! The places of databases' files.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use ferrite_memory::Guard;

use super::{DISK, RUN, STRICT};
use crate::ferrite::OwnerProcess;
use crate::field::Field;
use crate::media::disks::{DiskField, OWN, own_folder};
use crate::mount_node::{self, MountRoot, NodeSource};
use crate::pool_tree::{ClosedPool, OpenPool, PoolTree};
use crate::protection::filled_disk::FilledDisk;
use crate::scratch::Scratch;
use crate::session::BenchSession;
use crate::{Result, program};

/// Bytes of each disk: PostgreSQL's cluster, its log, and some.
pub(super) const DISK_BYTES: u64 = 512 << 20;
const POOL_BYTES: u64 = 128 << 20;

/// Every place that this machine has.
pub struct DatabasePlaces {
    /// The folder on tmpfs, where nothing waits for a sync.
    pub memory: Scratch,
    /// The folders where a sync waits for something: our file system under the name of the strict one, ext4 on our disk,
    /// on simulated ones, and this machine's disk.
    pub synced: Field<PathBuf>,
    /// A pool on tmpfs.
    pub pool: Arc<ClosedPool>,
    /// The program and a folder of a file system that a process of it serves, for programs under `ferrite run`.
    pub run: Option<(PathBuf, PathBuf)>,
}

impl DatabasePlaces {
    /// All places, with new file systems.
    pub fn new(session: &mut BenchSession<'_>) -> Result<Self> {
        let memory = Scratch::new(&session.options.place)?;
        let pool = OpenPool::new(&session.options.place, POOL_BYTES)?.close()?;
        let mut places = Self { memory, synced: Field::default(), pool, run: None };
        match mount_node::missing() {
            Some(why) => session.left_out("every file system on Ferrite and on simulated disks", why),
            None => places.mount(session)?,
        }
        let own = own_folder()?;
        places.synced.enter(OWN, own.folder("home")?);
        places.synced.keep(own);
        Ok(places)
    }

    fn mount(&mut self, session: &mut BenchSession<'_>) -> Result<()> {
        let place = &session.options.place;
        let mount_root = MountRoot::new()?;
        let databases = PoolTree::of_small_files(&OpenPool::new(place, DISK_BYTES)?, "databases");
        let mut disks = DiskField::default();
        disks.enter(DISK, FilledDisk::build(place, DISK_BYTES)?.whole(Guard::best())?);
        disks.enter_simulated(DISK_BYTES);
        let disks = disks.entries.iter().map(|(name, disk)| (*name, NodeSource::Disk(Arc::clone(disk)), "barrier"));
        let mut nodes = Vec::new();
        for (number, (name, source, how)) in
            [(STRICT, NodeSource::Tree(databases), "")].into_iter().chain(disks).enumerate()
        {
            let node = mount_root.node(&format!("log{number}"), source, how)?;
            node.format()?;
            self.synced.enter(name, make_home(node.path())?);
            nodes.push(node);
        }
        let point = mount_root.folder("run")?;
        // Nodes and the owner are unmounted before their folder goes.
        self.synced.keep(mount_root);
        self.synced.keep(nodes);
        let Some(ferrite) = &session.options.ferrite else { return Ok(()) };
        let open_pool = OpenPool::new(place, DISK_BYTES)?;
        PoolTree::of_small_files(&open_pool, "run").make()?;
        match OwnerProcess::start(Command::new(ferrite), ferrite, open_pool.close()?, "run", &point)? {
            Some(owner) => {
                self.synced.keep(owner);
                self.run = Some((ferrite.clone(), make_home(&point)?));
            }
            None => session.left_out(RUN, format!("{} is not the whole program", ferrite.display())),
        }
        Ok(())
    }
}

/// Makes a folder in the file system that is mounted on `point`.
fn make_home(point: &Path) -> Result<PathBuf> {
    let home = point.join("home");
    program::run(Command::new("mkdir").arg(&home))?;
    Ok(home)
}
