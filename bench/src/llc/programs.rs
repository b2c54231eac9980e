//! The programs and the packages that have them.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::inputs::Inputs;
use crate::options::{BenchOptions, Length};
use crate::program;

/// A program with its arguments.
pub struct ProgramEntry {
    /// The name in the report.
    pub name: &'static str,
    /// Debian's package.
    pub package: &'static str,
    /// Whether it runs on eight threads, which share a cache of 8 MiB.
    pub is_threaded: bool,
    /// The path of the program, if it is installed.
    file: fn() -> Option<PathBuf>,
    /// The arguments in the folder of the inputs, separated by spaces.
    arguments: &'static str,
    /// Whether it is in the short run.
    is_quick: bool,
    /// The exit status of success.
    pub status: i32,
    /// Whether our own policy was designed without it (docs/policy.md).
    pub is_held_out: bool,
}

impl ProgramEntry {
    const fn new(
        name: &'static str,
        package: &'static str,
        file: fn() -> Option<PathBuf>,
        arguments: &'static str,
    ) -> Self {
        Self { name, package, is_threaded: false, file, arguments, is_quick: false, status: 0, is_held_out: false }
    }

    const fn quick(self) -> Self {
        Self { is_quick: true, ..self }
    }

    const fn threaded(self) -> Self {
        Self { is_threaded: true, ..self }
    }

    const fn ending(self, status: i32) -> Self {
        Self { status, ..self }
    }

    const fn held_out(self) -> Self {
        Self { is_held_out: true, ..self }
    }

    /// The words of the command.
    pub fn words(&self, inputs: &Inputs) -> Vec<OsString> {
        let file = (self.file)().unwrap_or_else(|| self.name.into());
        let arguments = self.arguments.split(' ').map(|word| word.replace("MOVES", &inputs.moves()).into());
        std::iter::once(file.into()).chain(arguments).collect()
    }
}

/// Every program: of one thread, of eight threads, and held out from the design of our policy.
const ALL: [ProgramEntry; 25] = [
    ProgramEntry::new("awk", "mawk", || program::find("mawk"), "-f count.awk text").quick(),
    ProgramEntry::new("bzip2", "bzip2", || program::find("bzip2"), "-k -c text").quick(),
    ProgramEntry::new("cc1", "gcc", compiler, "-quiet -O2 program.c -o /dev/null"),
    ProgramEntry::new(
        "gnugo",
        "gnugo",
        || Some("/usr/games/gnugo".into()),
        "--mode gtp --seed 1 --level 8 --gtp-input MOVES",
    ),
    ProgramEntry::new("gzip", "gzip", || program::find("gzip"), "-k -c text").quick(),
    ProgramEntry::new("hmmer", "hmmer", || program::find("phmmer"), "--cpu 0 --max one.fa all.fa").quick(),
    ProgramEntry::new("perl", "perl-base", || program::find("perl"), "words.pl"),
    ProgramEntry::new("python", "python3-minimal", python, "tables.py"),
    ProgramEntry::new("sort", "coreutils", || program::find("sort"), "--parallel=1 -S 64M lines").quick(),
    ProgramEntry::new("sort, 50 000 numbers", "coreutils", || program::find("sort"), "--parallel=1 numbers.1"),
    ProgramEntry::new("sort, 100 000 numbers", "coreutils", || program::find("sort"), "--parallel=1 numbers.2"),
    ProgramEntry::new("sort, 200 000 numbers", "coreutils", || program::find("sort"), "--parallel=1 numbers.4"),
    ProgramEntry::new("sqlite", "sqlite3", || program::find("sqlite3"), "-init tables.sql :memory: .quit").quick(),
    ProgramEntry::new("xz", "xz-utils", || program::find("xz"), "-T1 -5 -k -c text"),
    ProgramEntry::new("zstd", "zstd", || program::find("zstd"), "--single-thread -12 -c text"),
    ProgramEntry::new("sort, 8 threads", "coreutils", || program::find("sort"), "--parallel=8 -S 64M lines")
        .threaded()
        .quick(),
    ProgramEntry::new("xz, 8 threads", "xz-utils", || program::find("xz"), "-T8 -3 --block-size=256KiB -k -c text")
        .threaded(),
    ProgramEntry::new("zstd, 8 threads", "zstd", || program::find("zstd"), "-T8 -9 -B512K -c text").threaded(),
    ProgramEntry::new("as", "binutils", || program::find("as"), "program.s -o /dev/null").held_out(),
    ProgramEntry::new("diff", "diffutils", || program::find("diff"), "--minimal lines edited").ending(1).held_out(),
    ProgramEntry::new("jq", "jq", || program::find("jq"), "-c group_by(.k)|map(length)|add table.json").held_out(),
    ProgramEntry::new("lz4", "lz4", || program::find("lz4"), "-9 -c text").held_out(),
    ProgramEntry::new("ptx", "coreutils", || program::find("ptx"), "passage").held_out(),
    ProgramEntry::new("shuf", "coreutils", || program::find("shuf"), "--random-source=text lines").held_out(),
    ProgramEntry::new("tsort", "coreutils", || program::find("tsort"), "pairs").held_out().quick(),
];

/// The programs that are asked for and installed, and a note for each that is not installed.
pub fn ready(options: &BenchOptions) -> (Vec<&'static ProgramEntry>, Vec<String>) {
    let is_wanted = |entry: &&ProgramEntry| {
        let is_short = options.length != Length::Full;
        options.wants(entry.name) && (!is_short || entry.is_quick)
    };
    let (here, missing): (Vec<_>, Vec<_>) =
        ALL.iter().filter(is_wanted).partition(|entry| (entry.file)().is_some_and(|file| is_program(&file)));
    let note = |entry: &&ProgramEntry| format!("{} was left out (apt-get install {})", entry.name, entry.package);
    (here, missing.iter().map(note).collect())
}

/// Whether `file` is a binary: a script, which some installers leave, cannot be recorded.
fn is_program(file: &Path) -> bool {
    fs::read(file).is_ok_and(|bytes| bytes.starts_with(b"\x7fELF"))
}

/// The compiler proper; `gcc` only starts it.
fn compiler() -> Option<PathBuf> {
    let folders = fs::read_dir(format!("/usr/lib/gcc/{}-linux-gnu", std::env::consts::ARCH)).ok()?;
    folders.flatten().map(|folder| folder.path().join("cc1")).filter(|file| file.is_file()).max()
}

/// Debian's own Python, even if another one comes first in the path.
fn python() -> Option<PathBuf> {
    Some(PathBuf::from("/usr/bin/python3")).filter(|file| file.exists())
}
