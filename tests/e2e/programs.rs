//! The programs the tests run: ours, and the clients'.

use std::path::{Path, PathBuf};
use std::process::Command;

/// System folders first: a user's PATH lacks the `sbin` ones, and a private Python would not find nbdsh's module.
const SYSTEM: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// The release binary, about to be run.
///
/// # Panics
/// Where it was not built.
pub fn ferrite() -> Command {
    client(ferrite_path())
}

/// A client by name or path, about to be run.
pub fn client(program: impl AsRef<Path>) -> Command {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(found(program.as_ref()));
    command.env("PATH", format!("{SYSTEM}:{path}"));
    command
}

/// Where the release binary is.
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
