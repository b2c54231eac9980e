//! `ferrite up`.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use ferrite_block::DiskSpec;
use ferrite_pool::layout::CHUNK;
use ferrite_pool::owner::{Claim, claim};
use ferrite_serve::attach;

use super::pool;
use crate::door::DoorArguments;
use crate::engine::{Engine, absolute};
use crate::host;
use crate::medium::MediumArguments;
use crate::outcome::Outcome;
use crate::reach::Reach;
use crate::request::{AttachReport, Serving};
use crate::served::disk_names;
use crate::size;
use crate::stop::Stop;

/// Make what is missing, recover what is there, serve everything, until Ctrl-C
///
/// Makes a pool and in it a disk called disk0 if there are none; serves every disk of the pool over NBD on a Unix
/// socket (POOL.nbd where none is named); as root it also makes each a /dev node. Started again, also after kill -9, it serves what was there at
/// once.
#[derive(Args)]
pub struct Up {
    /// The pool's file [default: ferrite/pool in the user's data directory]
    #[arg(long)]
    pool: Option<PathBuf>,
    /// Size of the pool if it is made
    #[arg(long, value_parser = size::parse, default_value = "1G")]
    size: u64,
    /// A disk to make if it is not there; repeatable [default: disk0 with half of the pool, in a pool without disks]
    #[arg(long, value_name = "NAME=SIZE", value_parser = disk)]
    disk: Vec<(String, u64)>,
    #[command(flatten)]
    door: DoorArguments,
    /// Make no /dev nodes
    #[arg(long)]
    no_attach: bool,
    /// Write a backup here when the power fails (SIGPWR, which a UPS sends), and go on serving
    #[arg(long, value_name = "IMAGE")]
    backup: Option<PathBuf>,
    #[command(flatten)]
    medium: MediumArguments,
}

fn disk(text: &str) -> Result<(String, u64), String> {
    let (name, bytes) = text.split_once('=').ok_or("write NAME=SIZE, such as disk0=512M")?;
    ferrite_pool::check_name(name).map_err(|error| error.to_string())?;
    Ok((name.into(), size::parse(bytes)?))
}

impl Up {
    /// Does it.
    pub fn run(self) -> Outcome {
        let mut stop = Stop::new()?;
        let path = absolute(&self.pool.clone().map_or_else(host::default_pool, Ok)?)?;
        self.medium.check()?;
        let backup = self.backup.as_deref().map(absolute).transpose()?;
        self.make_pool(&path)?;
        let lock = match claim(&path)? {
            Claim::Ours(lock) => lock,
            Claim::Held(holder) => {
                return Err(format!("{} is {holder}; other commands work beside it", path.display()).into());
            }
        };
        let engine = Arc::new(Engine::open(lock, &self.medium)?);
        clear(&engine);
        self.make_disks(&engine)?;
        let reach = Reach::Ours(Arc::clone(&engine));
        let listening = reach.listen()?;
        let door = self.door.door(&host::nbd_socket(&path))?;
        let tcp = engine.served().listen(&door, "", &Serving::default(), None)?;
        let nodes = self.attach(&engine);
        announce(&engine, (&door.unix, tcp), &nodes);
        drop(engine);
        reach.hold(listening, &mut stop, backup.as_deref())
    }

    fn make_pool(&self, path: &Path) -> Outcome {
        if path.exists() {
            return Ok(());
        }
        let folder = path.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(folder).map_err(|error| format!("making {}: {error}", folder.display()))?;
        // Whoever is killed here leaves nothing that is taken for a pool.
        let partial = host::beside(path, &format!(".{}", std::process::id()));
        let made = fs::File::create_new(&partial).and_then(|file| file.set_len(self.size));
        made.map_err(|error| format!("making {}: {error}", partial.display()))?;
        let formatted = pool::format(&partial, true, false, Some(self.size));
        let placed = formatted.and_then(|()| match fs::hard_link(&partial, path) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
            other => Ok(other.map_err(|error| format!("making {}: {error}", path.display()))?),
        });
        let _ = fs::remove_file(&partial);
        placed
    }

    fn make_disks(&self, engine: &Engine) -> Outcome {
        let there = disk_names(engine.pool());
        let mut wanted: Vec<(String, u64)> = self.disk.clone();
        if wanted.is_empty() && there.is_empty() {
            let half = engine.pool().usage().total_bytes / 2 / CHUNK * CHUNK;
            wanted.push(("disk0".into(), half));
        }
        for (name, size) in wanted.into_iter().filter(|(name, _)| !there.contains(name)) {
            ferrite_block::create(engine.pool(), &name, &DiskSpec { size, sector_bytes: 512, thin: false })?;
        }
        Ok(())
    }

    /// The nodes of the disks, or why there are none.
    fn attach(&self, engine: &Engine) -> Vec<(String, Result<AttachReport, String>)> {
        if self.no_attach {
            return Vec::new();
        }
        let serving = Serving::default();
        let attach = |name: String| {
            let node = engine.served().attach(&name, &serving);
            (name, node)
        };
        disk_names(engine.pool()).into_iter().map(attach).collect()
    }
}

/// Clears what a killed owner of the same pool left attached.
fn clear(engine: &Engine) {
    let directory = host::attach_directory(engine.pool().superblock().uuid);
    for what in attach::clear_stale(&directory) {
        println!("cleared   {what}");
    }
}

fn announce(
    engine: &Engine,
    (unix, tcp): (&Path, Option<SocketAddr>),
    nodes: &[(String, Result<AttachReport, String>)],
) {
    let usage = engine.pool().usage();
    let path = engine.lock().path().display();
    println!("pool      {path} ({}, {} free)", size::show(usage.total_bytes), size::show(usage.free_bytes));
    println!("          {}", engine.medium().line);
    if !engine.recovery().clean {
        println!("          recovered: it was not closed in order");
    }
    let names = disk_names(engine.pool());
    for name in &names {
        println!("{name:<9} nbd+unix:///{name}?socket={}", unix.display());
        if let Some(address) = tcp {
            println!("          nbd://{address}/{name}");
        }
        match nodes.iter().find(|(node, _)| node == name) {
            Some((_, Ok(node))) => {
                println!("          {} ({})", node.link.display(), node.device.display());
                node.notes.iter().for_each(|note| println!("          note: {note}"));
            }
            Some((_, Err(why))) => println!("          not attached: {why}"),
            None => {}
        }
    }
    let attached = nodes.iter().find_map(|(_, node)| node.as_ref().ok());
    let next = match (attached, names.first()) {
        (Some(node), _) => format!("mkfs.ext4 {0} && mount {0} /mnt", node.link.display()),
        (None, Some(name)) => format!("nbdinfo 'nbd+unix:///{name}?socket={}'", unix.display()),
        (None, None) => format!("ferrite disk create {path} disk0 --size 64M"),
    };
    println!("next      {next}");
    println!("Ctrl-C ends it.");
}
