//! The connections between the kernel's NBD driver and the threads of this process that answer it.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use ferrite_disk::Disk;

use super::fuse::answer_under_pressure;
use ferrite_nbd as nbd;

/// Connections, each served by a thread of this process.
#[derive(Debug)]
pub(super) struct NbdSockets {
    threads: Vec<JoinHandle<()>>,
}

impl NbdSockets {
    /// Opens `count` connections to `disk`; returns them with the kernel's ends.
    ///
    /// With more than one connection, reads pass a flush and several cores copy. When the kernel's ends are closed, the
    /// threads end and drop the disk.
    pub fn start(disk: &Arc<dyn Disk>, count: usize) -> io::Result<(Self, Vec<UnixStream>)> {
        let (mut threads, mut ends) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let (ours, kernels) = UnixStream::pair()?;
            let disk = Arc::clone(disk);
            threads.push(thread::Builder::new().name("ferrite-attach".into()).spawn(move || answer(disk, ours))?);
            ends.push(kernels);
        }
        Ok((Self { threads }, ends))
    }

    /// Waits for the threads, which end when the kernel has closed its ends.
    pub fn join(self) -> io::Result<()> {
        let ended: Vec<_> = self.threads.into_iter().map(JoinHandle::join).collect();
        match ended.into_iter().all(|end| end.is_ok()) {
            true => Ok(()),
            false => Err(io::Error::other("a thread that serves the node panicked")),
        }
    }
}

/// Serves one connection. An error of a connection is ignored here: the kernel uses another connection or reports the
/// error to the node's users.
fn answer(disk: Arc<dyn Disk>, mut stream: UnixStream) {
    answer_under_pressure();
    let _ = nbd::serve_agreed(disk, &mut stream);
}
