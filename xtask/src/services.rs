//! Keeps Debian packages from starting their services on the machine that runs the tests.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{self, Command};

/// The script that Debian's packages ask before they start a service. Status 101 refuses.
pub const POLICY: &str = "/usr/sbin/policy-rc.d";

/// The packages that enable services, with their services.
const SERVICES: [(&str, &str); 5] = [
    ("fio", "fio.service"),
    ("postgresql", "postgresql.service"),
    ("prometheus", "prometheus.service"),
    ("redis-server", "redis-server.service"),
    ("rsync", "rsync.service"),
];

/// A script that refuses all starts of services, until it is dropped.
#[derive(Debug)]
pub struct RefusedStarts {
    /// The path of the script, or nothing if the machine has a script of its own.
    script: Option<PathBuf>,
}

impl RefusedStarts {
    /// Writes the script to `path`, unless a file is there. If this process is killed, the script refuses nothing more.
    ///
    /// # Errors
    /// The path, and the error of the file system.
    pub fn begin(path: &Path) -> Result<Self, String> {
        let mut file = match OpenOptions::new().write(true).create_new(true).mode(0o755).open(path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(Self { script: None }),
            opened => opened.map_err(|error| at(path, &error))?,
        };
        let refused = Self { script: Some(path.into()) };
        let pid = process::id();
        let text = format!(
            "#!/bin/sh\n# Written by `cargo xtask` while it installs packages.\n[ ! -d /proc/{pid} ] || exit 101\n"
        );
        file.write_all(text.as_bytes()).map_err(|error| at(path, &error))?;
        Ok(refused)
    }
}

impl Drop for RefusedStarts {
    fn drop(&mut self) {
        let Some(script) = &self.script else { return };
        if let Err(error) = std::fs::remove_file(script) {
            eprintln!("{} (remove this script)", at(script, &error));
        }
    }
}

/// Disables the services of `packages`, and stops those that run. systemctl prints its own errors.
pub fn disable(packages: &[&str]) {
    for (_, service) in SERVICES.iter().filter(|(package, _)| packages.contains(package)) {
        let _ = Command::new("systemctl").args(["disable", "--now", service]).status();
    }
}

fn at(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests;
