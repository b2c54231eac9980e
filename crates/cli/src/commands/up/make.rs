//! The parts that `ferrite up` makes if they are missing: the pool and its disks.

use std::fs;
use std::path::Path;

use ferrite_block::DISK_BYTES_MAX;
use ferrite_block::DiskShape;
use ferrite_block::DiskSpec;
use ferrite_daemon::disks;
use ferrite_daemon::disks::disk_names;
use ferrite_daemon::filesystems::names;
use ferrite_memory::{Backing, make_pool_file};
use ferrite_owner::PoolOwner;
use ferrite_owner::paths::quoted;
use ferrite_pool::Progress;
use ferrite_pool::layout::{CHUNK, FIXED_CHUNKS};

use super::{FILES, Up};
use crate::bar::Bar;
use crate::commands::pool;
use crate::host;
use crate::outcome::{Failure, Outcome};
use crate::size;
use crate::stop;

/// The default size of a new pool, in bytes.
const SIZE: u64 = 1 << 30;

/// Chunks of the pool that the mounted file system takes beside those for maps of disks, with one for its first
/// directory and one for its first file.
const FILES_CHUNKS: u64 = 3;

/// The smallest default disk, in bytes.
const DISK_BYTES_MIN: u64 = CHUNK / 2;
/// The largest default disk in memory, in chunks: 512 MiB.
const DISK_CHUNKS_IN_MEMORY: u64 = (512 << 20) / CHUNK;

/// Returns the largest disk of at most `most` chunks that fits into `free` chunks, one of them for its map.
fn disk_bytes(most: u64, free: u64) -> Option<u64> {
    let chunks = |size: u64| {
        DiskShape::of(&DiskSpec { size, sector_bytes: 512, thin: false, checksum: false })
            .ok()
            .map(|shape| shape.chunks() + 1)
    };
    let whole = (1..=most.min(DISK_BYTES_MAX / CHUNK)).rev().map(|count| count * CHUNK);
    whole.chain([DISK_BYTES_MIN]).find(|size| chunks(*size).is_some_and(|it| it <= free))
}

/// Returns why the default disk has no room, and the options to use instead.
fn without_room(why: &ferrite_pool::Error) -> Failure {
    if !why.is_want_of_space() {
        return why.into();
    }
    let instead =
        "--no-disk makes no disk, --disk disk0=SIZE a smaller one, and --size a smaller pool where there is none";
    Failure::Failed(format!("{why}: {instead}"))
}

impl Up {
    /// Refuses contradicting options, before the command makes anything.
    pub(super) fn check_disks(&self) -> Outcome {
        let mut names: Vec<&str> = self.disk.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(Failure::Usage(format!("--disk {} is given twice", pair[0]))),
            None => Ok(()),
        }
    }

    /// Refuses, before anything is made, a new pool that is too small for its disks and file system.
    pub(super) fn check_size(&self, path: &Path) -> Outcome {
        let size = self.size.unwrap_or(SIZE);
        if path.exists() {
            return Ok(());
        }
        pool::check_size(size)?;
        let mut wanted: Vec<u64> = self.disk.iter().map(|(_, size)| *size).collect();
        if self.makes_disk0() {
            wanted.push(DISK_BYTES_MIN);
        }
        let (mut chunks, mut page_bytes) = (0, 0);
        for size in wanted {
            let shape = DiskShape::of(&self.spec(size))?;
            (chunks, page_bytes) = (chunks + shape.chunks(), page_bytes + shape.page_bytes());
        }
        let disks = if self.makes_disk0() { "a disk" } else { "these disks" };
        let files = if self.no_mount { 0 } else { FILES_CHUNKS };
        let what = match (self.no_disk, self.no_mount) {
            (false, false) => format!("{disks} and a file system"),
            (false, true) => disks.into(),
            (true, _) => "a file system".into(),
        };
        let (there, needed) = (size / CHUNK, FIXED_CHUNKS + chunks + page_bytes.div_ceil(CHUNK));
        if there < needed + files {
            let (size, least) = (size::show(size), size::written((needed + files) * CHUNK));
            let or = if there < needed { "" } else { ", or --no-mount" };
            return Err(Failure::Usage(format!(
                "a pool of {size} has no room for {what}: --size {least} at least{or}"
            )));
        }
        Ok(())
    }

    /// Returns true if a pool without disks gets a default disk.
    fn makes_disk0(&self) -> bool {
        self.disk.is_empty() && !self.no_disk
    }

    fn spec(&self, size: u64) -> DiskSpec {
        DiskSpec { size, sector_bytes: 512, thin: false, checksum: self.checksum }
    }

    /// Makes the pool if its file is missing. Returns true if it made the pool.
    pub(super) fn make_pool(&self, path: &Path) -> Outcome<bool> {
        if let Ok(there) = fs::metadata(path) {
            if self.size.is_some_and(|size| there.is_file() && there.len() != size) {
                let (path, bytes) = (path.display(), size::show(there.len()));
                remark!("{path} is there already and has {bytes}: `ferrite pool grow` makes it larger, not --size");
            }
            return Ok(false);
        }
        let size = self.size.unwrap_or(SIZE);
        let folder = path.parent().unwrap_or(Path::new("/"));
        self.ensure_folder(folder)?;
        // A process that is killed here leaves no file that looks like a pool, and none in the way of the next process.
        let partial = host::beside(path, &format!(".{}", ferrite_pool::show_uuid(&host::random_uuid()?)));
        make_pool_file(&partial, size).map_err(|error| format!("making {}: {error}", partial.display()))?;
        let placed = pool::ours(&partial)
            .and_then(|lock| pool::format(&lock, path))
            .and_then(|()| stop::go_on())
            .and_then(|()| match fs::hard_link(&partial, path) {
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
                other => Ok(other.map(|()| true).map_err(|error| format!("making {}: {error}", path.display()))?),
            });
        let _ = fs::remove_file(&partial);
        let is_new = placed?;
        host::persist_name(path)?;
        host::persist_name(folder)?;
        Ok(is_new)
    }

    /// Makes the folder of the default pool. The folder of another pool must exist.
    fn ensure_folder(&self, folder: &Path) -> Outcome {
        if self.pool.is_none() && host::named_pool().is_none() {
            return Ok(fs::create_dir_all(folder).map_err(|error| format!("making {}: {error}", folder.display()))?);
        }
        if folder.is_dir() {
            return Ok(());
        }
        let (name, typed) = (folder.display(), quoted(folder));
        Err(format!("there is no folder {name} to make a pool in: `mkdir -p {typed}` makes it").into())
    }

    pub(super) fn make_disks(&self, owner: &PoolOwner) -> Outcome {
        let there = disk_names(owner.pool());
        for (name, size) in &self.disk {
            let has = owner.pool().tag(name).ok().filter(|tag| there.contains(name) && tag.size != *size);
            if let Some(tag) = has {
                let bytes = size::show(tag.size);
                remark!("{name:?} is there already and has {bytes}: `ferrite disk resize` makes it larger, not --disk");
            }
        }
        let mut wanted: Vec<(String, u64)> = self.disk.clone();
        if self.makes_disk0() && disks(owner).all_names().is_empty() {
            wanted.push(("disk0".into(), self.disk0_bytes(owner)?));
        }
        let bar = Bar::new();
        for (name, size) in wanted.into_iter().filter(|(name, _)| !there.contains(name)) {
            let watch = &mut |progress: Progress| bar.show(&Progress { what: format!("making {name}"), ..progress });
            let made = ferrite_block::create_watched(owner.pool(), &name, &self.spec(size), watch);
            stop::go_on()?;
            made.map_err(|why| if self.makes_disk0() { without_room(&why) } else { why.into() })?;
        }
        Ok(())
    }

    /// Returns the size of the default disk: half of the bytes that the pool can get from its host, if that fits beside
    /// the rest. In memory the default is at most 512 MiB, because other programs need memory too. If not even the
    /// smallest disk fits, making the disk fails like any other.
    fn disk0_bytes(&self, owner: &PoolOwner) -> Outcome<u64> {
        let mapped = owner.memory().mapped.as_ref();
        let room = mapped.map(|mapped| mapped.host_room()).transpose()?.flatten();
        let lacked = room.map_or(0, |(lacked, left)| lacked.saturating_sub(left)).div_ceil(CHUNK);
        let of_host = |bytes: u64| (bytes / CHUNK).saturating_sub(lacked);
        let has_files = names(owner.pool()).iter().any(|name| name == FILES);
        let others = if self.no_mount || has_files { 0 } else { FILES_CHUNKS };
        let usage = owner.pool().usage();
        let free = of_host(usage.free_bytes).saturating_sub(others);
        let most = match mapped.map(|mapped| mapped.backing()) {
            Some(Backing::Shm | Backing::Hugetlb | Backing::Anon) | None => DISK_CHUNKS_IN_MEMORY,
            Some(Backing::Dax | Backing::File) => u64::MAX,
        };
        Ok(disk_bytes(most.min(of_host(usage.total_bytes) / 2), free).unwrap_or(DISK_BYTES_MIN))
    }
}

#[cfg(test)]
mod tests;
