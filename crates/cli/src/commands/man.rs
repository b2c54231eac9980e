//! `ferrite man`.

use std::fs;
use std::path::PathBuf;

use clap::Args;
use ferrite_daemon::registry;
use ferrite_owner::paths::in_line;

use crate::outcome::Outcome;

/// Write a manual page for each command: ferrite.1, ferrite-up.1 and so on
#[derive(Args)]
pub struct Man {
    /// The folder to write into, which is made if it is missing; pages of the same names are replaced
    dir: PathBuf,
}

impl Man {
    /// Writes the pages.
    pub fn run(self) -> Outcome {
        let writing = |error| format!("writing manual pages into {}: {error}", in_line(&self.dir));
        fs::create_dir_all(&self.dir).map_err(writing)?;
        Ok(clap_mangen::generate_to(crate::program(&registry()), &self.dir).map_err(writing)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_a_page_with_its_usage() {
        let folder = tempfile::tempdir().expect("a folder");
        Man { dir: folder.path().into() }.run().expect("written");
        let page = fs::read_to_string(folder.path().join("ferrite-disk-create.1")).expect("a page");
        assert!(page.contains("<POOL> <NAME>") && page.contains("\\-\\-thin"), "{page}");
    }
}
