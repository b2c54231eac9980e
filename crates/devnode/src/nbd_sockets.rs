//! The connections between the kernel's NBD driver and the threads of this process that answer it.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use ferrite_disk::Disk;

use super::fuse::answer_under_pressure;
use ferrite_nbd as nbd;

/// Connections, each with a thread at our end.
#[derive(Debug)]
pub(super) struct NbdSockets {
    threads: Vec<JoinHandle<()>>,
}

impl NbdSockets {
    /// `count` connections to `disk`, and the kernel's ends of them.
    ///
    /// More than one let reads pass a flush, and let several cores copy. When the kernel's ends are gone the threads
    /// end and let go of the disk.
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

    /// Waits for the threads, which end when the kernel has let go of its ends.
    pub fn join(self) -> io::Result<()> {
        let ended: Vec<_> = self.threads.into_iter().map(JoinHandle::join).collect();
        match ended.into_iter().all(|end| end.is_ok()) {
            true => Ok(()),
            false => Err(io::Error::other("a thread that serves the node panicked")),
        }
    }
}

/// How a connection ends is the kernel's business, which takes another one or tells the node's users.
fn answer(disk: Arc<dyn Disk>, mut stream: UnixStream) {
    answer_under_pressure();
    let _ = nbd::serve_agreed(disk, &mut stream);
}
