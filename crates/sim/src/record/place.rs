//! Where QEMU, the program and the plugin are.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::nameless;
use crate::{Error, Result};

/// QEMU's user mode for this machine's own programs.
pub fn qemu() -> Result<PathBuf> {
    let name = format!("qemu-{}", std::env::consts::ARCH);
    in_path(Path::new(&name)).ok_or_else(|| {
        Error::Recording(format!(
            "{name} is not installed, and programs are recorded by it: apt-get install qemu-user (or give a trace with --trace)"
        ))
    })
}

/// The file of a program that QEMU can run.
pub fn program(words: &[OsString]) -> Result<PathBuf> {
    let name = words.first().map(Path::new).ok_or_else(|| Error::Recording("there is no program".into()))?;
    let found = in_path(name).ok_or_else(|| Error::Recording(format!("there is no program {}", name.display())))?;
    let mut begin = [0; 4];
    let read = File::open(&found).and_then(|mut file| file.read(&mut begin));
    read.map_err(Error::io(format!("reading {}", found.display())))?;
    if begin.starts_with(b"#!") {
        let what = format!("{} is a script: name its interpreter first, such as python3 or bash", found.display());
        return Err(Error::Recording(what));
    }
    if begin != *b"\x7fELF" {
        return Err(Error::Recording(format!("{} is no program that qemu-user can run", found.display())));
    }
    Ok(found)
}

/// A name with a slash is a path; others are looked up.
fn in_path(name: &Path) -> Option<PathBuf> {
    if name.components().count() > 1 || name.is_absolute() {
        return name.is_file().then(|| std::path::absolute(name).ok()).flatten();
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// The plugin as a file that is gone when it is closed. Where programs may not be run from one folder of temporary
/// files, another is taken.
pub fn plugin(bytes: &[u8]) -> Result<File> {
    let folders = [std::env::temp_dir(), "/dev/shm".into(), "/var/tmp".into()];
    let mut refused = None;
    for (at, folder) in folders.iter().enumerate() {
        let path = folder.join(format!("ferrite-plugin-{}-{at}-{:p}", std::process::id(), &refused));
        match nameless(path, bytes) {
            Ok(file) => return Ok(file),
            Err(error) => refused = Some(error),
        }
    }
    let refused = refused.unwrap_or_else(|| std::io::ErrorKind::NotFound.into());
    Err(Error::io("writing the recording plugin to a folder of temporary files")(refused))
}
