//! What programs outside rely on, frozen in testdata/freeze: the keys of JSON documents, the bytes of golden images, and
//! the symbols that libraries export. The command line is frozen there too, by a test of `cli`.

use std::io;
use std::path::Path;
use std::process::Command;

use super::{CheckedProject, RuleFinding};

/// The page that lists the keys of JSON documents.
const JSON_PAGE: &str = "docs/json.md";

/// The file that keeps those keys.
pub const JSON: &str = "testdata/freeze/json.txt";

/// The file that keeps the checksums of golden images.
pub const GOLDEN: &str = "testdata/freeze/golden.txt";

/// The folders whose files are golden: images of pools of older versions, and traces of other programs.
const GOLDEN_FOLDERS: [&str; 2] = ["testdata", "testdata/traces"];

/// A library, where cargo puts it below `target`, and the file that keeps its symbols.
pub const LIBRARIES: [(&str, &str); 3] = [
    ("debug/deps/libferrite.so", "testdata/freeze/symbols-c.txt"),
    ("release/libferrite_sqlite.so", "testdata/freeze/symbols-sqlite.txt"),
    ("preload/x86_64-unknown-linux-gnu/preload/libferrite_preload.so", "testdata/freeze/symbols-preload.txt"),
];

pub(super) fn check(project: &CheckedProject<'_>, findings: &mut Vec<RuleFinding>) {
    let (frozen, page) =
        (project.tree.text(JSON).unwrap_or_default(), project.tree.text(JSON_PAGE).unwrap_or_default());
    let keys = json_keys(page);
    for line in lost(frozen, &keys) {
        findings.push(RuleFinding::new(JSON_PAGE, 1, format!("the key `{line}` went: scripts rely on it")));
    }
}

/// Returns the keys that `page` promises, one a line, each after the title of its section.
pub fn json_keys(page: &str) -> String {
    let (mut title, mut keys) = ("", String::new());
    for line in page.lines() {
        if let Some(name) = line.strip_prefix("## ") {
            title = name;
        } else if let Some(key) = line.strip_prefix("| `").and_then(|rest| rest.split('`').next()) {
            keys += &format!("{title}: {key}\n");
        }
    }
    keys
}

/// Returns path and checksum of each golden file below `root`, one a line.
///
/// # Errors
/// A folder or a file that cannot be read.
pub fn golden(root: &Path) -> io::Result<String> {
    let mut lines = Vec::new();
    for folder in GOLDEN_FOLDERS {
        for entry in std::fs::read_dir(root.join(folder))? {
            let path = entry?.path();
            let is_page = path.extension().is_some_and(|ending| ending == "md");
            if path.is_file() && !is_page {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                lines.push(format!("{folder}/{name} {:016x}\n", checksum(&std::fs::read(&path)?)));
            }
        }
    }
    lines.sort();
    Ok(lines.concat())
}

/// Returns the 64-bit FNV-1a hash of `bytes`.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

/// Returns kind and name of each symbol that `library` exports, one a line.
///
/// # Errors
/// What `nm` says if it cannot read the library.
pub fn symbols(library: &Path) -> Result<String, String> {
    let output = Command::new("nm").args(["--dynamic", "--defined-only"]).arg(library).output();
    let output = output.map_err(|error| format!("nm: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let symbol = |line: &str| line.split_once(' ').map(|(_, symbol)| format!("{symbol}\n"));
    let mut lines: Vec<String> = text.lines().filter_map(symbol).collect();
    lines.sort();
    Ok(lines.concat())
}

/// Returns the lines of `frozen` that `now` has not.
pub fn lost<'a>(frozen: &'a str, now: &str) -> Vec<&'a str> {
    frozen.lines().filter(|line| !now.lines().any(|known| known == *line)).collect()
}

#[cfg(test)]
mod tests;
