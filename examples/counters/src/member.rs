//! The file outside of the pool that has the sum of all counters: a member of the pool.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use ferrite_pool::tie::{Generation, PoolSide};
use ferrite_pool::{Failure, MemberKind, Pool, PoolMember};

/// A file with the sum of all counters and the generation by which the pool knows it.
#[derive(Clone, Debug)]
pub struct MemberFile {
    path: PathBuf,
    uuid: [u8; 16],
    /// The sum in the file; `None` before the first writing.
    sum: Option<u64>,
}

/// Reads the sum from the file at `path`.
///
/// # Errors
/// Those of the file, and `InvalidData` if it is not such a file.
pub fn read_sum(path: &Path) -> io::Result<u64> {
    let mut text = String::new();
    File::open(path)?.read_to_string(&mut text)?;
    let sum = text.split_whitespace().nth(1).and_then(|word| word.parse().ok());
    sum.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

impl MemberFile {
    /// Makes the file at `path` a member of `pool`; `uuid` is its identity, random.
    ///
    /// # Errors
    /// As [`Pool::add_member`].
    pub fn begin(pool: &Pool, path: PathBuf, uuid: [u8; 16]) -> Result<Self, Failure> {
        let generation = Generation::first(0);
        let label = path.file_name().map_or_else(|| "counters".into(), |name| name.to_string_lossy().into_owned());
        let (kind, size) = (MemberKind::Disk, 0);
        pool.add_member(&PoolMember { uuid, kind, generation, previous: None, size, label })?;
        Ok(Self { path, uuid, sum: None })
    }

    /// The identity of the member.
    pub fn uuid(&self) -> [u8; 16] {
        self.uuid
    }

    /// Writes `sum` to the file, if the file has another one. The pool's side of the tie moves on first, so that an older
    /// copy of the file is known.
    ///
    /// # Errors
    /// Those of the pool and of the file.
    pub fn write(&mut self, pool: &Pool, sum: u64) -> Result<(), Failure> {
        if self.sum == Some(sum) {
            return Ok(());
        }
        let tie = pool.member_tie(self.uuid);
        let next = tie.load()?.current.next(0);
        tie.set_current(next)?;
        let partial = self.path.with_extension("new");
        let written = File::create(&partial).and_then(|mut file| {
            writeln!(file, "{} {sum}", next.number())?;
            file.sync_all()
        });
        let named = written.and_then(|()| fs::rename(&partial, &self.path));
        named.map_err(|error| Failure::failed(format!("writing {}: {error}", self.path.display())))?;
        tie.set_previous(Some(next))?;
        self.sum = Some(sum);
        Ok(())
    }
}
