//! A file that takes its place only when it is whole.
//!
//! What is written goes to `PATH.partial`, which its writer holds locked, and is renamed in the end: what was at PATH
//! stays until then, and a pool there stays for good. The part of a writer that was killed is taken over by the next one; that of a living one is not.

use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use ferrite_medium::Error as MediumError;

use crate::layout::SUPERBLOCKS;
use crate::{Error, Result, Superblock};

/// Most symbolic links in a row, as the kernel has it.
const LINKS_MAX: usize = 40;

/// A file being written. Dropped before [`Partial::finish`], it is gone.
#[derive(Debug)]
pub struct Partial {
    file: File,
    path: PathBuf,
    partial: PathBuf,
    is_whole: bool,
}

impl Partial {
    /// Begins to write what `path` is to be, with the permission bits `mode` less the umask. Where `path` is a symbolic
    /// link, all this is about where it leads.
    ///
    /// # Errors
    /// [`Error::Busy`] where somebody else writes it, [`Error::Limit`] where what is at either place is no plain file,
    /// [`Error::Occupied`] where it is a pool; none of these is waited for.
    pub fn begin(path: &Path, mode: u32) -> Result<Self> {
        if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
            return Err(Error::Limit(format!("{} is no file and would lose its place: name a file", path.display())));
        }
        ensure_no_pool(path)?;
        // By now the kernel has gone the same way, so it let us and there is an end.
        let path = led_to(path);
        let mut partial = path.as_os_str().to_owned();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let file = open_alone(&partial, mode)?;
        Ok(Self { file, path, partial, is_whole: false })
    }

    /// The file to write to.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Gives the file its name. All of it, and the name, is durable on return.
    ///
    /// # Errors
    /// [`Error::Occupied`] where a pool was made there meanwhile, [`Error::Medium`] where the system refuses: what was
    /// there stays, unless all that failed is to sync the folder.
    pub fn finish(mut self) -> Result<()> {
        self.file.sync_all().map_err(|error| told("syncing", &self.partial, error))?;
        // One may have been made there meanwhile.
        ensure_no_pool(&self.path)?;
        fs::rename(&self.partial, &self.path).map_err(|error| told("renaming", &self.partial, error))?;
        self.is_whole = true;
        settle_folder(&self.path)
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.is_whole {
            // Still locked, so it is nobody else's.
            let _ = fs::remove_file(&self.partial);
        }
    }
}

/// Where `path` leads, also if nothing is there yet.
pub fn led_to(path: &Path) -> PathBuf {
    let next = |at: &PathBuf| Some(at.parent()?.join(fs::read_link(at).ok()?));
    std::iter::successors(Some(path.to_path_buf()), next).take(LINKS_MAX).last().unwrap_or_default()
}

/// Refuses to write over the file at `path`, or in its place, if it holds a pool, sound or not, or if that cannot be told
/// (BK2).
///
/// # Errors
/// [`Error::Occupied`]; [`Error::Medium`] where it cannot be looked into.
pub fn ensure_no_pool(path: &Path) -> Result<()> {
    let kind = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found.map_err(|error| told("looking at", path, error))?.file_type(),
    };
    // A pipe would wait for who writes to it; a DAX device can only be mapped.
    if !kind.is_file() && !kind.is_block_device() {
        return Ok(());
    }
    let file = File::open(path).map_err(|error| told("looking into", path, error))?;
    for at in SUPERBLOCKS {
        let mut bytes = [0; 128];
        match file.read_exact_at(&mut bytes, at) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => continue,
            read => read.map_err(|error| told("looking into", path, error))?,
        }
        if !matches!(Superblock::decode(&bytes), Err(Error::NotAPool(_))) {
            let what = "holds a pool, of which nothing would be left: name another file";
            return Err(Error::Occupied(format!("{} {what}", path.display())));
        }
    }
    Ok(())
}

/// Opens the file to write to, alone. Whoever had it before may have renamed it between the opening and the lock: then
/// it is the good file now, and is not touched.
fn open_alone(partial: &Path, mode: u32) -> Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(mode);
    // Where others may write to the folder, neither a link of theirs is written through nor a pipe waited at.
    options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY);
    loop {
        let file = options.open(partial).map_err(|error| told("making", partial, error))?;
        let found = file.metadata().map_err(|error| told("looking at", partial, error))?;
        if !found.is_file() || found.nlink() > 1 {
            let what = "is no plain file of one name, and is not written to: remove it";
            return Err(Error::Limit(format!("{} {what}", partial.display())));
        }
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Error::Busy(format!("somebody else is writing {}: wait for that", partial.display())));
            }
            Err(TryLockError::Error(error)) => return Err(told("locking", partial, error)),
        }
        if is_at(&found, partial) {
            file.set_len(0).map_err(|error| told("emptying", partial, error))?;
            return Ok(file);
        }
    }
}

fn is_at(file: &Metadata, path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|there| (there.dev(), there.ino()) == (file.dev(), file.ino()))
}

fn settle_folder(path: &Path) -> Result<()> {
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let settled = File::open(folder).and_then(|folder| folder.sync_all());
    settled.map_err(|error| told("syncing", folder, error))
}

fn told(what: &str, path: &Path, error: io::Error) -> Error {
    MediumError::io(format!("{what} {}", path.display()), error).into()
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    const PRECIOUS: &[u8] = b"precious";

    fn begun(path: &Path) -> Partial {
        Partial::begin(path, 0o600).expect("begin")
    }

    #[test]
    fn what_was_there_stays_until_the_new_file_is_whole() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("file");
        fs::write(&path, PRECIOUS).expect("write");
        let mut given_up = begun(&path);
        given_up.file().write_all(b"half").expect("write");
        drop(given_up);
        assert_eq!(fs::read(&path).expect("read"), PRECIOUS);
        assert_eq!(fs::read_dir(folder.path()).expect("folder").count(), 1, "nothing is left beside it");
        let mut new = begun(&path);
        new.file().write_all(b"new").expect("write");
        new.finish().expect("finish");
        assert_eq!(fs::read(&path).expect("read"), b"new");
        assert_eq!(fs::metadata(&path).expect("metadata").permissions().mode() & 0o777, 0o600);
    }

    /// A link stays one, and what it leads to is made or replaced, by whatever way it says that.
    #[test]
    fn a_link_is_written_through() {
        let folder = tempfile::tempdir().expect("folder");
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("deep")).expect("made");
        symlink("second", path("first")).expect("link");
        symlink(path("deep/third"), path("second")).expect("link");
        symlink("../precious", path("deep/third")).expect("link");
        for content in [PRECIOUS, b"new"] {
            let mut partial = begun(&path("first"));
            partial.file().write_all(content).expect("write");
            assert!(path("precious.partial").exists(), "beside the file");
            partial.finish().expect("finish");
            assert_eq!(fs::read(path("precious")).expect("read"), content);
            assert!(["first", "second", "deep/third"].iter().all(|name| path(name).is_symlink()));
        }
        symlink("round", path("round")).expect("link");
        Partial::begin(&path("round"), 0o600).expect_err("it leads nowhere");
    }

    /// Whoever may write to the folder gets nothing overwritten by a link, and nobody made to wait by a pipe.
    #[test]
    fn links_and_pipes_in_its_place_are_refused() {
        let folder = tempfile::tempdir().expect("folder");
        let (path, precious) = (folder.path().join("file"), folder.path().join("precious"));
        let partial = folder.path().join("file.partial");
        fs::write(&precious, PRECIOUS).expect("write");
        symlink(&precious, &partial).expect("link");
        Partial::begin(&path, 0o600).expect_err("a symbolic link");
        fs::remove_file(&partial).expect("remove");
        fs::hard_link(&precious, &partial).expect("link");
        let said = Partial::begin(&path, 0o600).expect_err("a second name").to_string();
        assert!(said.contains("remove it"), "{said}");
        fs::remove_file(&partial).expect("remove");
        assert!(std::process::Command::new("mkfifo").arg(&partial).status().expect("mkfifo").success());
        let said = Partial::begin(&path, 0o600).expect_err("a pipe").to_string();
        assert!(said.contains("no plain file"), "{said}");
        assert_eq!(fs::read(&precious).expect("read"), PRECIOUS);
        assert!(partial.exists(), "it is not ours to remove");
    }

    #[test]
    fn two_writers_of_one_file_do_not_share_a_part() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("file");
        let mut first = begun(&path);
        first.file().write_all(b"first").expect("write");
        let refused = Partial::begin(&path, 0o600).expect_err("one writes it");
        // That may be a thread of this process.
        assert!(matches!(&refused, Error::Busy(why) if why.starts_with("somebody else")), "{refused}");
        first.finish().expect("finish");
        assert_eq!(fs::read(&path).expect("read"), b"first");
        begun(&path);
    }
}
