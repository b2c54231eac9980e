//! The project's text files, with their paths. Tests make trees of a few lines.

use std::io;
use std::path::Path;
use std::process::Command;

/// A text file of the project.
#[derive(Clone, Debug)]
pub struct TextFile {
    /// The path from the root, with `/`.
    pub path: String,
    /// The whole text.
    pub text: String,
}

/// How the paths of test data begin, which no rule reads.
const DATA: [&str; 5] = ["fuzz/corpus/", "testdata/files-", "testdata/pool-", "testdata/traces/", "testdata/wal-"];

/// The text files of the project.
#[derive(Clone, Debug, Default)]
pub struct ProjectTree {
    /// The files, sorted by path.
    pub files: Vec<TextFile>,
}

impl ProjectTree {
    /// Reads the files at `root` that git tracks or would add; without git, all files outside `.git` and `target`. Files that
    /// are not text, and test data, are left out.
    pub fn read(root: &Path) -> io::Result<Self> {
        let mut paths = git_files(root).map_or_else(|| walk(root), Ok)?;
        paths.retain(|path| !DATA.iter().any(|begin| path.starts_with(begin)));
        paths.sort();
        let files = paths.into_iter().filter_map(|path| {
            let text = std::fs::read_to_string(root.join(&path)).ok()?;
            (!text.contains('\0')).then_some(TextFile { path, text })
        });
        Ok(Self { files: files.collect() })
    }

    /// Returns the text of the file at `path`.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.files.iter().find(|file| file.path == path).map(|file| file.text.as_str())
    }

    /// Returns the files whose paths end in `ending`.
    pub fn ending<'a>(&'a self, ending: &'a str) -> impl Iterator<Item = &'a TextFile> {
        self.files.iter().filter(move |file| file.path.ends_with(ending))
    }
}

fn git_files(root: &Path) -> Option<Vec<String>> {
    let args = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let output =
        Command::new("git").args(args).current_dir(root).output().ok().filter(|output| output.status.success())?;
    let names = String::from_utf8_lossy(&output.stdout);
    Some(names.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect())
}

fn walk(root: &Path) -> io::Result<Vec<String>> {
    let (mut folders, mut paths) = (vec![root.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let (name, path) = (entry.file_name(), entry.path());
            match entry.file_type()? {
                kind if kind.is_dir() && name != "target" && name != ".git" => folders.push(path),
                kind if kind.is_file() => {
                    paths.extend(path.strip_prefix(root).ok().map(|path| path.to_string_lossy().into_owned()));
                }
                _ => {}
            }
        }
    }
    Ok(paths)
}

#[cfg(test)]
impl ProjectTree {
    /// Returns a tree of these paths and texts.
    pub fn of(files: &[(&str, &str)]) -> Self {
        let file = |(path, text): &(&str, &str)| TextFile { path: (*path).into(), text: (*text).into() };
        Self { files: files.iter().map(file).collect() }
    }
}

#[cfg(test)]
mod tests;
