//! The source tree that loads work on: Debian's kernel source, or a part of it; where that is not installed, copies of
//! `/usr/include`.

use std::path::PathBuf;

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

/// Packs about `bytes` of the tree in `scratch`. Returns the path of the archive, which is not compressed, or `None` if this
/// machine has no source.
pub fn make(scratch: &Scratch, bytes: u64) -> Result<Option<PathBuf>> {
    program::shell(&[("home", &scratch.path(""))], &format!("bytes={bytes}\n{MAKE}"))?;
    Ok(Some(scratch.path("source.tar")).filter(|archive| archive.is_file()))
}

#[cfg(test)]
mod tests;
