//! SSDs that commands give to file systems and caches.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use ferrite_cache::MemberAddress;
use ferrite_disk_address::make_file;
use ferrite_owner::paths::in_line;
use rustix::fs::statvfs;

use super::cache::member;
use crate::host::remove_unwritten;
use crate::outcome::{Failure, Outcome};
use crate::size;

/// An SSD, with the size of its file if the command may make that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSsd {
    at: MemberAddress,
    file_bytes: Option<u64>,
}

/// Parses `SSD[=SIZE]`. A text that ends with no size after a `=`, or names no file, is an address as a whole.
pub fn new_ssd(text: &str) -> Result<NewSsd, String> {
    let sized = text.rsplit_once('=').and_then(|(address, bytes)| Some((address, size::parse(bytes).ok()?)));
    if let Some((address, bytes)) = sized {
        let at = member(address)?;
        if !at.path.as_os_str().is_empty() {
            return Ok(NewSsd { at, file_bytes: Some(bytes) });
        }
    }
    Ok(NewSsd { at: member(text)?, file_bytes: None })
}

impl NewSsd {
    /// Returns the address, as a file system lists it.
    pub fn address(&self) -> &str {
        &self.at.address
    }

    /// Makes the file if it is missing. Returns its path if it was made.
    fn make(&self) -> Outcome<Option<&Path>> {
        let (path, address) = (&*self.at.path, &self.at.address);
        if path.as_os_str().is_empty() {
            return Ok(None);
        }
        match (fs::metadata(path), self.file_bytes) {
            (Ok(found), Some(bytes)) if !found.is_file() => {
                Err(Failure::Usage(format!("{} is no file and has its own size: leave out ={bytes}", in_line(path))))
            }
            (Ok(found), Some(bytes)) if found.len() != bytes => {
                let (path, bytes) = (in_line(path), size::show(found.len()));
                remark!("{path} is there already and has {bytes}: it keeps its size");
                Ok(None)
            }
            (Err(error), Some(bytes)) if error.kind() == ErrorKind::NotFound => {
                ensure_room(path, bytes)?;
                make_file(path, bytes)?;
                Ok(Some(path))
            }
            (Err(error), None) if error.kind() == ErrorKind::NotFound => {
                Err(format!("there is no file {}: {address}=SIZE makes one of that size", in_line(path)).into())
            }
            // The opening reports every other error.
            _ => Ok(None),
        }
    }
}

/// Refuses a file of `bytes` that its disk has no room for.
fn ensure_room(path: &Path, bytes: u64) -> Outcome {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let space = statvfs(folder).map_err(|error| format!("looking at {}: {error}", in_line(folder)))?;
    let free = space.f_bavail * space.f_frsize;
    if free < bytes {
        let (folder, free, bytes) = (in_line(folder), size::show(free), size::show(bytes));
        let why = format!("{folder} has {free} free, and the file of an SSD would take up to {bytes}");
        return Err(format!("{why}: give it less by `=SIZE`, or another folder").into());
    }
    Ok(())
}

/// Makes the missing files of `ssds`, sparse, and passes the addresses to `work`. Notes the new files in `made` if `work`
/// succeeds. If it fails, removes those to which nothing was written: another program may use the others by now.
pub fn with_files<T>(
    ssds: &[NewSsd],
    made: &mut Vec<PathBuf>,
    work: impl FnOnce(Vec<MemberAddress>) -> Outcome<T>,
) -> Outcome<T> {
    let is_repeated = |(number, ssd): &(usize, &NewSsd)| ssds[..*number].iter().any(|other| other.at == ssd.at);
    if let Some((_, ssd)) = ssds.iter().enumerate().find(is_repeated) {
        return Err(format!("the SSD {} is named twice", ssd.address()).into());
    }
    let all_made = ssds.iter().try_for_each(|ssd| {
        made.extend(ssd.make()?.map(Path::to_path_buf));
        Ok(())
    });
    let done = all_made.and_then(|()| work(ssds.iter().map(|ssd| ssd.at.clone()).collect()));
    if done.is_err() {
        made.drain(..).for_each(|path| remove_unwritten(&path));
    }
    done
}

#[cfg(test)]
mod tests {
    use ferrite_disk_address::open_member_file;

    use super::*;

    fn parsed(text: &str) -> NewSsd {
        new_ssd(text).expect("an SSD")
    }

    /// A size is what stands after the last `=`, if that is one and the address is a file.
    #[test]
    fn a_size_ends_the_address_of_a_file() {
        let sized = |text: &str| (parsed(text).address().to_string(), parsed(text).file_bytes);
        assert_eq!(sized("/a/ssd=4G"), ("/a/ssd".into(), Some(4 << 30)));
        assert_eq!(sized("/a/x=1/ssd"), ("/a/x=1/ssd".into(), None));
        assert_eq!(sized("/a/ssd=none"), ("/a/ssd=none".into(), None));
        assert_eq!(sized("nbd://host/x=4G").1, None);
    }

    /// A missing file is made, stays if the work succeeds or has written to it, and is removed otherwise.
    #[test]
    fn a_new_file_of_failed_work_is_removed_if_nothing_was_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ssd");
        let all = [parsed(&format!("{}=4M", path.display()))];
        let len = || fs::metadata(&path).map(|found| found.len()).ok();
        let refused = |_| -> Outcome { Err("refused".into()) };
        assert!(with_files(&all, &mut Vec::new(), refused).is_err());
        assert_eq!(len(), None);
        let mut made = Vec::new();
        with_files(&all, &mut made, |_| Ok(())).expect("made");
        assert_eq!((len(), &made), (Some(4 << 20), &vec![path.clone()]));
        assert!(with_files(&all, &mut Vec::new(), refused).is_err());
        assert_eq!(len(), Some(4 << 20), "another command made it");
        fs::remove_file(&path).expect("removed");
        let written = |_| -> Outcome { fs::write(&path, "data").map_err(Failure::from).and(Err("failed".into())) };
        assert!(with_files(&all, &mut Vec::new(), written).is_err());
        assert_eq!(len(), Some(4));
        fs::remove_file(&path).expect("removed");
        let mut user = None;
        let used = |_| -> Outcome {
            user = open_member_file(&path, false).ok();
            Err("failed".into())
        };
        made.clear();
        assert!(with_files(&all, &mut made, used).is_err());
        assert!(made.is_empty(), "the caller removes nothing of a disk");
        assert_eq!((len(), user.is_some()), (Some(4 << 20), true), "a disk uses it");
    }

    /// What cannot be made is refused, with the way out.
    #[test]
    fn a_missing_file_without_size_a_device_and_a_full_disk_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ssd").display().to_string();
        let why = |text: &str| {
            let refused = with_files(&[parsed(text)], &mut Vec::new(), |_| Ok(())).expect_err("refused");
            refused.text().to_string()
        };
        assert!(why(&path).contains("=SIZE makes one"), "{}", why(&path));
        assert!(why(&format!("{path}=100000T")).contains("would take up to"));
        assert!(why("/dev/null=4G").contains("leave out"));
        let twice = with_files(&[parsed(&format!("{path}=4M")), parsed(&path)], &mut Vec::new(), |_| Ok(()))
            .expect_err("refused");
        assert!(twice.text().contains("named twice"), "{}", twice.text());
        assert!(!Path::new(&path).exists());
    }
}
