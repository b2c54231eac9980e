//! clamav: files are scanned for viruses; by a signature file of our own, so that nothing is fetched.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::source::Source;
use super::{Kit, Load, Made, has, timed};
use crate::random::Random;
use crate::{Error, Result, program};

/// Signatures of 20 random bytes each, none of which is anywhere.
const SIGNATURES: usize = 500;

struct Clamav {
    source: Source,
    signatures: PathBuf,
}

/// It, where there are clamscan and a source tree.
pub fn make(kit: &Kit) -> Made {
    let source = if has(&["clamscan"]) { kit.source()?.cloned() } else { None };
    let Some(source) = source else { return Ok(None) };
    let made = Clamav { source, signatures: kit.scratch.path("own.ndb") };
    let written = fs::write(&made.signatures, signatures());
    written.map_err(Error::io(format!("writing {}", made.signatures.display())))?;
    Ok(Some(Box::new(made)))
}

/// In clamav's format: name, any kind of file, any offset, bytes.
fn signatures() -> String {
    let mut random = Random::new(1);
    let mut text = String::new();
    for number in 0..SIGNATURES {
        let bytes: String = (0..20).map(|_| format!("{:02x}", random.below(256))).collect();
        let _ = writeln!(text, "Ferrite.Test.{number}:0:*:{bytes}");
    }
    text
}

impl Load for Clamav {
    fn prepare(&self, home: &Path) -> Result<()> {
        self.source.unpack_to(home)
    }

    fn run(&self, home: &Path) -> Result<f64> {
        let mut scan = Command::new("clamscan");
        scan.args(["--recursive", "--infected", "--no-summary", "--database"]).arg(&self.signatures);
        timed(home, || program::run(scan.arg(home.join("tree"))))
    }
}
