//! clamav: files are scanned for viruses, by a signature file of our own, so that nothing is downloaded.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::{LoadKit, timed};
use crate::bench_random::BenchRandom;
use crate::{Error, Result, program};

/// Signatures of 20 random bytes each, which no file has.
const SIGNATURES: usize = 500;

/// Runs the load.
pub fn run(kit: &LoadKit, home: &Path) -> Result<f64> {
    let path = kit.scratch.path("own.ndb");
    fs::write(&path, signatures()).map_err(Error::io(format!("writing {}", path.display())))?;
    let mut scan = Command::new("clamscan");
    scan.args(["--recursive", "--infected", "--no-summary", "--database"]).arg(&path);
    timed(home, || program::run(scan.arg(home.join("tree"))))
}

/// Signatures in clamav's format: name, any kind of file, any offset, bytes.
pub(super) fn signatures() -> String {
    let mut random = BenchRandom::new(1);
    let mut text = String::new();
    for number in 0..SIGNATURES {
        let bytes: String = (0..20).map(|_| format!("{:02x}", random.below(256))).collect();
        let _ = writeln!(text, "Ferrite.Test.{number}:0:*:{bytes}");
    }
    text
}
