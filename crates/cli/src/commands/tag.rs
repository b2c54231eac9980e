//! `ferrite tag`.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use ferrite_owner::services::TagRequest;
use ferrite_owner::{TagReport, WatchedFiles};
use ferrite_pool::{OutputFile, TagKind};
use serde_json::Value;

use super::{WholePool, print};
use crate::command_pool;
use crate::inherited;
use crate::outcome::Outcome;
use crate::pool_argument::InPool;
use crate::size;

/// The bytes that are read from a pipe before the pool is opened.
const AHEAD_BYTES: u64 = 64 << 20;

/// Names in a pool: list them, store bytes under one, get them back
#[derive(Subcommand)]
pub enum Tag {
    /// List every tag: disks, file systems, objects, logs of databases, plain bytes
    List(WholePool),
    /// Store a file, or standard input, under a name; durable when it returns
    ///
    /// All or nothing: after a crash there is the whole new content, or what was there before.
    Put(Put),
    /// Write what is stored under a name to a file, or to standard output
    Get(InPool<GetWords>),
    /// Remove plain bytes, an object or a log that is no database's, with what it holds, and free its space; refused
    /// while it is in use
    Remove(InPool<TagName, true>),
}

#[derive(Args)]
pub struct PutWords {
    /// The name, 1 to 255 bytes of UTF-8
    name: String,
    /// What to store; standard input where it is missing or `-`. Of a pipe the first 64 MiB are read before the pool is
    /// reached; while more comes others are kept out of a pool that no `ferrite up` owns
    file: Option<PathBuf>,
}

#[derive(Args)]
pub struct Put {
    #[command(flatten)]
    at: InPool<PutWords>,
    /// Replace what is stored under the name: the bytes that it has, which are lost
    #[arg(long, value_name = "BYTES", value_parser = size::parse)]
    lose: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub struct GetWords {
    /// The name
    name: String,
    /// Where to write it; standard output where it is missing or `-`. A file appears whole or not at all. While a pipe
    /// takes it others are kept out of a pool that no `ferrite up` owns
    file: Option<PathBuf>,
}

#[derive(Args)]
pub struct TagName {
    /// The name
    name: String,
}

impl Tag {
    /// Runs the subcommand.
    pub fn run(self) -> Outcome {
        match self {
            Self::List(list) => show_all(&list),
            Self::Put(put) => put.run(),
            Self::Get(get) => get_content(get),
            Self::Remove(InPool { pool, words: TagName { name } }) => {
                command_pool::ask::<Value>(&pool.path()?, TagRequest::Remove { name }, None).map(drop)
            }
        }
    }
}

fn show_all(list: &WholePool) -> Outcome {
    let tags: Vec<TagReport> = command_pool::ask(&list.at.pool.path()?, TagRequest::List, None)?;
    print(list.json, &tags, |tags| {
        let mut text = format!("{:<24} {:<8} {:>12} {:>12}\n", "name", "kind", "size", "space");
        for tag in tags {
            // A file system has no size of its own, because it may use the whole pool.
            let has_size = tag.kind != TagKind::FILES.name();
            let size = if has_size { size::show(tag.size_bytes) } else { "-".into() };
            let space = size::show(tag.space_bytes);
            text += &format!("{:<24} {:<8} {size:>12} {space:>12}\n", tag.name, tag.kind);
        }
        text
    })
}

impl Put {
    fn run(self) -> Outcome {
        let Self { at: InPool { pool, words: PutWords { name, file } }, lose, json } = self;
        let (pool, request) = (pool.path()?, TagRequest::Put { name, lose });
        let input = match named(file.as_deref()) {
            Some(path) => {
                let file = File::open(path).map_err(|error| format!("opening {}: {error}", path.display()))?;
                if file.metadata()?.is_dir() {
                    return Err(format!("{} is a folder: name a file", path.display()).into());
                }
                file
            }
            None => inherited::input()?.as_fd().try_clone_to_owned()?.into(),
        };
        command_pool::look_at(&pool)?;
        let content = read_ahead(input)?;
        let tag: TagReport = command_pool::ask(&pool, request, content.iter().map(File::as_fd))?;
        print(json, &tag, |tag| format!("{}: {}, durable\n", tag.name, size::show(tag.size_bytes)))
    }
}

fn get_content(at: InPool<GetWords>) -> Outcome {
    let InPool { pool, words: GetWords { name, file } } = at;
    let (pool, request) = (pool.path()?, TagRequest::Get { name });
    let Some(path) = named(file.as_deref()) else {
        return command_pool::ask::<Value>(&pool, request, Some(inherited::output()?.as_fd())).map(drop);
    };
    let mut output = OutputFile::begin(path)?;
    command_pool::ask::<Value>(&pool, request, Some(output.file().as_fd()))?;
    Ok(output.finish()?)
}

/// Returns the content of `input` as a list of files to read in order. The writer of a pipe may be slow, or need the
/// pool itself. So this function reads up to [`AHEAD_BYTES`] of a pipe into memory.
fn read_ahead(input: File) -> Outcome<Vec<File>> {
    if input.metadata()?.is_file() {
        return Ok(vec![input]);
    }
    let describe = |error| format!("reading the content to store: {error}");
    let ahead = rustix::fs::memfd_create("ferrite: ahead", rustix::fs::MemfdFlags::CLOEXEC);
    let mut ahead = File::from(ahead.map_err(|error| describe(error.into()))?);
    // The input may be non-blocking.
    let mut go_on = |_| true;
    let mut watched = WatchedFiles::new(input.try_clone()?, "reading", 0, &mut go_on).take(AHEAD_BYTES);
    let read = io::copy(&mut watched, &mut ahead).map_err(describe)?;
    ahead.rewind().map_err(describe)?;
    // An ended input, such as a terminal, could continue, so it is not read again.
    Ok(if read < AHEAD_BYTES { vec![ahead] } else { vec![ahead, input] })
}

fn named(file: Option<&Path>) -> Option<&Path> {
    file.filter(|path| *path != Path::new("-"))
}

#[cfg(test)]
mod tests;
