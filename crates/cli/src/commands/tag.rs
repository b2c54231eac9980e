//! `ferrite tag`.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use ferrite_pool::{Partial, TagKind};
use serde_json::Value;

use super::{List, print};
use crate::outcome::Outcome;
use crate::reach;
use crate::request::{Request, TagReport};
use crate::size;

/// Names in a pool: list them, store bytes under one, get them back
#[derive(Subcommand)]
pub enum Tag {
    /// List every tag: disks, file systems, objects, logs of databases, plain bytes
    List(List),
    /// Store a file, or standard input, under a name; durable when it returns
    ///
    /// All or nothing: after a crash there is the whole new content, or what was there before.
    Put(Put),
    /// Write what is stored under a name to a file, or to standard output
    Get(Get),
    /// Remove plain bytes, an object or a log, with what it holds, and free its space; refused while it is in use
    Remove(Remove),
}

#[derive(Args)]
pub struct Put {
    /// The pool's file
    pool: PathBuf,
    /// The name, 1 to 255 bytes of UTF-8
    name: String,
    /// What to store; standard input where it is missing or `-`
    file: Option<PathBuf>,
    /// Replace what is stored under the name already
    #[arg(long)]
    replace: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub struct Get {
    /// The pool's file
    pool: PathBuf,
    /// The name
    name: String,
    /// Where to write it; standard output where it is missing or `-`. A file appears whole or not at all
    file: Option<PathBuf>,
}

#[derive(Args)]
pub struct Remove {
    /// The pool's file
    pool: PathBuf,
    /// The name
    name: String,
}

impl Tag {
    /// Does it.
    pub fn run(self) -> Outcome {
        match self {
            Self::List(list) => show_all(&list),
            Self::Put(put) => put.run(),
            Self::Get(get) => get.run(),
            Self::Remove(Remove { pool, name }) => {
                reach::ask::<Value>(&pool, Request::TagRemove { name }, None).map(drop)
            }
        }
    }
}

fn show_all(list: &List) -> Outcome {
    let tags: Vec<TagReport> = reach::ask(&list.pool, Request::TagList, None)?;
    print(list.json, &tags, |tags| {
        let mut text = format!("{:<24} {:<8} {:>12} {:>12}\n", "name", "kind", "size", "space");
        for tag in tags {
            // A file system may take all of its pool: it has no size of its own.
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
        let request = Request::TagPut { name: self.name, replace: self.replace };
        let tag: TagReport = match named(self.file.as_deref()) {
            Some(path) => {
                let file = File::open(path).map_err(|error| format!("opening {}: {error}", path.display()))?;
                if file.metadata()?.is_dir() {
                    return Err(format!("{} is a folder: name a file", path.display()).into());
                }
                reach::ask(&self.pool, request, Some(file.as_fd()))?
            }
            None => reach::ask(&self.pool, request, Some(io::stdin().as_fd()))?,
        };
        print(self.json, &tag, |tag| format!("{}: {}, durable\n", tag.name, size::show(tag.size_bytes)))
    }
}

impl Get {
    fn run(self) -> Outcome {
        let request = Request::TagGet { name: self.name };
        let Some(path) = named(self.file.as_deref()) else {
            return reach::ask::<Value>(&self.pool, request, Some(io::stdout().as_fd())).map(drop);
        };
        if std::fs::metadata(path).is_ok_and(|there| !there.is_file()) {
            let file = File::options().write(true).open(path);
            let file = file.map_err(|error| format!("opening {}: {error}", path.display()))?;
            return reach::ask::<Value>(&self.pool, request, Some(file.as_fd())).map(drop);
        }
        let mut partial = Partial::begin(path, 0o666)?;
        reach::ask::<Value>(&self.pool, request, Some(partial.file().as_fd()))?;
        Ok(partial.finish()?)
    }
}

fn named(file: Option<&Path>) -> Option<&Path> {
    file.filter(|path| *path != Path::new("-"))
}
