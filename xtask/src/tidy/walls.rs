//! The packages of the workspace, what each is for, and which others each may name. The manifests are held against this
//! list, and the drawing in ARCHITECTURE.md is made from it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::{CheckedProject, RuleFinding, package_of};
use crate::manifest::{self, Dependency, DependencyTable};

/// A package.
struct PackageRow {
    name: &'static str,
    /// What the package is for, in a few words.
    purpose: &'static str,
    /// The packages that it may name beside those that these may name.
    stands_on: &'static [&'static str],
}

const fn row(name: &'static str, purpose: &'static str, stands_on: &'static [&'static str]) -> PackageRow {
    PackageRow { name, purpose, stands_on }
}

/// The packages, from the top down. Each may name every package that its own packages may name.
const PACKAGES: &[PackageRow] = &[
    row("xtask", "the project's own commands", &[]),
    row("tests", "the programs end to end", &["object", "block", "fs"]),
    row("fuzz", "targets that fuzzers and `replay` run", &["cli"]),
    row("cli", "the program `ferrite`: commands and printing", &["daemon", "bench"]),
    row(
        "bench",
        "experiments, beside the papers and beside peers",
        &[
            "disk-address",
            "mount",
            "devnode",
            "sim",
            "fs-client",
            "sqlite-log",
            "block",
            "cache",
            "guest",
            "object",
            "wal",
        ],
    ),
    row(
        "daemon",
        "what `ferrite up` adds: disks, nodes, mounts, metrics",
        &[
            "disk-address",
            "mount",
            "devnode",
            "fs-client",
            "sqlite-log",
            "block",
            "cache",
            "guest",
            "object",
            "wal",
            "counters",
        ],
    ),
    row(
        "bindings",
        "pools for C, Python and SQLite",
        &["fs-client", "object", "sqlite-log", "guest", "wal", "counters"],
    ),
    row("preload", "the library that `ferrite run` loads into programs", &["fs-client", "guest"]),
    row("disk-address", "from an address to a disk, and the host's clock", &["nbd", "sim", "pool"]),
    row("mount", "a file system as a folder, over FUSE", &["fs", "fuse"]),
    row("devnode", "a disk as a node in /dev", &["nbd", "fuse"]),
    row("nbd", "server and client of the NBD protocol", &["disk"]),
    row("fs-client", "files read and written beside the owner", &["fs"]),
    row("sqlite-log", "the log of an SQLite database in a pool", &["owner"]),
    row("sim", "models of caches and of flash", &["disk"]),
    row("counters", "an example: a service that is one crate", &["owner"]),
    row("fs", "service: a tree of files in a tag", &["owner"]),
    row("object", "service: values, queues, maps and logs of programs", &["owner"]),
    row("block", "service: a disk in a tag", &["owner"]),
    row("cache", "service: SSDs as a cache before disks", &["owner"]),
    row("guest", "service: a guest's memory in fewer pages, and a disk", &["owner"]),
    row("wal", "service: a log in a tag, drained to a file", &["owner"]),
    row("fuse", "mounts and threads that nodes and file systems share", &["memory"]),
    row("owner", "one process owns a pool and others share it", &["pool"]),
    row("pool", "formatted memory: tags, transactions, recovery, backup", &["disk"]),
    row("crash", "memory and disks that lie; for tests alone", &["disk"]),
    row("disk", "the trait `Disk`: queues, files, simulated drives", &["memory"]),
    row("memory", "the trait `Memory`: mappings, guards, copies, pins", &[]),
];

/// Packages that the tests of another package may name beside `crash`.
const TESTED_WITH: &[(&str, &str)] = &[("mount", "fs-client")];

/// Runtimes that no package below the edge may stand on.
const ASYNC_RUNTIMES: [&str; 9] =
    ["tokio", "async-std", "smol", "futures", "async-executor", "glommio", "monoio", "compio", "tokio-uring"];

/// External crates of the edge: front ends' protocols and command lines.
const EDGE_CRATES: [&str; 6] = ["fuser", "clap", "vhost", "vhost-user-backend", "libublk", "virtio-queue"];

/// The page with the drawing.
pub const PAGE: &str = "ARCHITECTURE.md";

/// The lines around the drawing on the page.
const MARKERS: [&str; 2] = ["<!-- map: written by `cargo xtask ledger` -->\n", "<!-- end of the map -->\n"];

pub(super) fn check(project: &CheckedProject<'_>, findings: &mut Vec<RuleFinding>) {
    for file in project.tree.ending("Cargo.toml") {
        let Some(package) = package_of(&file.path) else { continue };
        for dependency in manifest::dependencies(&file.text) {
            let what = refusal(package, &dependency);
            findings.extend(what.map(|what| RuleFinding::new(&file.path, dependency.line, what)));
        }
        if file.text.lines().any(|line| line.starts_with('[') && line.contains("dependencies.")) {
            findings.push(RuleFinding::new(
                &file.path,
                1,
                "write each dependency in one line below the header of its table",
            ));
        }
        if file.path != "fuzz/Cargo.toml" && !file.text.contains("[lints]\nworkspace = true") {
            let what = "the lints of the workspace do not hold here: add `[lints]` with `workspace = true`";
            findings.push(RuleFinding::new(&file.path, 1, what));
        }
    }
    absent(project, findings);
    if let Some(page) = project.tree.text(PAGE)
        && with_map(page).is_none_or(|drawn| drawn != page)
    {
        findings.push(RuleFinding::new(
            PAGE,
            1,
            "the drawing differs from the list of packages: run `cargo xtask ledger`",
        ));
    }
}

/// Finds the rows without a package. The trees of tests have few packages.
fn absent(project: &CheckedProject<'_>, findings: &mut Vec<RuleFinding>) {
    if project.tree.text("xtask/Cargo.toml").is_none() {
        return;
    }
    for row in PACKAGES {
        let is_there = project.tree.ending("Cargo.toml").any(|file| package_of(&file.path) == Some(row.name));
        if !is_there {
            findings.push(RuleFinding::new(
                "xtask/src/tidy/walls.rs",
                1,
                format!("no package `{}`: remove its row", row.name),
            ));
        }
    }
}

/// Returns why `package` may not have `dependency`, if that is so.
fn refusal(package: &str, dependency: &Dependency) -> Option<String> {
    let Some(allowed) = allowed(package) else {
        return Some(format!("package `{package}` has no row in xtask/src/tidy/walls.rs: add one"));
    };
    let name = dependency.name.as_str();
    if let Some(named) = name.strip_prefix("ferrite-") {
        let is_dev = dependency.table == DependencyTable::Dev;
        // A binding is a package of its own below the one name.
        let is_own = named == package || package == "bindings" && ["c", "python", "sqlite"].contains(&named);
        if is_own || allowed.contains(named) || is_dev && (named == "crash" || TESTED_WITH.contains(&(package, named)))
        {
            return None;
        }
        if named == "crash" {
            return Some("`crash` is for tests alone: name it under [dev-dependencies]".into());
        }
        let may = allowed.into_iter().collect::<Vec<_>>().join(", ");
        return Some(format!("`{package}` may not name `{named}` (it may name: {may})"));
    }
    let is_of_edge = ASYNC_RUNTIMES.contains(&name) || EDGE_CRATES.contains(&name);
    (super::is_below_edge(package) && is_of_edge).then(|| {
        format!("`{package}` lies below the edge and may not stand on `{name}`: move that to a front end or to `cli`")
    })
}

/// Returns the packages that `package` may name.
fn allowed(package: &str) -> Option<BTreeSet<&'static str>> {
    let mut next = PACKAGES.iter().find(|row| row.name == package)?.stands_on.to_vec();
    let mut allowed = BTreeSet::new();
    while let Some(name) = next.pop() {
        if let Some(row) = PACKAGES.iter().find(|row| row.name == name).filter(|row| allowed.insert(row.name)) {
            next.extend(row.stands_on);
        }
    }
    Some(allowed)
}

/// Returns `page` with the drawing between its markers, if both stand there.
pub fn with_map(page: &str) -> Option<String> {
    let (before, rest) = page.split_once(MARKERS[0])?;
    let (_, after) = rest.split_once(MARKERS[1])?;
    Some(format!("{before}{}{}{}{after}", MARKERS[0], drawing(), MARKERS[1]))
}

/// Returns the packages as lines, in levels from the top down: a package names packages of lower levels only.
fn drawing() -> String {
    let mut levels: BTreeMap<usize, Vec<&PackageRow>> = BTreeMap::new();
    for row in PACKAGES.iter().filter(|row| row.name != "xtask") {
        levels.entry(level(row)).or_default().push(row);
    }
    let mut text = "```\n".to_owned();
    for (at, rows) in levels.iter().rev() {
        for row in rows {
            let below =
                if row.stands_on.is_empty() { String::new() } else { format!("-> {}", row.stands_on.join(", ")) };
            let line = format!("{:<13}{:<58}{below}", row.name, row.purpose);
            writeln!(text, "{}", wrapped(line.trim_end())).expect("written to a string");
        }
        text += if *at > 0 { "\n" } else { "```\n" };
    }
    text
}

/// Returns the number of packages on the longest way from `row` down.
fn level(row: &PackageRow) -> usize {
    let below = row.stands_on.iter().filter_map(|name| PACKAGES.iter().find(|row| row.name == *name));
    below.map(|below| level(below) + 1).max().unwrap_or(0)
}

/// Breaks `line` at a comma before column 120, with the rest below the list that it belongs to.
fn wrapped(line: &str) -> String {
    match line.char_indices().rfind(|(at, c)| *at < 119 && *c == ',') {
        Some((at, _)) if line.len() > 120 => {
            format!("{},\n{}", &line[..at], wrapped(&format!("{:74}{}", "", line[at + 1..].trim_start())))
        }
        _ => line.to_owned(),
    }
}

#[cfg(test)]
mod tests;
