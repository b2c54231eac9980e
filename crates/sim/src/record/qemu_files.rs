//! The files of QEMU, the program and the plugin.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// Returns the path of QEMU's user mode for this machine's own programs.
pub fn qemu() -> Result<PathBuf> {
    let name = format!("qemu-{}", std::env::consts::ARCH);
    in_path(Path::new(&name)).ok_or_else(|| {
        Error::Recording(format!(
            "{name} is not installed, and programs are recorded by it: apt-get install qemu-user (or give a trace with --trace)"
        ))
    })
}

/// Returns the file of a program that QEMU can run.
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
        return Err(Error::Recording(format!("{} is not a program that qemu-user can run", found.display())));
    }
    if !may_run(&found) {
        return Err(Error::Recording(format!("{} is not executable: chmod +x makes it so", found.display())));
    }
    Ok(found)
}

/// Returns the path of a program: a name with a slash is a path, and PATH is searched for others.
fn in_path(name: &Path) -> Option<PathBuf> {
    if name.components().count() > 1 || name.is_absolute() {
        return name.is_file().then(|| std::path::absolute(name).ok()).flatten();
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| may_run(file))
}

fn may_run(file: &Path) -> bool {
    file.metadata().is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}

/// Returns the plugin as a file that is gone when it is closed.
pub fn plugin(bytes: &[u8]) -> Result<File> {
    let mut file = nameless("the recording plugin")?;
    file.write_all(bytes).map_err(Error::io("writing the recording plugin"))?;
    Ok(file)
}

/// Returns memory of `bytes` bytes as a file that is gone when it is closed.
pub fn shared(bytes: usize) -> Result<File> {
    let file = nameless("what is recorded")?;
    file.set_len(bytes as u64).map_err(Error::io("making room for what is recorded"))?;
    Ok(file)
}

/// Creates a file in memory: a folder of temporary files may forbid running programs.
fn nameless(what: &str) -> Result<File> {
    let made = rustix::fs::memfd_create(format!("ferrite: {what}"), rustix::fs::MemfdFlags::CLOEXEC);
    made.map(File::from).map_err(|error| Error::io(format!("making a file in memory for {what}"))(error.into()))
}
