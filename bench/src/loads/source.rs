//! The source tree that loads work on: Debian's kernel source, or a part of it; where that is not installed, copies of
//! `/usr/include`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::scratch::Scratch;
use crate::{Result, program};

/// Unpacks the first `$1` bytes of the sources into the folder `$home/source`, and packs them as `$home/source.tar`. A copy of
/// `/usr/include` follows another until there are as many bytes. Nothing is packed if this machine has no sources.
const MAKE: &str = r#"
cd $home; rm -rf source; mkdir source
begin() { head -c "$1" | tar -xf - -C source --warning=none 2>/dev/null || test $? = 2; }
kernel=$(ls /usr/src/linux-source-*.tar.xz 2>/dev/null | tail -n 1)
if test -n "$kernel" && command -v xz > /dev/null; then
    xz -dc "$kernel" | begin "$bytes"
elif test -d /usr/include; then
    copy=0 left=$bytes
    while test $((16 * left)) -gt "$bytes"; do
        tar -cf - -C /usr/include --transform "s,^,copy$copy/," . | begin "$left"
        copy=$((copy + 1)) left=$((bytes - $(tar -cf - -C source . | wc -c)))
    done
fi
test -z "$(ls source)" || tar -cf source.tar -C source .
rm -r source"#;

/// A source tree in an archive that is not compressed.
#[derive(Clone, Debug)]
pub struct SourceTree {
    archive: PathBuf,
}

impl SourceTree {
    /// Packs about `bytes` of the tree in `scratch`; returns `None` if this machine has no source.
    pub fn make(scratch: &Scratch, bytes: u64) -> Result<Option<Self>> {
        program::shell(&scratch.path(""), &format!("bytes={bytes}\n{MAKE}"))?;
        let archive = scratch.path("source.tar");
        Ok(archive.is_file().then_some(Self { archive }))
    }

    /// Copies the archive to `home`, as `source.tar`.
    pub fn copy_to(&self, home: &Path) -> Result<()> {
        program::run(Command::new("cp").arg(&self.archive).arg(home.join("source.tar")))
    }

    /// Unpacks the archive in `home`, as `tree`.
    pub fn unpack_to(&self, home: &Path) -> Result<()> {
        let tree = home.join("tree");
        program::run(Command::new("mkdir").arg(&tree))?;
        program::run(Command::new("tar").arg("-xf").arg(&self.archive).arg("-C").arg(&tree))
    }
}

#[cfg(test)]
mod tests;
