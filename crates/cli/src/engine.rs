//! A pool that this process owns, and what is done in it for whoever asks.

use std::fs::{File, Metadata};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ferrite_block::{DISK_BYTES_MAX, DiskSpec};
use ferrite_memory::Error as MediumError;
use ferrite_pool::{Freeze, Lock, Pool, Progress, PutOptions, Recovery, Tag, TagKind, backup, check};
use ferrite_sqlite_log::Office;
use serde_json::{Value, json};

use crate::host;
use crate::medium::{Medium, MediumArguments};
use crate::outcome::Outcome;
use crate::request::{DiskReport, PoolReport, Request, TagReport};
use crate::served::{Served, disk_names};
use crate::size;
use crate::survival::SurvivalReport;
use crate::trees::{self, Trees, Which};
use crate::warm::Warm;
use crate::watched::Watched;
use crate::wear::WearReport;

/// Called with how far a long request has come; whether to go on.
pub type OnProgress<'a> = &'a mut dyn FnMut(Progress) -> bool;

/// An owned, open pool.
pub struct Engine {
    pool: Arc<Pool>,
    path: PathBuf,
    medium: Medium,
    recovery: Recovery,
    served: Arc<Served>,
    databases: Office,
    trees: Arc<Trees>,
    lock: Lock,
}

impl Engine {
    /// Opens and recovers the pool whose file is locked by `lock`.
    pub fn open(lock: Lock, arguments: &MediumArguments) -> Outcome<Self> {
        let medium = arguments.map(&lock)?;
        let opened = Pool::open(Arc::clone(&medium.memory), host::boot_id()?);
        let (pool, recovery) = opened.map_err(|error| format!("{}: {error}", lock.path().display()))?;
        arguments.trust.trust_medium.map_or(Ok(()), |trusted| pool.trust_medium(trusted))?;
        let (pool, path) = (Arc::new(pool), lock.path().to_owned());
        let served = Arc::new(Served::new(Arc::clone(&pool), &path));
        let databases = Office::new(Arc::clone(&pool), host::boot_id()?);
        let trees = Arc::new(Trees::new(Arc::clone(&pool), &lock, arguments.sees_all()));
        let idle: [Arc<dyn Freeze>; 2] = [served.clone(), trees.clone()];
        idle.iter().for_each(|known| pool.register_freezer(Arc::downgrade(known)));
        Ok(Self { pool, path, medium, recovery, served, databases, trees, lock })
    }

    /// The pool.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// The lock on the pool's file.
    pub fn lock(&self) -> &Lock {
        &self.lock
    }

    /// What the pool lies in.
    pub fn medium(&self) -> &Medium {
        &self.medium
    }

    /// What opening found.
    pub fn recovery(&self) -> Recovery {
        self.recovery
    }

    /// Touches what the pool uses ahead of its use, until the result is dropped.
    pub fn warm(&self) -> Warm {
        Warm::start(&self.pool, Arc::clone(&self.medium.mapped))
    }

    /// Its open disks.
    pub fn served(&self) -> &Arc<Served> {
        &self.served
    }

    /// The logs of databases in it.
    pub fn databases(&self) -> &Office {
        &self.databases
    }

    /// Its mounted file systems.
    pub fn trees(&self) -> &Trees {
        &self.trees
    }

    /// Whether anything of it is mounted, attached or served.
    pub fn is_used(&self) -> bool {
        self.trees.is_mounted() || self.served.is_reached()
    }

    /// Stops serving and closes the pool in order.
    pub fn close(self) -> Outcome {
        let ended = self.trees.end().and(self.served.end());
        let Self { pool, path, served, databases, trees, .. } = self;
        drop((served, databases, trees));
        let Some(pool) = Arc::into_inner(pool) else {
            remark!(
                "{} is not closed in order, for some of it is still in use: who opens it next recovers it",
                path.display()
            );
            return Ok(ended?);
        };
        let closed = pool.close().map_err(|error| error.to_string());
        Ok(ended.and(closed)?)
    }

    /// Does what `request` asks on `connection`, where it comes from another process.
    pub fn execute(
        &self,
        request: Request,
        fds: Vec<OwnedFd>,
        connection: Option<u64>,
        on_progress: OnProgress<'_>,
    ) -> Outcome<Value> {
        let pool = &*self.pool;
        match request {
            Request::PoolInfo => Ok(serde_json::to_value(self.pool_report())?),
            Request::PoolCheck => Ok(json!(check::check_open(pool, &tag_owners(), &mut |it| _ = on_progress(it)))),
            Request::PoolWear { top } => {
                let counted = self.medium.counted.as_ref();
                let counted =
                    counted.ok_or("writes are not counted: start the pool's owner with --wear page or --wear line")?;
                Ok(json!(WearReport::from(&counted.wear(top))))
            }
            Request::PoolBackup { to, now } => {
                self.served.refuse_own(&to)?;
                let write = if now { backup::save_to } else { backup::backup_to };
                Ok(json!(write(pool, &to, host::random_uuid()?, on_progress)?))
            }
            Request::TagList => Ok(pool.tags().iter().map(|tag| json!(tag_report(tag))).collect()),
            Request::TagPut { name, lose } => {
                let files: Vec<File> = fds.into_iter().map(File::from).collect();
                let sizes = files.iter().map(|file| Some(file.metadata().ok().filter(Metadata::is_file)?.len()));
                let size = sizes.sum::<Option<u64>>().unwrap_or(0);
                let put = PutOptions { lose, size_hint_bytes: (size > 0).then_some(size) };
                let content = Watched::several(files, "storing", size, on_progress);
                let tag = pool.put(&name, &mut content.ok_or(NO_DESCRIPTOR)?, &put);
                let tag = tag.map_err(|error| self.taken(error))?;
                Ok(json!(tag_report(&tag)))
            }
            Request::TagGet { name } => self.get(&name, fds, on_progress),
            Request::TagRemove { name } => {
                let tag = pool.tag(&name)?;
                match tag.kind {
                    TagKind::DISK => Err(format!("{name:?} is a disk: use `ferrite disk remove`").into()),
                    // It may be mounted.
                    TagKind::FILES => Err(format!("{name:?} is a file system: use `ferrite fs remove`").into()),
                    // Its file would be left without it, and nobody could open that.
                    TagKind::DATABASE => Err(format!(
                        "{name:?} is the log of a database: `ferrite wal drain` gives it back, `ferrite wal forget` gives it up"
                    )
                    .into()),
                    TagKind::BYTES => Ok(json!(pool.remove_tag(&tag)?)),
                    _ => Ok(json!(self.pool.remove_unheld(&name)?)),
                }
            }
            other => self.execute_fs(other, connection, on_progress),
        }
    }

    fn get(&self, name: &str, fds: Vec<OwnedFd>, on_progress: OnProgress<'_>) -> Outcome<Value> {
        let size = self.pool.tag(name)?.size;
        match self.pool.get(name, &mut Watched::new(file(fds)?, "reading", size, on_progress)) {
            // A reader that has gone, as in `| head`, is no failure.
            Err(ferrite_pool::Error::Medium(MediumError::Io { source, .. }))
                if source.kind() == ErrorKind::BrokenPipe =>
            {
                Ok(Value::Null)
            }
            got => Ok(json!({ "bytes": got? })),
        }
    }

    fn execute_fs(&self, request: Request, connection: Option<u64>, on_progress: OnProgress<'_>) -> Outcome<Value> {
        let (pool, trees) = (&*self.pool, &self.trees);
        if let Request::FsUnmount(which) | Request::FsStat(which) = &request {
            trees.ensure_ours(which)?;
        }
        request.file_system().map_or(Ok(()), |name| self.ensure_file_system(name, request.wants_to_use()))?;
        match request {
            Request::FsList => Ok(json!(listed(|| trees::names(pool), |name| Ok(trees.report(name)?))?)),
            Request::FsCreate { name, super_threshold_bytes } => {
                if pool.tag(&name).is_ok() {
                    return Err(self.taken(ferrite_pool::Error::Exists(name)).into());
                }
                trees.create(&name, super_threshold_bytes)?;
                Ok(json!(trees.report(&name)?))
            }
            Request::FsRemove { name } => Ok(json!(trees.remove(&name)?)),
            Request::FsMount { name, mounting } => Ok(json!(trees.mount(&name, &mounting)?)),
            Request::FsUnmount(Which { name, .. }) => Ok(json!(trees.unmount(&name)?)),
            Request::FsStat(Which { name, .. }) => Ok(json!(trees.report(&name)?)),
            other => self.execute_disk(other, connection, on_progress),
        }
    }

    fn execute_disk(&self, request: Request, connection: Option<u64>, on_progress: OnProgress<'_>) -> Outcome<Value> {
        let (pool, served) = (&*self.pool, &self.served);
        request.disk().map_or(Ok(()), |name| self.ensure_disk(name, request.wants_to_use()))?;
        match request {
            Request::DiskList => Ok(json!(listed(|| disk_names(pool), |name| self.disk_report(name))?)),
            Request::DiskCreate { name, size, sector_bytes, thin, checksum } => {
                if size > DISK_BYTES_MAX {
                    let (size, most) = (size::show(size), size::show(DISK_BYTES_MAX));
                    return Err(format!("a disk of {size} is not possible: {most} at most").into());
                }
                if !size.is_multiple_of(u64::from(sector_bytes).max(1)) {
                    let bytes = size::show(u64::from(sector_bytes));
                    return Err(format!("a disk of {size} bytes is not possible: whole sectors of {bytes}").into());
                }
                let spec = DiskSpec { size, sector_bytes, thin, checksum };
                ferrite_block::create_watched(pool, &name, &spec, on_progress).map_err(|error| self.taken(error))?;
                Ok(json!(self.disk_report(&name)?))
            }
            Request::DiskRemove { name } => {
                let remove = || ferrite_block::remove(pool, &name).map_err(|error| error.to_string());
                Ok(json!(served.while_closed(&name, remove)?))
            }
            Request::DiskResize { name, size } => {
                served.resize(&name, size)?;
                Ok(json!(self.disk_report(&name)?))
            }
            Request::DiskServe { name, door, serving, overwrite } => {
                if overwrite {
                    served.ensure_node_unused(&name)?;
                }
                Ok(json!(served.listen(&door, &name, &serving, connection)?))
            }
            Request::DiskAttach { name, serving } => Ok(json!(served.attach(&name, &serving)?)),
            Request::DiskDetach { name } => Ok(json!(served.detach(&name)?)),
            Request::DiskStat { name } => Ok(json!(self.disk_report(&name)?)),
            other => Err(format!("{other:?} is no request about a disk").into()),
        }
    }

    /// Refuses a name that no disk has; advises to make one where it is `wanted`.
    pub fn ensure_disk(&self, name: &str, wanted: bool) -> Outcome {
        self.ensure_kind(name, TagKind::DISK, "disk", wanted)
    }

    fn ensure_file_system(&self, name: &str, wanted: bool) -> Outcome {
        self.ensure_kind(name, TagKind::FILES, "fs", wanted)
    }

    fn ensure_kind(&self, name: &str, kind: TagKind, command: &str, wanted: bool) -> Outcome {
        let called = |kind: TagKind| match kind {
            TagKind::DISK => "disk".to_string(),
            TagKind::FILES => "file system".into(),
            TagKind::BYTES => "tag of plain bytes".into(),
            other => format!("tag of kind {}", other.name()),
        };
        match self.pool.tag(name) {
            Ok(tag) if tag.kind == kind => Ok(()),
            Ok(tag) => Err(format!("{name:?} is no {}, but a {}", called(kind), called(tag.kind)).into()),
            Err(_) => {
                let create = if wanted { format!(", or `ferrite {command} create` it") } else { String::new() };
                let what = called(kind);
                Err(format!("there is no {what} called {name:?}: see `ferrite {command} list`{create}").into())
            }
        }
    }

    /// Returns `error`; if it is that a name is taken, with what can be done.
    fn taken(&self, error: ferrite_pool::Error) -> String {
        let ferrite_pool::Error::Exists(name) = &error else { return error.to_string() };
        let kind = self.pool.tag(name).map(|tag| tag.kind);
        match kind {
            Ok(TagKind::BYTES) => format!("{error}: choose another name, or `ferrite tag remove` that first"),
            Ok(TagKind::DISK) => format!("{error}, a disk: choose another name, or `ferrite disk remove` that first"),
            Ok(TagKind::FILES) => {
                format!("{error}, a file system: choose another name, or `ferrite fs remove` that first")
            }
            Ok(other) => format!("{error}, of kind {}: choose another name", other.name()),
            Err(_) => format!("{error}: choose another name"),
        }
    }

    /// What the pool is.
    pub fn pool_report(&self) -> PoolReport {
        PoolReport {
            uuid: ferrite_pool::show_uuid(&self.pool.superblock().uuid),
            version: self.pool.superblock().version,
            path: self.path.clone(),
            medium: self.medium.line(&self.pool.survival()),
            survives: SurvivalReport::of(&self.pool),
            owner_pid: None,
            usage: self.pool.usage(),
            tags: self.pool.tags().len() as u64,
        }
    }

    fn disk_report(&self, name: &str) -> Outcome<DiskReport> {
        let tag = self.pool.tag(name)?;
        let shape = ferrite_block::DiskShape::read(&tag)?;
        Ok(DiskReport {
            name: name.into(),
            size_bytes: shape.size,
            sector_bytes: shape.sector_bytes,
            thin: shape.thin,
            checksum: shape.checksum,
            space_bytes: space_bytes(&tag),
            reached_at: self.served.reached_at(name),
            usual: self.served.usual(),
            open: self.served.report(name),
        })
    }
}

/// What `report` tells of each of `names`, but of those that somebody has removed meanwhile.
fn listed<T>(names: impl Fn() -> Vec<String>, report: impl Fn(&str) -> Outcome<T>) -> Outcome<Vec<T>> {
    let mut reports = Vec::new();
    for name in names() {
        match report(&name) {
            Err(_) if !names().contains(&name) => {}
            told => reports.push(told?),
        }
    }
    Ok(reports)
}

/// Who knows what the tags of each kind hold.
pub fn tag_owners() -> check::TagOwners {
    let mut owners = check::TagOwners::default();
    owners.register(Box::new(ferrite_block::DiskOwner));
    owners.register(Box::new(ferrite_fs::FilesOwner));
    owners.register(Box::new(ferrite_object::ObjectOwner));
    owners.register(Box::new(ferrite_sqlite_log::DatabaseOwner));
    owners
}

const NO_DESCRIPTOR: &str = "the request came without its descriptor";

fn file(fds: Vec<OwnedFd>) -> Outcome<File> {
    let fd = fds.into_iter().next().ok_or(NO_DESCRIPTOR)?;
    Ok(fd.into())
}

fn tag_report(tag: &Tag) -> TagReport {
    TagReport {
        name: tag.name.clone(),
        kind: tag.kind.name().into(),
        size_bytes: tag.size,
        space_bytes: space_bytes(tag),
        generation: tag.generation,
    }
}

fn space_bytes(tag: &Tag) -> u64 {
    tag.extents.iter().map(|extent| extent.span().len).sum()
}

/// `path` as the owner, whose folder is another, finds it.
pub fn absolute(path: &Path) -> Outcome<PathBuf> {
    Ok(std::path::absolute(path)?)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn a_list_goes_on_without_what_is_removed_meanwhile() {
        let there = RefCell::new(vec!["a".to_string(), "b".into(), "c".into()]);
        let names = || there.borrow().clone();
        let report = |name: &str| match name {
            "b" => Err(format!("there is no {name}").into()),
            name => Ok(name.to_string()),
        };
        assert!(listed(names, report).is_err(), "what is there and cannot be told of is an error");
        let removing = |name: &str| {
            there.borrow_mut().retain(|it| it != "b");
            report(name)
        };
        assert_eq!(listed(names, removing).map_err(|why| why.text().to_string()), Ok(vec!["a".into(), "c".into()]));
    }
}
