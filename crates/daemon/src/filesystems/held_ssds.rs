//! What is on the SSDs of file systems, beside an image of the pool.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use ferrite_fs::{HeldTier, away_bytes};
use ferrite_owner::HeldOutside;
use ferrite_owner::paths::in_line;
use ferrite_pool::disk_stamp::DISK_STAMP_BYTES;
use ferrite_pool::{AtomicFile, Failure, FailureKind, Progress};

use super::{Filesystems, names};

/// The SSDs of one file system, while a backup copies them.
struct HeldSsds {
    /// The name of the file system.
    name: String,
    tier: HeldTier,
}

impl Filesystems {
    /// Returns the file systems with pages that are on SSDs only, and how many bytes those have.
    pub(super) fn away(&self) -> Result<Vec<(String, u64)>, Failure> {
        let away = |name: String| Ok((away_bytes(&self.pool, &name)?, name));
        let all: Result<Vec<(u64, String)>, Failure> = names(&self.pool).into_iter().map(away).collect();
        Ok(all?.into_iter().filter(|(bytes, _)| *bytes > 0).map(|(bytes, name)| (name, bytes)).collect())
    }

    /// Holds the SSDs of all file systems that have some.
    ///
    /// # Errors
    /// The kind [`FailureKind::Refused`] if pages of a file system are on its SSDs and it is not mounted.
    pub(super) fn hold_ssds(&self) -> Result<Vec<Box<dyn HeldOutside>>, Failure> {
        let mounted = self.mounted();
        for (name, _) in self.away()? {
            if !mounted.contains_key(&name) {
                return Err(Failure::refused(format!(
                    "{name:?} is not mounted: mount it, so that its SSDs can be copied"
                )));
            }
        }
        let mut held: Vec<Box<dyn HeldOutside>> = Vec::new();
        for (name, tree) in mounted.iter() {
            if let Some(tier) = tree.fs.hold_tier()? {
                held.push(Box::new(HeldSsds { name: name.clone(), tier }));
            }
        }
        Ok(held)
    }
}

impl HeldOutside for HeldSsds {
    fn copy(&self, image: &Path, watch: &mut dyn FnMut(Progress) -> bool) -> Result<Vec<PathBuf>, Failure> {
        let ssds = self.tier.ssds()?;
        let total = ssds.iter().map(|(_, held)| *held).sum();
        let (mut done, mut parts) = (0, Vec::new());
        for (ssd, (bytes, _)) in ssds.into_iter().enumerate() {
            let path = copy_path(image, &self.name, ssd + 1);
            let mut part = self.begin(&path)?;
            let file = part.file();
            file.set_len(bytes).map_err(|error| writing(&path, &error))?;
            let mut failed = Ok(());
            let copied = self.tier.copy(ssd, &mut |at, bytes| {
                done += bytes.len() as u64;
                let what = format!("copying the SSDs of {:?}", self.name);
                failed = if watch(Progress { done: done.min(total), total, what }) {
                    file.write_all_at(bytes, at).map_err(|error| writing(&path, &error))
                } else {
                    Err(Failure::new(FailureKind::Cancelled, "the backup was cancelled"))
                };
                failed.clone().map_err(|why| ferrite_fs::Error::Refused(why.to_string()))
            });
            failed?;
            copied?;
            parts.push((path, part));
        }
        parts.into_iter().map(|(path, part)| Ok(part.finish().map(|()| path)?)).collect()
    }
}

impl HeldSsds {
    /// Begins a copy with the name `path`.
    fn begin(&self, path: &Path) -> Result<AtomicFile, Failure> {
        let mut head = Vec::new();
        match File::open(path) {
            Ok(file) => {
                _ = file.take(DISK_STAMP_BYTES).read_to_end(&mut head).map_err(|error| writing(path, &error))?
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(writing(path, &error)),
        }
        self.tier.ensure_may_replace(&head).map_err(|why| Failure::refused(format!("{} {why}", in_line(path))))?;
        Ok(AtomicFile::begin(path)?)
    }
}

/// Returns the path of the copy of SSD number `ssd` of the file system called `name`, beside `image`.
fn copy_path(image: &Path, name: &str, ssd: usize) -> PathBuf {
    let mut path = image.as_os_str().to_owned();
    path.push(format!(".{}.ssd{ssd}", name.replace('/', "_")));
    path.into()
}

fn writing(path: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(format!("writing {}: {error}", in_line(path)))
}
