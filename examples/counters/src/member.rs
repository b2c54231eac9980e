//! The file outside of the pool that has the sum of all counters: a member of the pool.
//!
//! ```text
//! file    one line: generation, sum, identity of the member
//! ```

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use ferrite_pool::tie::{self, Generation, PoolSide, Tie, TieEnds, TieStamp};
use ferrite_pool::{AtomicFile, Failure, MemberKind, Pool, PoolMember, show_uuid};

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
    sum.ok_or_else(|| ErrorKind::InvalidData.into())
}

impl MemberFile {
    /// Makes the file at `path` a member of `pool`; `uuid` is its identity, random.
    ///
    /// # Errors
    /// As [`Pool::add_member`].
    pub fn begin(pool: &Pool, path: PathBuf, uuid: [u8; 16]) -> Result<Self, Failure> {
        let label = path.file_name().map_or_else(|| "counters".into(), |name| name.to_string_lossy().into_owned());
        add_member(pool, uuid, label)?;
        Ok(Self { path, uuid, sum: None })
    }

    /// The identity of the member.
    pub fn uuid(&self) -> [u8; 16] {
        self.uuid
    }

    /// Writes `sum` to the file, if the file has another one. Durable on return (CN4).
    ///
    /// # Errors
    /// Those of the pool and of the file.
    pub fn write(&mut self, pool: &Pool, sum: u64) -> Result<(), Failure> {
        if self.sum != Some(sum) {
            SumEnds { pool, uuid: self.uuid, place: self.path.as_path(), sum }.write_sum()?;
            self.sum = Some(sum);
        }
        Ok(())
    }
}

fn add_member(pool: &Pool, uuid: [u8; 16], label: String) -> Result<(), Failure> {
    let (kind, generation) = (MemberKind::Disk, Generation::first(0));
    Ok(pool.add_member(&PoolMember { uuid, kind, generation, previous: None, size: 0, label })?)
}

/// The place of the line with the sum.
trait SumPlace {
    /// Returns the line, or `None` if nothing was written.
    fn line(&self) -> Result<Option<String>, Failure>;

    /// Replaces the line, whole or not at all. Durable on return.
    fn replace(&self, line: &str) -> Result<(), Failure>;
}

impl SumPlace for Path {
    fn line(&self) -> Result<Option<String>, Failure> {
        match fs::read_to_string(self) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            read => read.map(Some).map_err(|error| Failure::failed(format!("reading {}: {error}", self.display()))),
        }
    }

    fn replace(&self, line: &str) -> Result<(), Failure> {
        let mut file = AtomicFile::begin(self)?;
        let written = file.file().write_all(line.as_bytes());
        written.map_err(|error| Failure::failed(format!("writing {}: {error}", self.display())))?;
        Ok(file.finish()?)
    }
}

/// The pool and the place, while the place gets `sum`.
struct SumEnds<'a, P: ?Sized> {
    pool: &'a Pool,
    uuid: [u8; 16],
    place: &'a P,
    sum: u64,
}

impl<P: SumPlace + ?Sized> SumEnds<'_, P> {
    fn write_sum(&self) -> Result<(), Failure> {
        match tie::advance(self, 0)? {
            verdict if verdict.is_good() => Ok(()),
            verdict => Err(Failure::refused(format!(
                "the sum of member {} does not match the pool ({verdict:?}): export it again",
                show_uuid(&self.uuid)
            ))),
        }
    }
}

impl<P: SumPlace + ?Sized> PoolSide for SumEnds<'_, P> {
    type Error = Failure;

    fn load(&self) -> Result<Tie, Failure> {
        Ok(self.pool.member_tie(self.uuid).load()?)
    }

    fn set_current(&self, current: Generation) -> Result<(), Failure> {
        Ok(self.pool.member_tie(self.uuid).set_current(current)?)
    }

    fn set_previous(&self, previous: Option<Generation>) -> Result<(), Failure> {
        Ok(self.pool.member_tie(self.uuid).set_previous(previous)?)
    }
}

impl<P: SumPlace + ?Sized> TieEnds for SumEnds<'_, P> {
    /// Returns no stamp for a line of another member, which this one replaces.
    fn read(&self) -> Result<Option<TieStamp>, Failure> {
        let line = self.place.line()?.unwrap_or_default();
        let words: Vec<&str> = line.split_whitespace().collect();
        let [generation, _, uuid] = words[..] else { return Ok(None) };
        let generation = generation.parse().ok().and_then(Generation::of).filter(|_| uuid == show_uuid(&self.uuid));
        Ok(generation.map(|generation| TieStamp { identity: self.uuid, generation }))
    }

    fn write(&self, stamp: &TieStamp) -> Result<(), Failure> {
        self.place.replace(&format!("{} {} {}\n", stamp.generation.number(), self.sum, show_uuid(&self.uuid)))
    }
}

#[cfg(test)]
mod tests;
