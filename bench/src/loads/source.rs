//! The source tree that loads work on: Debian's kernel source, or a part of it; where that is not installed, copies of
//! `/usr/include`.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Error, Result, program};

const SOURCES: &str = "/usr/src";
const HEADERS: &str = "/usr/include";
/// Unit of a tar archive.
const UNIT: usize = 512;

/// A source tree in an archive that is not compressed.
#[derive(Clone, Debug)]
pub struct SourceTree {
    archive: PathBuf,
}

impl SourceTree {
    /// Writes about `bytes` of the tree to the archive `path`; returns `None` if this machine has no source.
    pub fn make(path: &Path, bytes: u64) -> Result<Option<Self>> {
        let making = || Error::io(format!("making {}", path.display()));
        let mut into = BufWriter::new(File::create(path).map_err(making())?);
        let mut left = bytes;
        for copy in 0.. {
            let Some(mut packing) = packed(copy) else { break };
            let taken = take(&mut packing, &mut into, left)?;
            left = left.saturating_sub(taken);
            if taken == 0 || left < bytes / 16 {
                break;
            }
        }
        into.write_all(&[0; 2 * UNIT]).and_then(|()| into.flush()).map_err(making())?;
        Ok((left < bytes).then(|| Self { archive: path.to_owned() }))
    }

    /// Copies the archive to `home`, as `source.tar`.
    pub fn copy_to(&self, home: &Path) -> Result<()> {
        program::run(Command::new("cp").arg(&self.archive).arg(home.join("source.tar")))
    }

    /// Unpacks the archive in `home`, as `tree`.
    pub fn unpack_to(&self, home: &Path) -> Result<()> {
        let tree = home.join("tree");
        program::run(Command::new("mkdir").arg(&tree))?;
        program::run(Command::new("tar").arg("-xf").arg(&self.archive).arg("-C").arg(&tree))
    }
}

/// The command that writes copy `copy` of the tree as an archive to its output; the kernel has one copy.
fn packed(copy: u32) -> Option<Command> {
    let kernel = kernel().filter(|_| program::find("xz").is_some());
    let mut command = match kernel {
        Some(kernel) if copy == 0 => {
            let mut unpack = Command::new("xz");
            unpack.arg("-dc").arg(kernel);
            unpack
        }
        None if Path::new(HEADERS).is_dir() => {
            let mut pack = Command::new("tar");
            pack.args(["-cf", "-", "-C", HEADERS, "--transform", &format!("s,^,copy{copy}/,"), "."]);
            pack
        }
        _ => return None,
    };
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    Some(command)
}

fn kernel() -> Option<PathBuf> {
    let entries = fs::read_dir(SOURCES).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_kernel = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("linux-source-") && name.ends_with(".tar.xz")
    };
    entries.filter(is_kernel).max()
}

/// Copies whole entries, about `bytes` in all, from the archive that `packing` writes.
fn take(packing: &mut Command, into: &mut impl Write, bytes: u64) -> Result<u64> {
    let who = program::name(packing);
    let mut child = packing.spawn().map_err(Error::io(format!("starting {who}")))?;
    let mut from = BufReader::with_capacity(1 << 20, child.stdout.take().expect("piped"));
    let taken = take_entries(&mut from, into, bytes);
    // The rest of the archive is not read.
    let _ = child.kill();
    let _ = child.wait();
    taken.map_err(Error::io(format!("reading what {who} unpacks")))
}

/// Copies whole entries. An entry that describes the next one is never the last.
fn take_entries(from: &mut impl Read, into: &mut impl Write, bytes: u64) -> io::Result<u64> {
    let (mut taken, mut is_described) = (0, false);
    while taken < bytes || is_described {
        let mut head = [0; UNIT];
        from.read_exact(&mut head)?;
        if head == [0; UNIT] {
            break;
        }
        let octal: String = head[124..135].iter().map(|byte| char::from(*byte)).collect();
        let size =
            u64::from_str_radix(octal.trim(), 8).map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why))?;
        let body = size.next_multiple_of(UNIT as u64);
        into.write_all(&head)?;
        let copied = io::copy(&mut from.take(body), into)?;
        if copied < body {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        taken += UNIT as u64 + body;
        is_described = matches!(head[156], b'x' | b'g' | b'L' | b'K');
    }
    Ok(taken)
}

#[cfg(test)]
mod tests;
