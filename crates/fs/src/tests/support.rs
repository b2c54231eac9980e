//! A file system on lying memory, and how to look at all of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use ferrite_crash::{LyingMemory, Model};
use ferrite_memory::Memory;
use ferrite_pool::layout::CHUNK;
use ferrite_pool::{Format, Pool};

use crate::check::look;
use crate::format::inode::Inode;
use crate::tree::directory::{self, NameHit};
use crate::{Credentials, DataMode, FileKind, FileSystem, FsOptions, FsSpec, Ino, NewFile, Result, SetAttr, Time};

pub const BOOT: [u8; 16] = [9; 16];
pub const NAME: &str = "files";
pub const POOL_BYTES: u64 = 16 * CHUNK;

/// Bytes from which on files of tests are moved to superpages.
pub const SUPER_THRESHOLD: u64 = 3 << 20;

/// The owner of files in tests.
pub const ME: Credentials = Credentials { uid: 7, gid: 8 };

/// A file to be made.
pub fn new(kind: FileKind) -> NewFile {
    NewFile { kind, mode: 0o640, umask: 0, rdev: 0, by: ME }
}

/// A new pool of `bytes` with a file system of no files.
pub fn new_memory(model: Model, bytes: u64) -> Arc<LyingMemory> {
    let memory = LyingMemory::new(bytes, model);
    Pool::create(&memory, &Format { uuid: *b"files pool uuid.", boot_id: BOOT }).expect("a new pool");
    let memory = Arc::new(memory);
    let pool = Pool::open(memory.clone(), BOOT).expect("it opens").0;
    let spec = FsSpec {
        super_threshold_bytes: Some(SUPER_THRESHOLD),
        uid: ME.uid,
        gid: ME.gid,
        mode: 0o755,
        hash_seed: 77,
        now: Time(1_000_000_000),
    };
    FileSystem::create(&pool, NAME, &spec).expect("a new file system");
    pool.close().expect("it closes");
    memory.barrier().expect("nothing fails yet");
    memory.forget_trace();
    memory
}

/// Options with a clock that ticks by 10 ms a look.
pub fn options(data: Option<DataMode>) -> FsOptions {
    let ticks = AtomicI64::new(2_000_000_000);
    let clock = Arc::new(move || Time(ticks.fetch_add(10_000_000, Ordering::Relaxed)));
    FsOptions { data, read_only: false, clock }
}

/// Opens the file system in `memory`.
pub fn open(memory: &Arc<LyingMemory>, data: Option<DataMode>) -> Result<Arc<FileSystem>> {
    let pool = Pool::open(memory.clone(), BOOT)?.0;
    FileSystem::open(Arc::new(pool), NAME, options(data))
}

/// A file system of no files.
pub fn new_fs() -> Arc<FileSystem> {
    open(&new_memory(Model::MAPPED, POOL_BYTES), None).expect("it opens")
}

/// What one file is, as a user sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub kind: FileKind,
    pub mode: u16,
    pub links: u32,
    pub content: Vec<u8>,
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// Every path with its file; hard links differ by `links` alone.
pub type Tree = BTreeMap<Vec<u8>, Seen>;

/// All that a user sees.
pub fn tree(fs: &FileSystem) -> Result<Tree> {
    let mut tree = Tree::new();
    tree_below(fs, Ino::ROOT, b"", &mut tree)?;
    Ok(tree)
}

fn tree_below(fs: &FileSystem, dir: Ino, path: &[u8], tree: &mut Tree) -> Result<()> {
    tree.insert(path.to_vec(), seen(fs, dir)?);
    let mut children = Vec::new();
    fs.readdir(dir, 2, &mut |entry| {
        children.push((entry.name.to_vec(), entry.ino, entry.kind));
        true
    })?;
    for (name, ino, kind) in children {
        let path = [path, b"/", &name].concat();
        if kind == FileKind::Directory {
            tree_below(fs, ino, &path, tree)?;
        } else {
            let seen = seen(fs, ino)?;
            assert_eq!(seen.kind, kind);
            tree.insert(path, seen);
        }
    }
    Ok(())
}

/// All of one file.
pub fn seen(fs: &FileSystem, ino: Ino) -> Result<Seen> {
    let attr = fs.getattr(ino)?;
    let content = match attr.kind {
        FileKind::File => content(fs, ino)?,
        FileKind::Symlink => fs.readlink(ino)?,
        _ => Vec::new(),
    };
    let names = fs.xattrs(ino)?;
    let xattrs = names.into_iter().map(|name| Ok((name.clone(), fs.xattr(ino, &name)?))).collect::<Result<_>>()?;
    Ok(Seen { kind: attr.kind, mode: attr.mode, links: attr.links, content, xattrs })
}

/// All bytes of a file, of a huge one the first.
pub fn content(fs: &FileSystem, ino: Ino) -> Result<Vec<u8>> {
    let mut content = vec![0xaa; fs.getattr(ino)?.size.min(64 << 20) as usize];
    let read = fs.read(ino, 0, &mut content)?;
    content.truncate(read);
    Ok(content)
}

/// Panics unless the medium is what a check wants.
#[track_caller]
pub fn assert_sound(fs: &FileSystem) {
    let wrong = look(fs.pool(), &fs.tag());
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Does all that waits.
pub fn run_steps(fs: &FileSystem) {
    while fs.step().expect("steps work") {}
}

/// Cuts or grows a file.
pub fn resize(fs: &FileSystem, ino: Ino, size: u64) -> Result<()> {
    fs.setattr(ino, &SetAttr { size: Some(size), ..SetAttr::default() }).map(drop)
}

/// Runs `others` until `work` has ended.
pub fn beside(others: &[&(dyn Fn() + Sync)], work: impl FnOnce()) {
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for other in others {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    other();
                }
            });
        }
        let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        ended.store(true, Ordering::Relaxed);
        worked.unwrap_or_else(|why| std::panic::resume_unwind(why));
    });
}

/// The entry of `name` in `dir`, where it must be.
pub fn name_hit(fs: &FileSystem, dir: &Inode, name: &[u8]) -> NameHit {
    let name = directory::hash_name(fs, name).expect("a name");
    directory::find_name(fs, dir, &name).expect("it reads").expect("there")
}
