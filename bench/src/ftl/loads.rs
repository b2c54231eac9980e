//! The loads that write: many small files, updates of many files, updates of one.

use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use crate::loads::postmark;
use crate::options::Length;
use crate::scratch::Scratch;
use crate::{Result, program};

/// A load.
pub(super) struct WearLoad {
    pub(super) name: &'static str,
    /// The program that the load runs.
    pub(super) needs: &'static str,
    run: fn(&Path, &Scratch, &WearSize) -> Result<()>,
}

pub(super) const LOADS: [WearLoad; 3] = [
    WearLoad { name: "postmark", needs: "postmark", run: small_files },
    WearLoad { name: "fio", needs: "fio", run: fio },
    WearLoad { name: "rewrite", needs: "fio", run: rewrite },
];

/// How much the loads write.
struct WearSize {
    /// postmark's files.
    files: u64,
    /// postmark's transactions.
    transactions: u64,
    /// Files that fio updates.
    updated_files: u64,
    /// Bytes of the files of either load by fio, together, and of what is then written to them.
    bytes: u64,
}

impl WearSize {
    fn of(length: Length) -> Self {
        Self {
            files: length.pick([20_000, 12_000, 200]),
            transactions: length.pick([60_000, 30_000, 200]),
            updated_files: length.pick([4000, 2000, 50]),
            bytes: length.pick([512 << 20, 192 << 20, 8 << 20]),
        }
    }
}

impl WearLoad {
    /// Runs the load in the folder `home`.
    pub(super) fn run(&self, home: &Path, scratch: &Scratch, length: Length) -> Result<()> {
        (self.run)(home, scratch, &WearSize::of(length))
    }
}

/// Mail and news: makes, reads, appends to and removes small files (Katcher 1997).
fn small_files(home: &Path, scratch: &Scratch, size: &WearSize) -> Result<()> {
    let mut postmark = postmark::command(&scratch.path("orders"), home, size.files, size.transactions, "")?;
    with_write_back(home, || program::run(&mut postmark))
}

/// Updates pages of files chosen at random among thousands.
fn fio(home: &Path, _: &Scratch, size: &WearSize) -> Result<()> {
    let WearSize { updated_files, bytes, .. } = size;
    let files = format!("--nrfiles={updated_files}");
    update(home, bytes, &["--name=files", &files, "--file_service_type=random", "--openfiles=100"])
}

/// Writes one large file, then overwrites it in random order.
fn rewrite(home: &Path, _: &Scratch, size: &WearSize) -> Result<()> {
    update(home, &size.bytes, &["--name=large"])
}

/// The options of every load by fio, separated by spaces.
const UPDATES: &str = "--rw=randwrite --bs=4k --ioengine=psync --overwrite=1 --norandommap --fsync=64 --randseed=42 \
                       --allrandrepeat=1 --fallocate=none --output=/dev/null";

/// Makes files of `bytes` in all, then overwrites as many bytes by pages, with an fsync every 64 pages.
fn update(home: &Path, bytes: &u64, which: &[&str]) -> Result<()> {
    let (folder, size) = (format!("--directory={}", home.display()), format!("--size={bytes}"));
    let mut fio = Command::new("fio");
    fio.args(which).args([&folder, &size]).args(UPDATES.split(' '));
    program::run(&mut fio)?;
    write_back(home)
}

/// How long a load's writes stay in the page cache at most. Otherwise the speed of the machine would decide whether a file
/// that is soon removed reaches the disk.
const WAIT: Duration = Duration::from_millis(500);

/// Runs `load` while another thread writes back the file system of `home`, again and again and at the end.
fn with_write_back(home: &Path, load: impl FnOnce() -> Result<()>) -> Result<()> {
    std::thread::scope(|scope| {
        let (end, ended) = channel::<()>();
        let written = scope.spawn(move || -> Result<()> {
            while ended.recv_timeout(WAIT) == Err(RecvTimeoutError::Timeout) {
                write_back(home)?;
            }
            write_back(home)
        });
        let done = load();
        drop(end);
        let written = written.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        done.and(written)
    })
}

/// Writes the page cache of the file system of `home` back to its disk.
fn write_back(home: &Path) -> Result<()> {
    program::run(Command::new("sync").arg("--file-system").arg(home))
}
