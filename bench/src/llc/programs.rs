//! The programs, and where each comes from.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::inputs::Inputs;
use crate::options::{Length, Options};
use crate::program;

/// A program with its arguments.
pub struct Entry {
    /// Its name in the report.
    pub name: &'static str,
    /// Debian's package.
    pub package: &'static str,
    /// Whether it runs on eight threads, which share a cache of 8 MiB.
    pub is_threaded: bool,
    /// Its file, if it is installed.
    file: fn() -> Option<PathBuf>,
    /// Its arguments, in the folder of the inputs, separated by spaces.
    arguments: &'static str,
    /// Whether it is in the short run.
    is_quick: bool,
    /// Its exit status when all went well.
    pub status: i32,
    /// Whether our own policy was designed without it (docs/policy.md).
    pub is_held_out: bool,
}

impl Entry {
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

    /// What is run.
    pub fn words(&self, inputs: &Inputs) -> Vec<OsString> {
        let file = (self.file)().unwrap_or_else(|| self.name.into());
        let arguments = self.arguments.split(' ').map(|word| word.replace("MOVES", &inputs.moves()).into());
        std::iter::once(file.into()).chain(arguments).collect()
    }
}

/// By name: one thread, eight threads, and those that our own policy was not designed on.
const ALL: [Entry; 25] = [
    Entry::new("awk", "mawk", || program::find("mawk"), "-f count.awk text").quick(),
    Entry::new("bzip2", "bzip2", || program::find("bzip2"), "-k -c text").quick(),
    Entry::new("cc1", "gcc", compiler, "-quiet -O2 program.c -o /dev/null"),
    Entry::new("gnugo", "gnugo", || Some("/usr/games/gnugo".into()), "--mode gtp --seed 1 --level 8 --gtp-input MOVES"),
    Entry::new("gzip", "gzip", || program::find("gzip"), "-k -c text").quick(),
    Entry::new("hmmer", "hmmer", || program::find("phmmer"), "--cpu 0 --max one.fa all.fa").quick(),
    Entry::new("perl", "perl-base", || program::find("perl"), "words.pl"),
    Entry::new("python", "python3-minimal", python, "tables.py"),
    Entry::new("sort", "coreutils", || program::find("sort"), "--parallel=1 -S 64M lines").quick(),
    Entry::new("sort, 50 000 numbers", "coreutils", || program::find("sort"), "--parallel=1 numbers.1"),
    Entry::new("sort, 100 000 numbers", "coreutils", || program::find("sort"), "--parallel=1 numbers.2"),
    Entry::new("sort, 200 000 numbers", "coreutils", || program::find("sort"), "--parallel=1 numbers.4"),
    Entry::new("sqlite", "sqlite3", || program::find("sqlite3"), "-init tables.sql :memory: .quit").quick(),
    Entry::new("xz", "xz-utils", || program::find("xz"), "-T1 -5 -k -c text"),
    Entry::new("zstd", "zstd", || program::find("zstd"), "--single-thread -12 -c text"),
    Entry::new("sort, 8 threads", "coreutils", || program::find("sort"), "--parallel=8 -S 64M lines")
        .threaded()
        .quick(),
    Entry::new("xz, 8 threads", "xz-utils", || program::find("xz"), "-T8 -3 --block-size=256KiB -k -c text").threaded(),
    Entry::new("zstd, 8 threads", "zstd", || program::find("zstd"), "-T8 -9 -B512K -c text").threaded(),
    Entry::new("as", "binutils", || program::find("as"), "program.s -o /dev/null").held_out(),
    Entry::new("diff", "diffutils", || program::find("diff"), "--minimal lines edited").ending(1).held_out(),
    Entry::new("jq", "jq", || program::find("jq"), "-c group_by(.k)|map(length)|add table.json").held_out(),
    Entry::new("lz4", "lz4", || program::find("lz4"), "-9 -c text").held_out(),
    Entry::new("ptx", "coreutils", || program::find("ptx"), "passage").held_out(),
    Entry::new("shuf", "coreutils", || program::find("shuf"), "--random-source=text lines").held_out(),
    Entry::new("tsort", "coreutils", || program::find("tsort"), "pairs").held_out().quick(),
];

/// Those that are to be run and can be; what is said of the others.
pub fn ready(options: &Options) -> (Vec<&'static Entry>, Vec<String>) {
    let is_wanted = |entry: &&Entry| {
        let is_short = options.length != Length::Full;
        options.wants(entry.name) && (!is_short || entry.is_quick)
    };
    let (here, missing): (Vec<_>, Vec<_>) =
        ALL.iter().filter(is_wanted).partition(|entry| (entry.file)().is_some_and(|file| is_program(&file)));
    let told = |entry: &&Entry| format!("{} was left out (apt-get install {})", entry.name, entry.package);
    (here, missing.iter().map(told).collect())
}

/// A script in its place, such as some installers leave, cannot be recorded.
fn is_program(file: &Path) -> bool {
    fs::read(file).is_ok_and(|bytes| bytes.starts_with(b"\x7fELF"))
}

/// The compiler proper; `gcc` only starts it.
fn compiler() -> Option<PathBuf> {
    let folders = fs::read_dir(format!("/usr/lib/gcc/{}-linux-gnu", std::env::consts::ARCH)).ok()?;
    folders.flatten().map(|folder| folder.path().join("cc1")).filter(|file| file.is_file()).max()
}

/// Debian's own, whatever else is in the path.
fn python() -> Option<PathBuf> {
    Some(PathBuf::from("/usr/bin/python3")).filter(|file| file.exists())
}
