//! The loads that write: many small files, updates of many files, updates of one.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use crate::options::Length;
use crate::scratch::Scratch;
use crate::{Error, Result, program};

/// A load.
pub(super) struct Load {
    pub(super) name: &'static str,
    /// The program without which there is none.
    pub(super) needs: &'static str,
    run: fn(&Path, &Scratch, &Size) -> Result<()>,
}

pub(super) const LOADS: [Load; 3] = [
    Load { name: "postmark", needs: "postmark", run: postmark },
    Load { name: "fio", needs: "fio", run: fio },
    Load { name: "rewrite", needs: "fio", run: rewrite },
];

/// How much they write.
struct Size {
    /// postmark's files.
    files: u64,
    /// postmark's transactions.
    transactions: u64,
    /// Files that fio updates.
    updated_files: u64,
    /// Bytes of the files of either load by fio, together, and of what is then written to them.
    bytes: u64,
}

impl Size {
    fn of(length: Length) -> Self {
        match length {
            Length::Full => Self { files: 20_000, transactions: 60_000, updated_files: 4000, bytes: 512 << 20 },
            Length::Quick => Self { files: 12_000, transactions: 30_000, updated_files: 2000, bytes: 192 << 20 },
            Length::Smoke => Self { files: 200, transactions: 200, updated_files: 50, bytes: 8 << 20 },
        }
    }
}

impl Load {
    /// Runs it in the folder at `home`.
    pub(super) fn run(&self, home: &Path, scratch: &Scratch, length: Length) -> Result<()> {
        (self.run)(home, scratch, &Size::of(length))
    }
}

/// Mail and news: small files are made, read, appended to and removed (Katcher 1997).
fn postmark(home: &Path, scratch: &Scratch, size: &Size) -> Result<()> {
    let Size { files, transactions, .. } = size;
    let orders = format!(
        "set location {}\nset number {files}\nset transactions {transactions}\nset size 512 32768\nset seed 42\nrun\nquit\n",
        home.display()
    );
    let path = scratch.path("orders");
    fs::write(&path, orders).map_err(Error::io(format!("writing {}", path.display())))?;
    settling(home, || program::run(Command::new("postmark").arg(&path)))
}

/// Pages of randomly chosen files, of thousands.
fn fio(home: &Path, _: &Scratch, size: &Size) -> Result<()> {
    let Size { updated_files, bytes, .. } = size;
    let files = format!("--nrfiles={updated_files}");
    update(home, bytes, &["--name=files", &files, "--file_service_type=random", "--openfiles=100"])
}

/// One large file is made, and then written over in random order.
fn rewrite(home: &Path, _: &Scratch, size: &Size) -> Result<()> {
    update(home, &size.bytes, &["--name=large"])
}

/// Files of `bytes` in all are made, then as many bytes written over them, a page at a time; durable every 64 pages.
fn update(home: &Path, bytes: &u64, which: &[&str]) -> Result<()> {
    let (folder, size) = (format!("--directory={}", home.display()), format!("--size={bytes}"));
    let mut fio = Command::new("fio");
    fio.args(which).args([&folder, &size]).args([
        "--rw=randwrite",
        "--bs=4k",
        "--ioengine=psync",
        "--overwrite=1",
        "--norandommap",
        "--fsync=64",
        "--randseed=42",
        "--allrandrepeat=1",
        "--fallocate=none",
        "--output=/dev/null",
    ]);
    program::run(&mut fio)?;
    settle(home)
}

/// How long what a load writes stays in the page cache alone, at most. What a load makes and removes
/// would else reach the disk or not, as the file system waits for long and the machine is slow.
const WAIT: Duration = Duration::from_millis(500);

/// Does `load`, all the time bringing to the disk what it has written at `home`, and in the end the rest.
fn settling(home: &Path, load: impl FnOnce() -> Result<()>) -> Result<()> {
    std::thread::scope(|scope| {
        let (end, ended) = channel::<()>();
        let settled = scope.spawn(move || -> Result<()> {
            while ended.recv_timeout(WAIT) == Err(RecvTimeoutError::Timeout) {
                settle(home)?;
            }
            settle(home)
        });
        let done = load();
        drop(end);
        let settled = settled.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        done.and(settled)
    })
}

/// What is left in the page cache goes to the disk.
fn settle(home: &Path) -> Result<()> {
    program::run(Command::new("sync").arg("--file-system").arg(home))
}
