//! LMDB, libpmemobj and a plain file, each in a process that updates for a given time.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::child_process::ChildProcess;
use crate::scratch::Scratch;
use crate::session::BenchSession;
use crate::{Error, Result, program};

const SOURCE: &str = include_str!("peer.c");

/// The argument of the program, and the name in the report.
const PEERS: [(&str, &str); 4] =
    [("pmemobj", "libpmemobj"), ("lmdb-map", "LMDB, write-map"), ("lmdb", "LMDB"), ("file", "pwrite, fdatasync")];

/// A process that updates.
pub struct PeerProcess {
    /// The peer's name in the report.
    pub name: &'static str,
    process: ChildProcess,
}

impl PeerProcess {
    /// Nanoseconds of an update, the mean over `ms` milliseconds.
    pub fn update_ns(&mut self, ms: u64) -> Result<f64> {
        let answer = self.process.ask(&ms.to_string())?;
        answer.trim().parse().map_err(|_| program::strange(self.name, answer.trim()))
    }
}

/// The peers that this machine has, with their files in `scratch`.
pub fn start(session: &mut BenchSession<'_>, scratch: &Scratch) -> Result<Vec<PeerProcess>> {
    let Some(gcc) = program::find("gcc") else {
        session.left_out("every peer", "there is no gcc");
        return Ok(Vec::new());
    };
    let source = scratch.path("peer.c");
    std::fs::write(&source, SOURCE).map_err(Error::io("writing a peer's source"))?;
    let with_lmdb = compile(&gcc, &source, &["-DWITH_LMDB", "-llmdb"]);
    let with_pmemobj = compile(&gcc, &source, &["-DWITH_PMEMOBJ", "-lpmemobj", "-lpmem"]);
    let plain = compile(&gcc, &source, &[]);
    let mut peers = Vec::new();
    for (what, name) in PEERS {
        let program = match what {
            "pmemobj" => &with_pmemobj,
            "file" => &plain,
            _ => &with_lmdb,
        };
        let Ok(program) = program else {
            session.left_out(name, "its development package is not installed");
            continue;
        };
        let mut command = Command::new(program);
        // Otherwise libpmemobj flushes by msync.
        command.args([what.as_ref(), scratch.path(what).as_os_str()]).env("PMEM_IS_PMEM_FORCE", "1");
        peers.push(PeerProcess { name, process: ChildProcess::start_answering(name, command.stderr(Stdio::null()))? });
    }
    Ok(peers)
}

/// The program with `flags`, beside its source.
fn compile(gcc: &Path, source: &Path, flags: &[&str]) -> Result<PathBuf> {
    let suffix: String = flags.concat().chars().filter(char::is_ascii_alphanumeric).collect();
    let program = source.with_extension(format!("{suffix}.program"));
    program::run(Command::new(gcc).args(["-O2", "-o"]).arg(&program).arg(source).args(flags))?;
    Ok(program)
}

#[cfg(test)]
mod tests;
