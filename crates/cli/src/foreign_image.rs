//! Disk images in the formats of virtual machines, read through `qemu-nbd`.
//!
//! Ferrite does not trust the content of an image. If an image names other files, qemu would silently read any file
//! that this process may read. So Ferrite refuses such an image, and forbids qemu to open a backing file.

use std::fs::{self, DirBuilder, File};
use std::io::Read;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use ferrite_disk::Disk;
use ferrite_nbd::client::{ConnectOptions, NbdDisk, unix_uri};
use ferrite_owner::paths::quoted;
use serde_json::json;

use crate::host;
use crate::outcome::{Failure, Outcome};
use crate::stop;

/// The program that reads these images.
const READER: &str = "qemu-nbd";
/// Pause between two checks whether the program serves.
const PAUSE: Duration = Duration::from_millis(5);
/// Bytes at the start of an image that are checked: qemu looks for a VMDK's description within them.
const HEAD_BYTES: usize = 64 << 10;

/// A format of a disk image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignFormat {
    /// The format of QEMU.
    Qcow2,
    /// The format of VMware.
    Vmdk,
    /// The format of Hyper-V.
    Vhdx,
}

impl ForeignFormat {
    /// Returns the format of the regular file at `path` by its first bytes, or `None` for any other file.
    pub fn of(path: &Path) -> Option<Self> {
        fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
        Self::of_head(&head(path).ok()?)
    }

    fn of_head(head: &[u8]) -> Option<Self> {
        let known: [(&[u8], Self); 5] = [
            (b"QFI\xfb", Self::Qcow2),
            (b"KDMV", Self::Vmdk),
            (b"COWD", Self::Vmdk),
            (DESCRIPTION, Self::Vmdk),
            (b"vhdxfile", Self::Vhdx),
        ];
        known.into_iter().find(|(magic, _)| head.starts_with(magic)).map(|(_, format)| format)
    }

    /// Returns the format's name, which qemu uses too.
    pub fn name(self) -> &'static str {
        match self {
            Self::Qcow2 => "qcow2",
            Self::Vmdk => "vmdk",
            Self::Vhdx => "vhdx",
        }
    }

    /// Returns words for the other file that an image with the first bytes `head` names.
    fn names_other(self, head: &[u8]) -> Option<String> {
        match self {
            Self::Qcow2 => qcow2_names_other(head),
            Self::Vmdk => vmdk_names_other(head),
            // qemu does not read an image that has a parent.
            Self::Vhdx => None,
        }
    }
}

/// First bytes of a VMDK that is text and names the files that hold its content.
const DESCRIPTION: &[u8] = b"# Disk DescriptorFile";

fn qcow2_names_other(head: &[u8]) -> Option<String> {
    let word = |at: usize| head.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_be_bytes);
    let long = |at: usize| u64::from(word(at)) << 32 | u64::from(word(at + 4));
    let (backing_at, backing_bytes) = (long(8), word(16));
    if backing_at != 0 {
        let start = usize::try_from(backing_at).unwrap_or(usize::MAX);
        let name = head.get(start..start.saturating_add(backing_bytes as usize)).unwrap_or_default();
        return Some(format!("a backing file, {:?},", String::from_utf8_lossy(name)));
    }
    // Since version 3 the header has a word of features that a reader must know; bit 2 is a file of data.
    (word(4) >= 3 && long(72) & 4 != 0).then(|| "an external data file".into())
}

fn vmdk_names_other(head: &[u8]) -> Option<String> {
    let lower = head.to_ascii_lowercase();
    let has = |what: &[u8]| lower.windows(what.len()).any(|part| part == what);
    // The capacity of a sparse file that only describes others is 0.
    let only_describes = head.starts_with(b"KDMV") && head.get(12..20).is_none_or(|size| size.iter().all(|b| *b == 0));
    if head.starts_with(DESCRIPTION) || only_describes {
        return Some("the files that hold its content".into());
    }
    (has(b"parentfilenamehint") || has(b"parentcid=") && !has(b"parentcid=ffffffff")).then(|| "a parent image".into())
}

fn head(path: &Path) -> std::io::Result<Vec<u8>> {
    let (file, mut head) = (File::open(path)?, vec![0; HEAD_BYTES]);
    let mut got = 0;
    while let bytes @ 1.. = file.read_at(&mut head[got..], got as u64)? {
        got += bytes;
    }
    head.truncate(got);
    Ok(head)
}

/// A running `qemu-nbd` that serves one image, read-only, to this process. Dropping this ends the program. If this
/// process is killed, the program ends with its last connection.
pub struct ImageServer {
    child: Child,
    folder: PathBuf,
}

impl Drop for ImageServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Opens the image of `format` at `path` as a disk.
pub fn open(path: &Path, format: ForeignFormat) -> Outcome<(Arc<dyn Disk>, ImageServer)> {
    let (shown, typed, name) = (path.display(), quoted(path), format.name());
    let head = head(path).map_err(|error| format!("reading {shown}: {error}"))?;
    if let Some(other) = format.names_other(&head) {
        return Err(format!(
            "{shown} is a {name} image that names {other} which would be read too: if you trust it, \
             `qemu-img convert -O raw {typed} FILE` puts all of it into one file to copy from"
        )
        .into());
    }
    let path = path.canonicalize()?;
    connect(start(&path, format)?, &path)
}

fn start(path: &Path, format: ForeignFormat) -> Outcome<ImageServer> {
    let id = ferrite_pool::show_uuid(&host::random_uuid()?);
    let folder = std::env::temp_dir().join(format!("ferrite-{id}"));
    DirBuilder::new().mode(0o700).create(&folder).map_err(|error| format!("making {}: {error}", folder.display()))?;
    let file = path.to_str().ok_or("an image whose path is not UTF-8 cannot be given to qemu: rename it")?;
    let image = json!({
        "driver": format.name(), "read-only": true, "backing": null, "file": { "driver": "file", "filename": file },
    });
    let mut command = Command::new(READER);
    command
        .args(["--read-only", "--shared=16"])
        .arg("--socket")
        .arg(folder.join("socket"))
        .arg(format!("json:{image}"));
    // Only this process reacts to Ctrl-C.
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    match command.spawn() {
        Ok(child) => Ok(ImageServer { child, folder }),
        Err(error) => {
            let _ = fs::remove_dir(&folder);
            let (shown, name) = (path.display(), format.name());
            if error.kind() != std::io::ErrorKind::NotFound {
                return Err(format!("starting {READER} for {shown}: {error}").into());
            }
            Err(Failure::Failed(format!(
                "{shown} is a {name} image, and {READER}, which reads those, is not installed: `apt install qemu-utils` (Debian, \
                 Ubuntu) or `dnf install qemu-img` (Fedora), then run this again; --raw copies the bytes of the file itself"
            )))
        }
    }
}

/// Waits until `server` serves the image at `path`.
fn connect(mut server: ImageServer, path: &Path) -> Outcome<(Arc<dyn Disk>, ImageServer)> {
    let uri = unix_uri("", &server.folder.join("socket"));
    let options = ConnectOptions { read_only: true, ..ConnectOptions::default() };
    while !server.folder.join("socket").exists() {
        if server.child.try_wait()?.is_some() {
            let mut said = String::new();
            let _ = server.child.stderr.take().map(|mut stderr| stderr.read_to_string(&mut said));
            return Err(format!("{READER} does not read {}: {}", path.display(), said.trim()).into());
        }
        stop::go_on()?;
        std::thread::sleep(PAUSE);
    }
    Ok((Arc::new(NbdDisk::connect(&uri, &options)?), server))
}

#[cfg(test)]
mod tests;
