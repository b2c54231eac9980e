//! Images of pools: `ferrite pool backup|restore`.

use std::fs::{File, OpenOptions};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use clap::Args;
use ferrite_pool::backup;

use super::pool::ours;
use super::print;
use crate::bar::Bar;
use crate::engine::absolute;
use crate::medium::{Medium, MediumArguments};
use crate::outcome::Outcome;
use crate::reach;
use crate::request::Request;
use crate::size;
use crate::stop;

#[derive(Args)]
pub struct Backup {
    /// The pool's file
    pool: PathBuf,
    /// The image to write
    image: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub struct Restore {
    /// The image
    image: PathBuf,
    /// The pool to make from it
    pool: PathBuf,
    /// Size of the new pool's file [default: as it was]
    #[arg(long, value_parser = size::parse)]
    size: Option<u64>,
    /// Restore over what is there, which is lost
    #[arg(long)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Backup {
    /// Does it.
    pub fn run(self) -> Outcome {
        let to = absolute(&self.image)?;
        let summary: backup::Summary = reach::ask(&self.pool, Request::PoolBackup { to }, None)?;
        print(self.json, &summary, |it| show_summary(&self.image, it))
    }
}

impl Restore {
    /// Does it.
    pub fn run(self) -> Outcome {
        let Self { image, pool, size, force, json } = self;
        stop::watch()?;
        let bar = Bar::new();
        // All of it, before anything is made.
        let mut input =
            BufReader::new(File::open(&image).map_err(|error| format!("opening {}: {error}", image.display()))?);
        let found = backup::verify(&mut input, &mut |it| bar.show(&it))?;
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&pool);
        let file = file.map_err(|error| format!("opening {}: {error}", pool.display()))?;
        let wanted = size.unwrap_or(found.pool_bytes);
        let lock = ours(&pool)?;
        if file.metadata()?.is_file() && file.metadata()?.len() < wanted {
            file.set_len(wanted)?;
        }
        let Medium { memory, line, .. } = MediumArguments::default().map(&lock)?;
        eprintln!("pool {}: {line}", pool.display());
        let restored = backup::restore_from(&image, &*memory, backup::Restore { force }, &mut |it| bar.show(&it));
        let summary = restored.map_err(|error| format!("{}: {error} (--force)", pool.display()))?;
        drop(bar);
        print(json, &summary, |it| show_summary(&pool, it))
    }
}

fn show_summary(path: &Path, it: &backup::Summary) -> String {
    let (used, pool, image) = (size::show(it.used_bytes), size::show(it.pool_bytes), size::show(it.image_bytes));
    format!("{}: {used} in use of a pool of {pool}; the image has {image}\n", path.display())
}
