//! Paths in JSON and in lines for people, which are text, where paths are bytes.

use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};

/// What a report has a path in.
pub trait Shown {
    /// Its text.
    fn shown(&self) -> Option<String>;
}

impl Shown for PathBuf {
    fn shown(&self) -> Option<String> {
        Some(self.to_string_lossy().into_owned())
    }
}

impl Shown for Option<PathBuf> {
    fn shown(&self) -> Option<String> {
        self.as_ref().and_then(Shown::shown)
    }
}

/// Writes a path of a report, with a mark in the place of what is no text.
pub fn show<S: Serializer>(path: &impl Shown, to: S) -> Result<S::Ok, S::Error> {
    path.shown().serialize(to)
}

/// `path` as part of a line: what would end the line, or tell a terminal something, is written out.
pub fn in_line(path: &Path) -> String {
    let shown = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    path.to_string_lossy().chars().map(shown).collect()
}

/// `path` as a shell takes it.
pub fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_alphanumeric() || "-_./+:@%".contains(c);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// A path of a request, exactly: as text, or as its bytes where it is none.
pub mod exact {
    use std::ffi::OsString;
    use std::os::unix::ffi::{OsStrExt, OsStringExt};

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{Path, PathBuf};

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Text(String),
        Bytes(Vec<u8>),
    }

    /// Writes it.
    pub fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        match path.to_str() {
            Some(text) => text.serialize(to),
            None => path.as_os_str().as_bytes().serialize(to),
        }
    }

    /// Reads it.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
        Ok(match Written::deserialize(from)? {
            Written::Text(text) => text.into(),
            Written::Bytes(bytes) => OsString::from_vec(bytes).into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use crate::request::{Door, Request};

    use super::*;

    #[test]
    fn a_path_ends_no_line() {
        let at = |bytes: &[u8]| in_line(OsStr::from_bytes(bytes).as_ref());
        assert_eq!(at(b"/mnt/a\nfiles  on /b\x1b[2J"), r"/mnt/a\nfiles  on /b\u{1b}[2J");
        assert_eq!(at("/mnt/\u{f6} 'x'".as_bytes()), "/mnt/\u{f6} 'x'");
    }

    #[test]
    fn a_request_names_the_very_path_that_was_meant() {
        for name in [&b"/run/a"[..], b"/run/b\xffx", "/run/ö".as_bytes()] {
            let path = PathBuf::from(OsStr::from_bytes(name));
            let door = Door { unix: path.clone(), tcp: None };
            let request = Request::DiskServe { name: "d".into(), door, serving: Default::default(), overwrite: false };
            let text = serde_json::to_string(&request).expect("it is written");
            match serde_json::from_str(&text).expect("it is read") {
                Request::DiskServe { door, .. } => assert_eq!(door.unix, path),
                other => panic!("{other:?}"),
            }
        }
    }
}
