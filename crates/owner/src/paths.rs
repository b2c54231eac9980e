//! Paths as text: in JSON, and in lines for people. A path is bytes that need not be text.

use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};

/// A field of a report that holds a path.
pub trait ShownPath {
    /// Returns the text, with a mark in the place of bytes that are not text.
    fn shown(&self) -> Option<String>;
}

impl ShownPath for PathBuf {
    fn shown(&self) -> Option<String> {
        Some(self.to_string_lossy().into_owned())
    }
}

impl ShownPath for Option<PathBuf> {
    fn shown(&self) -> Option<String> {
        self.as_ref().and_then(ShownPath::shown)
    }
}

/// Serializes a path of a report as text.
///
/// # Errors
/// Those of the serializer.
pub fn show<S: Serializer>(path: &impl ShownPath, to: S) -> Result<S::Ok, S::Error> {
    path.shown().serialize(to)
}

/// Returns `path` as part of a line: control characters, which would end the line or control a terminal, are escaped.
pub fn in_line(path: &Path) -> String {
    let shown = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    path.to_string_lossy().chars().map(shown).collect()
}

/// Returns `path` as a shell reads it.
pub fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_alphanumeric() || "-_./+:@%".contains(c);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// A path of a request without loss: as text, or as bytes if it is not text.
pub mod exact {
    use std::ffi::OsString;
    use std::os::unix::ffi::{OsStrExt, OsStringExt};

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{Path, PathBuf};

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum WrittenPath {
        Text(String),
        Bytes(Vec<u8>),
    }

    /// Serializes a path.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        match path.to_str() {
            Some(text) => text.serialize(to),
            None => path.as_os_str().as_bytes().serialize(to),
        }
    }

    /// Deserializes a path.
    ///
    /// # Errors
    /// Those of the deserializer.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
        Ok(match WrittenPath::deserialize(from)? {
            WrittenPath::Text(text) => text.into(),
            WrittenPath::Bytes(bytes) => OsString::from_vec(bytes).into(),
        })
    }
}

#[cfg(test)]
mod tests;
