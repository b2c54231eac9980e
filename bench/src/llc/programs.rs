//! The programs and the packages that have them.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

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
    /// The name or the path of the program. Debian's own Python has a path, because another one may come first in `PATH`.
    file: &'static str,
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
    const fn new(name: &'static str, package: &'static str, file: &'static str, arguments: &'static str) -> Self {
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

    /// The path of the program, if it is installed.
    fn path(&self) -> Option<PathBuf> {
        match self.file {
            "cc1" => compiler(),
            path if path.starts_with('/') => Some(path.into()),
            name => program::find(name),
        }
    }

    /// The words of the command in the folder `inputs`. gnugo changes its folder, so that its moves need a path.
    pub fn words(&self, inputs: &Path) -> Vec<OsString> {
        let file = self.path().unwrap_or_else(|| self.name.into());
        let arguments = self.arguments.split(' ').map(|word| match word {
            "MOVES" => inputs.join("moves").into(),
            word => word.into(),
        });
        std::iter::once(file.into()).chain(arguments).collect()
    }
}

/// Every program: of one thread, of eight threads, and held out from the design of our policy.
const ALL: [ProgramEntry; 25] = [
    ProgramEntry::new("awk", "mawk", "mawk", "-f count.awk text").quick(),
    ProgramEntry::new("bzip2", "bzip2", "bzip2", "-k -c text").quick(),
    ProgramEntry::new("cc1", "gcc", "cc1", "-quiet -O2 program.c -o /dev/null"),
    ProgramEntry::new("gnugo", "gnugo", "/usr/games/gnugo", "--mode gtp --seed 1 --level 8 --gtp-input MOVES"),
    ProgramEntry::new("gzip", "gzip", "gzip", "-k -c text").quick(),
    ProgramEntry::new("hmmer", "hmmer", "phmmer", "--cpu 0 --max one.fa all.fa").quick(),
    ProgramEntry::new("perl", "perl-base", "perl", "words.pl"),
    ProgramEntry::new("python", "python3-minimal", "/usr/bin/python3", "tables.py"),
    ProgramEntry::new("sort", "coreutils", "sort", "--parallel=1 -S 64M lines").quick(),
    ProgramEntry::new("sort, 50 000 numbers", "coreutils", "sort", "--parallel=1 numbers.1"),
    ProgramEntry::new("sort, 100 000 numbers", "coreutils", "sort", "--parallel=1 numbers.2"),
    ProgramEntry::new("sort, 200 000 numbers", "coreutils", "sort", "--parallel=1 numbers.4"),
    ProgramEntry::new("sqlite", "sqlite3", "sqlite3", "-init tables.sql :memory: .quit").quick(),
    ProgramEntry::new("xz", "xz-utils", "xz", "-T1 -5 -k -c text"),
    ProgramEntry::new("zstd", "zstd", "zstd", "--single-thread -12 -c text"),
    ProgramEntry::new("sort, 8 threads", "coreutils", "sort", "--parallel=8 -S 64M lines").threaded().quick(),
    ProgramEntry::new("xz, 8 threads", "xz-utils", "xz", "-T8 -3 --block-size=256KiB -k -c text").threaded(),
    ProgramEntry::new("zstd, 8 threads", "zstd", "zstd", "-T8 -9 -B512K -c text").threaded(),
    ProgramEntry::new("as", "binutils", "as", "program.s -o /dev/null").held_out(),
    ProgramEntry::new("diff", "diffutils", "diff", "--minimal lines edited").ending(1).held_out(),
    ProgramEntry::new("jq", "jq", "jq", "-c group_by(.k)|map(length)|add table.json").held_out(),
    ProgramEntry::new("lz4", "lz4", "lz4", "-9 -c text").held_out(),
    ProgramEntry::new("ptx", "coreutils", "ptx", "passage").held_out(),
    ProgramEntry::new("shuf", "coreutils", "shuf", "--random-source=text lines").held_out(),
    ProgramEntry::new("tsort", "coreutils", "tsort", "pairs").held_out().quick(),
];

/// The programs that are asked for and installed, and a note for each that is not installed.
pub fn ready(options: &BenchOptions) -> (Vec<&'static ProgramEntry>, Vec<String>) {
    let is_wanted = |entry: &&ProgramEntry| {
        let is_short = options.length != Length::Full;
        options.wants(entry.name) && (!is_short || entry.is_quick)
    };
    let (here, missing): (Vec<_>, Vec<_>) =
        ALL.iter().filter(is_wanted).partition(|entry| entry.path().is_some_and(|file| is_program(&file)));
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
