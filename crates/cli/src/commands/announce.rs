//! The announcement of a server: a few lines for people, or one line of JSON for programs.

use std::path::{Path, PathBuf};

use ferrite_cache::CacheReport;
use ferrite_daemon::disks::AttachReport;
use ferrite_owner::paths::{in_line, quoted};
use ferrite_owner::{KeptReport, PoolReport, SurvivalReport};
use serde::Serialize;

use super::cache::show_line;
use crate::keeper::show_kept;
use crate::outcome::Outcome;
use crate::size;

/// The remark for people about disks that buffer writes.
const HELD_BACK: &str = "a write to a disk is durable when flushed";

/// Everything that a process serves, from now until its end.
#[derive(Debug, Default, Serialize)]
pub struct Announcement {
    /// The pool's file, or `None` if the served disk lies in no pool.
    #[serde(serialize_with = "ferrite_owner::paths::show")]
    pub pool: Option<PathBuf>,
    /// The id of the process that owns the pool or, without a pool, that serves.
    pub owner_pid: u32,
    /// The medium of the pool, described in one line.
    pub medium: Option<String>,
    /// The failures that the served pool survives.
    pub survives: Option<SurvivalReport>,
    /// True if a write to the disks waits for a flush although the medium needs none.
    #[serde(skip)]
    pub held_back: bool,
    /// Bytes of the pool.
    pub total_bytes: Option<u64>,
    /// Free bytes of the pool.
    pub free_bytes: Option<u64>,
    /// True if the pool was not closed in order, and the server recovered it.
    pub recovered: bool,
    /// True if the pool was gone, and the server restored it from the image that keeps it.
    pub restored: bool,
    /// The image that keeps the pool.
    pub kept: Option<KeptReport>,
    /// The nodes and mounts of a killed server that this server removed.
    pub cleared: Vec<String>,
    /// The served disks.
    pub disks: Vec<AnnouncedDisk>,
    /// The caches of the pool, whose disks are among the served ones.
    pub caches: Vec<CacheReport>,
    /// The file systems of the server.
    pub file_systems: Vec<AnnouncedFs>,
    /// The page with metrics for Prometheus, if one is served.
    pub metrics: Option<String>,
    /// The file that the server's messages go to, if it has no terminal.
    #[serde(serialize_with = "ferrite_owner::paths::show")]
    pub log: Option<PathBuf>,
    /// The way to stop the server, if it is not Ctrl-C.
    #[serde(skip)]
    pub ended_by: Option<String>,
}

/// A file system and its mount folder.
#[derive(Debug, Serialize)]
pub struct AnnouncedFs {
    /// The name of the file system.
    pub name: String,
    /// The mount folder, if the file system is mounted.
    #[serde(serialize_with = "ferrite_owner::paths::show")]
    pub mounted_on: Option<PathBuf>,
    /// The reason why a requested mount failed.
    pub not_mounted: Option<String>,
}

/// A disk and its addresses.
#[derive(Debug, Default, Serialize)]
pub struct AnnouncedDisk {
    /// The name of the disk.
    pub name: String,
    /// The NBD addresses of the disk.
    pub uris: Vec<String>,
    /// The reason why the disk of a cache is not served.
    pub not_served: Option<String>,
    /// The `/dev` node of the disk, if it has one.
    pub node: Option<AttachReport>,
    /// The reason why a requested node is missing.
    pub not_attached: Option<String>,
}

impl Announcement {
    /// Returns the announcement of `disks` in `pool`, by its owner. If `has_volatile_cache`, a write may wait for a
    /// flush.
    pub fn of(pool: &PoolReport, has_volatile_cache: bool, disks: Vec<AnnouncedDisk>) -> Self {
        let when_flushed = pool.survives.when_flushed || has_volatile_cache;
        Self {
            pool: Some(pool.path.clone()),
            owner_pid: pool.owner_pid.unwrap_or_else(std::process::id),
            medium: Some(pool.medium.clone()),
            survives: Some(SurvivalReport { when_flushed, ..pool.survives.clone() }),
            held_back: when_flushed && !pool.survives.when_flushed,
            total_bytes: Some(pool.usage.total_bytes),
            free_bytes: Some(pool.usage.free_bytes),
            disks,
            ..Self::default()
        }
    }

    /// Prints the announcement.
    pub fn print(&self, json: bool, show: impl FnOnce(&Self) -> String) -> Outcome {
        super::print_line(json, self, show)
    }

    /// Returns the address of each disk and the state of each cache, one per line.
    pub fn show_uris(&self) -> String {
        let line = |name: &str, uri: &String| format!("{name} is served at {uri}\n");
        let uris = self.disks.iter().flat_map(|disk| disk.uris.iter().map(|uri| line(&disk.name, uri)));
        let held_back = self.held_back.then(|| format!("{HELD_BACK}\n"));
        uris.chain(self.caches.iter().map(show_line)).chain(held_back).collect()
    }

    /// Returns the whole announcement, and the next command to try.
    pub fn show(&self) -> String {
        let mut text: String = self.cleared.iter().map(|what| format!("cleared   {what}\n")).collect();
        let pool = self.pool.as_deref().unwrap_or(Path::new(""));
        if let (Some(total), Some(free)) = (self.total_bytes, self.free_bytes) {
            text += &format!("pool      {} ({}, {} free)\n", in_line(pool), size::show(total), size::show(free));
        }
        text += &self.medium.as_ref().map(|medium| format!("          {medium}\n")).unwrap_or_default();
        let advice = self.survives.as_ref().and_then(SurvivalReport::advice);
        text.extend(advice.map(|advice| format!("          {advice}\n")));
        text.extend(self.held_back.then(|| format!("          {HELD_BACK}\n")));
        if self.recovered {
            text += "          recovered: it was not closed in order\n";
        }
        text += &self.kept.as_ref().map(|kept| format!("kept      {}\n", show_kept(kept))).unwrap_or_default();
        if self.restored {
            text += "          restored from it: the pool was gone\n";
        }
        text.extend(self.caches.iter().map(|cache| format!("cache     {}", show_line(cache))));
        text.extend(self.disks.iter().map(AnnouncedDisk::show));
        text.extend(self.file_systems.iter().map(AnnouncedFs::show));
        text += &self.metrics.as_ref().map(|at| format!("metrics   {at}\n")).unwrap_or_default();
        text += &self.log.as_deref().map(|log| format!("log       {}\n", in_line(log))).unwrap_or_default();
        let ended_by = self.ended_by.as_deref().unwrap_or("Ctrl-C");
        text + &format!("next      {}\n{ended_by} ends it.\n", self.next(pool))
    }

    /// Returns the next command to try.
    fn next(&self, pool: &Path) -> String {
        if let Some(point) = self.file_systems.iter().find_map(|fs| fs.mounted_on.as_deref()) {
            return format!("cp -r /etc {0} && df -h {0}", quoted(point));
        }
        let node = self.disks.iter().find_map(|disk| disk.node.as_ref());
        let uri = self.disks.iter().find_map(|disk| disk.uris.first());
        match (node, uri) {
            (Some(node), _) => format!("mkfs.ext4 {0} && mount {0} /mnt", quoted(&node.link)),
            (None, Some(uri)) => format!("nbdinfo '{uri}'"),
            (None, None) => format!("ferrite disk create {} disk0 --size 64M", quoted(pool)),
        }
    }
}

impl AnnouncedDisk {
    fn show(&self) -> String {
        let mut lines = self.uris.clone();
        lines.extend(self.not_served.iter().map(|why| format!("NOT served: {why}")));
        if let Some(node) = &self.node {
            lines.push(format!("{} ({}, {})", node.link.display(), node.device.display(), node.way));
            lines.extend(node.notes.iter().map(|note| format!("note: {note}")));
        }
        lines.extend(self.not_attached.iter().map(|why| format!("not attached: {why}")));
        let name = |at| if at == 0 { self.name.as_str() } else { "" };
        lines.iter().enumerate().map(|(at, line)| format!("{:<9} {line}\n", name(at))).collect()
    }
}

impl AnnouncedFs {
    fn show(&self) -> String {
        let at = self.mounted_on.as_ref().map(|point| format!("mounted on {}", in_line(point)));
        let not = self.not_mounted.as_ref().map(|why| format!("not mounted: {why}"));
        format!("{:<9} {}\n", self.name, at.or(not).unwrap_or_default())
    }
}
