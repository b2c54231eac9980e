//! Containers that another program has to unpack before Ferrite reads the trace in them.

/// Bytes from the beginning by which such a container is detected.
pub const DETECTED_BY: usize = 10;

/// A container by its first bytes, its name, and the command that writes its content.
const KNOWN: [(&[u8], &str, &str); 6] = [
    (b"BZh", "compressed with bzip2", "bzip2 -dc"),
    (b"PK\x03\x04", "a zip archive", "unzip -p"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", "7z x -so"),
    (b"\x04\x22\x4d\x18", "compressed with lz4", "lz4 -dc"),
    (b"\x1f\x9d", "compressed with compress", "gzip -dc"),
    (b"LZIP\x01", "compressed with lzip", "lzip -dc"),
];

/// The beginning of a bzip2 block, behind the magic and the level.
const BZIP2_BLOCK: &[u8] = b"1AY&SY";

/// Returns what a file that begins with `begin` is and the command to read its trace, if another program has to unpack
/// it.
pub fn advice(begin: &[u8], path: &str) -> Option<String> {
    let (magic, what, command) = KNOWN.into_iter().find(|(magic, ..)| begin.starts_with(magic))?;
    if magic == b"BZh" && !begin[magic.len()..].get(1..).is_some_and(|rest| BZIP2_BLOCK.starts_with(rest)) {
        return None;
    }
    Some(format!("it is {what}, which ferrite does not read: {command} {path} | ferrite sim ... --trace -"))
}

#[cfg(test)]
mod tests;
