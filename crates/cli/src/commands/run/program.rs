//! Checks whether a library can be loaded into a program.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::host;

/// The depth of scripts whose interpreters are scripts in turn.
const DEEP: usize = 4;
const SET_USER: u32 = 0o4000;
const SET_GROUP: u32 = 0o2010;

/// Prints why the program `name` itself runs through the mount, if it does.
pub fn print(name: &OsStr) {
    if let Some(why) = refusal(name) {
        remark!("ferrite run: {} runs through the mount: {why}", name.display());
    }
}

/// Returns why the library cannot be loaded into the program `name`, if it cannot.
pub fn refusal(name: &OsStr) -> Option<&'static str> {
    refuses(&found(Path::new(name))?, DEEP)
}

/// Returns the path of a program. A name with a slash is a path; other names are looked up in PATH.
fn found(name: &Path) -> Option<PathBuf> {
    if name.components().count() > 1 || name.is_absolute() {
        return Some(name.into());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

fn refuses(path: &Path, deep: usize) -> Option<&'static str> {
    if has_set_ids(path) {
        return Some("it is set-user-id or set-group-id, so that the loader loads nothing into it");
    }
    let file = File::open(path).ok()?;
    let mut head = [0; 256];
    let len = file.read_at(&mut head, 0).ok()?;
    if let Some(line) = head[..len].strip_prefix(b"#!") {
        let line = line.split(|byte| *byte == b'\n').next()?.trim_ascii_start();
        let interpreter = line.split(u8::is_ascii_whitespace).next()?;
        return refuses(Path::new(OsStr::from_bytes(interpreter)), deep.checked_sub(1)?);
    }
    if !head.starts_with(b"\x7fELF") {
        return None;
    }
    // The header must be 64-bit, little-endian and x86-64.
    if head[4..6] != [2, 1] || head[18..20] != [62, 0] {
        return Some("it is a program for another kind of machine");
    }
    (!names_loader(&file, &head)?).then_some("it is statically linked")
}

fn has_set_ids(path: &Path) -> bool {
    let (Ok(found), Ok((user, group))) = (fs::metadata(path), host::user()) else { return false };
    let mode = found.mode();
    mode & SET_USER != 0 && found.uid() != user || mode & SET_GROUP == SET_GROUP && found.gid() != group
}

/// Returns true if one of the program headers names a loader (`PT_INTERP`).
fn names_loader(file: &File, head: &[u8]) -> Option<bool> {
    const LOADER: [u8; 4] = 3_u32.to_le_bytes();
    let at = u64::from_le_bytes(head[32..40].try_into().ok()?);
    let [size, count] = [54, 56].map(|at| u64::from(u16::from_le_bytes([head[at], head[at + 1]])));
    let kind = |header: u64| {
        let mut kind = [0; 4];
        file.read_exact_at(&mut kind, at.checked_add(header * size)?).ok().map(|()| kind)
    };
    Some((0..count).any(|header| kind(header) == Some(LOADER)))
}

#[cfg(test)]
mod tests;
