//! Disks as files that programs map.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ferrite_devnode::{self as attach, AttachedFile, FileOptions};
use ferrite_memory::planted;
use ferrite_owner::{RUN_FOLDER, make_private_folder};
use ferrite_pool::Failure;
use parking_lot::RwLock;

use super::{FileReport, FileSpec, OpenDisks, Serving, attach_directory};

/// A disk that is a file, or is about to become one: then nothing else opens the disk (AF5 of `ferrite_devnode`).
#[derive(Clone)]
pub(super) enum FileSlot {
    /// A thread makes the file, or removes it.
    Changing,
    /// The file. One thread at a time removes it, with the write lock.
    Attached(Arc<RwLock<AttachedFile>>),
}

impl FileSlot {
    fn path(&self) -> Option<PathBuf> {
        match self {
            Self::Changing => None,
            Self::Attached(file) => Some(file.read().path().to_owned()),
        }
    }

    /// Returns true until the file is unmounted, by this process or by a person.
    fn is_there(&self) -> bool {
        match self {
            Self::Changing => true,
            Self::Attached(file) => file.read().is_there(),
        }
    }
}

impl OpenDisks {
    /// Makes a file of the disk called `name`, which no client uses.
    ///
    /// # Errors
    /// As [`OpenDisks::open`]. The kind [`ferrite_pool::FailureKind::Busy`] if a client uses the disk or it is a file
    /// already, [`ferrite_pool::FailureKind::Failed`] if the kernel cannot mount the file.
    pub fn attach_file(&self, name: &str, spec: &FileSpec) -> Result<FileReport, Failure> {
        let _turn = self.attaching.lock();
        self.ensure_no_file(name)?;
        self.files.lock().insert(name.into(), FileSlot::Changing);
        let made = self.make_file(name, spec);
        let mut files = self.files.lock();
        match made {
            Ok(file) => {
                let made = report(&file);
                files.insert(name.into(), FileSlot::Attached(Arc::new(RwLock::new(file))));
                Ok(made)
            }
            Err(why) => {
                files.remove(name);
                Err(why)
            }
        }
    }

    fn make_file(&self, name: &str, spec: &FileSpec) -> Result<AttachedFile, Failure> {
        attach::check_files().map_err(Failure::failed)?;
        // From the slot on no client opens the disk, and here none has it.
        self.while_closed(name, || Ok(()))?;
        let front = self.open_beside(name, &Serving::default())?;
        if let Some(path) = spec.named_path() {
            let refused = |error| Failure::failed(format!("making {}: {error}", path.display()));
            ferrite_mount::ensure_own_links(path.parent().unwrap_or(path)).map_err(refused)?;
        }
        let making = |error| Failure::failed(format!("making {RUN_FOLDER}: {error}"));
        make_private_folder(Path::new(RUN_FOLDER)).map_err(making)?;
        let options = FileOptions {
            name: name.into(),
            directory: attach_directory(self.pool.superblock().uuid),
            path: spec.named_path().map(Path::to_owned),
            owner: spec.owner(),
            threads: attach::Options::new(name, "").threads,
        };
        AttachedFile::new(front, &options).map_err(Failure::failed)
    }

    fn slot(&self, name: &str) -> Option<FileSlot> {
        self.files.lock().get(name).cloned()
    }

    fn slots(&self) -> Vec<(String, FileSlot)> {
        self.files.lock().iter().map(|(name, slot)| (name.clone(), slot.clone())).collect()
    }

    /// Returns the path of the file that shows the disk called `name`, if it is a file.
    pub(super) fn file_path(&self, name: &str) -> Option<String> {
        let slot = self.slot(name).filter(FileSlot::is_there)?;
        Some(slot.path()?.display().to_string())
    }

    /// Describes the file that shows the disk called `name`; `None` if it is no file.
    pub(super) fn file_report(&self, name: &str) -> Option<FileReport> {
        match self.slot(name).filter(FileSlot::is_there)? {
            FileSlot::Changing => None,
            FileSlot::Attached(file) => Some(report(&file.read())),
        }
    }

    /// Refuses another use of the disk called `name` while it is a file (AF5). A file that a person unmounted is
    /// cleared.
    ///
    /// # Errors
    /// The kind [`ferrite_pool::FailureKind::Busy`], with the path of the file.
    pub(super) fn ensure_no_file(&self, name: &str) -> Result<(), Failure> {
        let Some(slot) = self.slot(name).filter(|_| !planted!("daemon: a disk that is a file opens for others")) else {
            return Ok(());
        };
        if !slot.is_there() {
            return self.detach_file(name).map(drop);
        }
        let at = slot.path().map_or_else(|| "a file that is just changing".into(), |path| path.display().to_string());
        Err(Failure::busy(format!("{name:?} is the file {at}: end that first, by `ferrite guest detach`")))
    }

    /// Removes the file of the disk called `name`. Returns false if it is no file; then the leftovers of a killed owner
    /// are removed.
    ///
    /// # Errors
    /// The kind [`ferrite_pool::FailureKind::Busy`] with the programs that use the file, which stays then. The kind
    /// [`ferrite_pool::FailureKind::Failed`] if it is gone and not all that programs stored is durable.
    pub fn detach_file(&self, name: &str) -> Result<bool, Failure> {
        let file = match self.slot(name) {
            None => {
                attach::clear_stale(&attach_directory(self.pool.superblock().uuid));
                return Ok(false);
            }
            Some(FileSlot::Changing) => {
                return Err(Failure::busy(format!("the file of {name:?} is just changing: try again")));
            }
            Some(FileSlot::Attached(file)) => file,
        };
        // Other threads inspect the file while this one waits for the kernel.
        file.read().release().map_err(|error| Failure::busy(error.to_string()))?;
        self.files.lock().insert(name.into(), FileSlot::Changing);
        let ended = file.write().detach().map_err(Failure::failed);
        self.files.lock().remove(name);
        ended.map(|()| true)
    }

    /// Returns true if a disk is a file.
    pub(super) fn has_files(&self) -> bool {
        self.slots().iter().any(|(_, slot)| slot.is_there())
    }

    /// Refuses a file that is a disk of the pool: a write to it while the pool stands still would wait forever.
    pub(super) fn refuse_own_file(&self, file: &Path) -> Result<(), Failure> {
        let file = ferrite_pool::resolve_links(file);
        let is_own = |(_, slot): &(String, FileSlot)| slot.path().is_some_and(|path| path == file);
        self.slots().iter().find(|slot| is_own(slot)).map_or(Ok(()), |(name, _)| {
            Err(Failure::refused(format!("{} is the guest {name:?} itself: name another file", file.display())))
        })
    }

    /// Removes the files that no program uses. Returns the reasons why some stay.
    pub(super) fn detach_files(&self) -> Vec<String> {
        self.slots().iter().filter_map(|(name, _)| Some(self.detach_file(name).err()?.message)).collect()
    }

    /// Removes the files, even while programs use them: the programs get errors from then on.
    ///
    /// # Errors
    /// The first failure of a file some of whose bytes may be lost.
    pub(super) fn end_files(&self) -> Result<(), Failure> {
        let slots = std::mem::take(&mut *self.files.lock());
        let ended = slots.into_values().map(|slot| match slot {
            FileSlot::Changing => Ok(()),
            FileSlot::Attached(file) => file.write().end().map_err(Failure::failed),
        });
        ended.fold(Ok(()), Result::and)
    }
}

fn report(file: &AttachedFile) -> FileReport {
    FileReport { path: file.path().to_owned(), size: file.bytes(), notes: file.notes().to_vec() }
}
