//! What a command says when it serves: to people in a few lines, to programs in one line of JSON.

use std::path::{Path, PathBuf};

use ferrite_daemon::disks::AttachReport;
use ferrite_owner::paths::{in_line, quoted};
use ferrite_owner::{PoolReport, SurvivalReport};
use serde::Serialize;

use crate::outcome::Outcome;
use crate::size;

/// What people are told of disks that hold writes back.
const HELD_BACK: &str = "a write to a disk is durable when flushed";

/// What is served, from now until its process ends.
#[derive(Debug, Default, Serialize)]
pub struct Announcement {
    /// The pool's file; none where what is served lies in no pool.
    #[serde(serialize_with = "ferrite_owner::paths::show")]
    pub pool: Option<PathBuf>,
    /// The process that owns the pool, or else serves.
    pub owner_pid: u32,
    /// What the pool lies in, in one line.
    pub medium: Option<String>,
    /// The failures that the served pool survives.
    pub survives: Option<SurvivalReport>,
    /// Whether a write to its disks waits for a flush though what the pool lies in does not.
    #[serde(skip)]
    pub held_back: bool,
    /// Its bytes.
    pub total_bytes: Option<u64>,
    /// Those that are free.
    pub free_bytes: Option<u64>,
    /// It was not closed in order, and has been recovered.
    pub recovered: bool,
    /// What a killed server had left.
    pub cleared: Vec<String>,
    /// What is served.
    pub disks: Vec<AnnouncedDisk>,
    /// What is mounted.
    pub file_systems: Vec<AnnouncedFs>,
    /// The file that the server's messages go to, if it has no terminal.
    #[serde(serialize_with = "ferrite_owner::paths::show")]
    pub log: Option<PathBuf>,
    /// What ends the server, if it is not Ctrl-C.
    #[serde(skip)]
    pub ended_by: Option<String>,
}

/// A file system, and where it is mounted.
#[derive(Debug, Serialize)]
pub struct AnnouncedFs {
    /// Its name.
    pub name: String,
    /// The folder.
    #[serde(serialize_with = "ferrite_owner::paths::show")]
    pub mounted_on: Option<PathBuf>,
    /// Why it is not mounted although that was asked for.
    pub not_mounted: Option<String>,
}

/// A disk, and where it is reached.
#[derive(Debug, Default, Serialize)]
pub struct AnnouncedDisk {
    /// Its name.
    pub name: String,
    /// Where it is served over NBD.
    pub uris: Vec<String>,
    /// Its `/dev` node, where it has one.
    pub node: Option<AttachReport>,
    /// Why it has none although one was asked for.
    pub not_attached: Option<String>,
}

impl Announcement {
    /// Of disks in `pool`, by its owner, where a write may wait for a flush if they have a volatile cache.
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

    /// Says it.
    pub fn print(&self, json: bool, show: impl FnOnce(&Self) -> String) -> Outcome {
        super::print_line(json, self, show)
    }

    /// Where each disk is served, in a line each.
    pub fn show_uris(&self) -> String {
        let line = |name: &str, uri: &String| format!("{name} is served at {uri}\n");
        let uris = self.disks.iter().flat_map(|disk| disk.uris.iter().map(|uri| line(&disk.name, uri)));
        let held_back = self.held_back.then(|| format!("{HELD_BACK}\n"));
        uris.chain(held_back).collect()
    }

    /// All of it, and what to do next.
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
        text.extend(self.disks.iter().map(AnnouncedDisk::show));
        text.extend(self.file_systems.iter().map(AnnouncedFs::show));
        text += &self.log.as_deref().map(|log| format!("log       {}\n", in_line(log))).unwrap_or_default();
        let ended_by = self.ended_by.as_deref().unwrap_or("Ctrl-C");
        text + &format!("next      {}\n{ended_by} ends it.\n", self.next(pool))
    }

    /// The command to try next.
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
