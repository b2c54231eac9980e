//! LMDB, libpmemobj and a plain file, each in a process of its own that updates for as long as it is told to.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::scratch::Scratch;
use crate::{Error, Result, program};

const SOURCE: &str = include_str!("peer.c");

/// What is asked of the program, and its name in the report.
const PEERS: [(&str, &str); 4] =
    [("pmemobj", "libpmemobj"), ("lmdb-map", "LMDB, write-map"), ("lmdb", "LMDB"), ("file", "pwrite, fdatasync")];

/// A process that updates.
pub struct Peer {
    /// Its name in the report.
    pub name: &'static str,
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Peer {
    fn start(name: &'static str, command: &mut Command) -> Result<Self> {
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut process = started.map_err(Error::io(format!("starting {name}")))?;
        let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(Error::Server { who: name.into(), what: "it has no input or output".into() });
        };
        Ok(Self { name, process, input, output: BufReader::new(output) })
    }

    /// Nanoseconds of an update, the mean over `ms` milliseconds.
    pub fn update_ns(&mut self, ms: u64) -> Result<f64> {
        let mut line = String::new();
        let told = writeln!(self.input, "{ms}").and_then(|()| self.input.flush());
        told.and_then(|()| self.output.read_line(&mut line)).map_err(Error::io(format!("asking {}", self.name)))?;
        let strange = || Error::Server { who: self.name.into(), what: format!("it answered {line:?}") };
        line.trim().parse().map_err(|_| strange())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Those that this machine has, their files in `scratch`, and what is missing.
pub fn start(scratch: &Scratch, notes: &mut Vec<String>) -> Result<Vec<Peer>> {
    let Some(gcc) = program::find("gcc") else {
        notes.push("peers were left out: there is no gcc".into());
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
            notes.push(format!("{name} was left out: its development package is not installed"));
            continue;
        };
        let mut command = Command::new(program);
        // Else it would flush by msync, as if there were no way to flush memory.
        command.args([what.as_ref(), scratch.path(what).as_os_str()]).env("PMEM_IS_PMEM_FORCE", "1");
        peers.push(Peer::start(name, &mut command)?);
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
