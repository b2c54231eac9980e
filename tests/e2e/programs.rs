//! The programs that the tests run: Ferrite's and the clients'.

use std::path::{Path, PathBuf};
use std::process::Command;

/// System folders come first, because a user's PATH lacks the `sbin` ones, and a private Python would not find nbdsh's
/// module.
const SYSTEM: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// Returns a command for the release binary.
///
/// # Panics
/// Panics if the binary has not been built.
pub fn ferrite() -> Command {
    client(ferrite_path())
}

/// Returns a command for a client, by name or path.
pub fn client(program: impl AsRef<Path>) -> Command {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(found(program.as_ref()));
    command.env("PATH", format!("{SYSTEM}:{path}"));
    command
}

/// Returns the path of the release binary.
pub fn ferrite_path() -> PathBuf {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/release/ferrite");
    let path = std::env::var_os("FERRITE_BIN").map_or(built, PathBuf::from);
    assert!(
        path.is_file(),
        "{} is not there: run `cargo build --release`, or name the binary in FERRITE_BIN",
        path.display()
    );
    path
}

fn found(program: &Path) -> PathBuf {
    let mut places = SYSTEM.split(':').map(|folder| Path::new(folder).join(program));
    places.find(|place| place.is_file()).unwrap_or_else(|| program.to_owned())
}
