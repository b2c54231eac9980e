//! The library that is loaded into programs. This program carries it, and writes it to a folder where the loader finds
//! it.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use ferrite_daemon::mounts;

use crate::host;

const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/preload.so"));
/// The time for which an unused version is kept.
const KEPT: Duration = Duration::from_secs(24 * 3600);
/// The hash that distinguishes this version of the library from others.
const HASH: &str = env!("FERRITE_PRELOAD_HASH");

/// Returns the library's path, and writes the library there if it is missing.
pub fn place() -> Result<PathBuf, String> {
    if LIBRARY.is_empty() {
        return Err("this was built for another machine than x86-64 with glibc".into());
    }
    let (user, _) = host::user().map_err(|error| error.to_string())?;
    let mut refused = "none of XDG_RUNTIME_DIR, XDG_CACHE_HOME and HOME names a folder".into();
    for folder in folders(user) {
        match placed_in(&folder, user) {
            Ok(path) => return Ok(path),
            Err(error) => refused = format!("putting its library into {}: {error}", folder.display()),
        }
    }
    Err(refused)
}

/// Returns the folders in which the library may lie. If root runs a program, the program may change to another user,
/// who must find the library too.
fn folders(user: u32) -> Vec<PathBuf> {
    if user == 0 {
        return vec!["/run/ferrite-run".into(), "/var/cache/ferrite-run".into()];
    }
    let named = |name, below: &str| Some(Path::new(&std::env::var_os(name)?).join(below)).filter(|it| it.is_absolute());
    let folders =
        [named("XDG_RUNTIME_DIR", "ferrite"), named("XDG_CACHE_HOME", "ferrite"), named("HOME", ".cache/ferrite")];
    folders.into_iter().flatten().collect()
}

fn placed_in(folder: &Path, user: u32) -> io::Result<PathBuf> {
    let mode = if user == 0 { 0o755 } else { 0o700 };
    DirBuilder::new().recursive(true).mode(mode).create(folder)?;
    let others = |why: &str| io::Error::other(why.to_string());
    if folder.as_os_str().as_encoded_bytes().iter().any(|byte| matches!(byte, b':' | b' ')) {
        return Err(others("the loader takes no name with a colon or a blank"));
    }
    if fs::symlink_metadata(folder)?.uid() != user {
        return Err(others("it belongs to another user"));
    }
    if mounts::forbids_programs(folder) {
        return Err(others("no programs may be run from there"));
    }
    let path = folder.join(format!("libferrite_preload-{HASH}.so"));
    let is_there = fs::symlink_metadata(&path).is_ok_and(|it| it.is_file() && it.len() == LIBRARY.len() as u64);
    if is_there {
        // The modification time is the time of the last use, which `prune` reads.
        let _ = File::open(&path).and_then(|file| file.set_modified(SystemTime::now()));
    } else {
        write(&path)?;
        // If an old library cannot be removed, it stays.
        let _ = prune(folder);
    }
    Ok(path)
}

/// Removes the libraries of other versions that have been unused for a day and that no process has loaded.
fn prune(folder: &Path) -> io::Result<()> {
    let is_old = |path: &PathBuf| {
        let used = fs::symlink_metadata(path).and_then(|it| it.modified());
        used.is_ok_and(|used| used.elapsed().is_ok_and(|since| since > KEPT))
    };
    let is_library = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"libferrite_preload-"))
    };
    let found = fs::read_dir(folder)?.flatten().map(|entry| entry.path());
    let old: Vec<PathBuf> = found.filter(is_library).filter(is_old).collect();
    if !old.is_empty() {
        let loaded = loaded();
        let is_loaded = |path: &PathBuf| loaded.iter().any(|maps| maps.contains(&*path.to_string_lossy()));
        old.iter().filter(|path| !is_loaded(path)).for_each(|path| _ = fs::remove_file(path));
    }
    Ok(())
}

/// Returns the files that processes have mapped, for each process that this user may inspect.
fn loaded() -> Vec<String> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(|entry| fs::read_to_string(entry.path().join("maps")).ok()).collect()
}

/// Writes the library in one step, so that no process loads a part of it.
fn write(path: &Path) -> io::Result<()> {
    let new = host::beside(path, &format!(".{}", std::process::id()));
    let written = File::options().write(true).create_new(true).mode(0o644).open(&new);
    let written = written.and_then(|mut file| file.write_all(LIBRARY)).and_then(|()| fs::rename(&new, path));
    written.inspect_err(|_| _ = fs::remove_file(&new))
}

/// Returns the loader's list, with `library` at its head.
pub fn before_others(library: &Path) -> OsString {
    let mut list = library.as_os_str().to_owned();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        list.push(":");
        list.push(others);
    }
    list
}

/// The variable with the options of the address sanitizer's runtime.
pub const ASAN: &str = "ASAN_OPTIONS";

/// Returns this user's options, with an exception from the rule that the runtime is loaded first. Without it, programs
/// with the sanitizer would not start.
pub fn beside_asan() -> OsString {
    let mut message = OsString::from("verify_asan_link_order=0");
    if let Some(others) = std::env::var_os(ASAN).filter(|others| !others.is_empty()) {
        message.push(":");
        message.push(others);
    }
    message
}

#[cfg(test)]
mod tests;
