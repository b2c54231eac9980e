//! What a file system is, in the plainest way: the reference of the model tests.

use std::collections::BTreeMap;

use super::support::{Seen, Tree};
use crate::{Allocate, Error, FileKind, Rename, Result};

/// A file of the reference.
#[derive(Clone, Debug)]
pub struct Node {
    pub kind: FileKind,
    pub mode: u16,
    pub links: u32,
    pub content: Vec<u8>,
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    pub children: BTreeMap<Vec<u8>, usize>,
    pub parent: usize,
    pub holds: u64,
}

/// All files; number 0 is the root.
#[derive(Clone, Debug)]
pub struct Reference {
    pub nodes: BTreeMap<usize, Node>,
    next: usize,
}

/// A name in a directory.
pub type Spot<'a> = (usize, &'a [u8]);

impl Node {
    fn new(kind: FileKind, mode: u16, parent: usize) -> Self {
        let (content, xattrs, children) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        let links = if kind == FileKind::Directory { 2 } else { 1 };
        Self { kind, mode, links, content, xattrs, children, parent, holds: 0 }
    }

    fn is_directory(&self) -> bool {
        self.kind == FileKind::Directory
    }
}

impl Default for Reference {
    fn default() -> Self {
        Self { nodes: BTreeMap::from([(0, Node::new(FileKind::Directory, 0o755, 0))]), next: 1 }
    }
}

impl Reference {
    fn dir(&mut self, id: usize) -> Result<&mut Node> {
        let node = self.nodes.get_mut(&id).ok_or(Error::Stale)?;
        match (node.is_directory(), node.links) {
            (false, _) => Err(Error::NotDirectory),
            (true, 0) => Err(Error::NotFound),
            _ => Ok(node),
        }
    }

    fn find(&mut self, (dir, name): Spot<'_>) -> Result<Option<usize>> {
        Ok(self.dir(dir)?.children.get(name).copied())
    }

    fn file(&mut self, id: usize) -> Result<&mut Node> {
        let node = self.nodes.get_mut(&id).ok_or(Error::Stale)?;
        match node.kind {
            FileKind::File => Ok(node),
            FileKind::Directory => Err(Error::IsDirectory),
            _ => Err(Error::Invalid("")),
        }
    }

    pub fn create(&mut self, at: Spot<'_>, kind: FileKind, content: &[u8]) -> Result<usize> {
        if self.find(at)?.is_some() {
            return Err(Error::Exists);
        }
        let (id, mode) = (self.next, if kind == FileKind::Symlink { 0o777 } else { 0o640 });
        self.next += 1;
        self.nodes.insert(id, Node { content: content.to_vec(), ..Node::new(kind, mode, at.0) });
        let dir = self.dir(at.0)?;
        dir.children.insert(at.1.to_vec(), id);
        dir.links += u32::from(kind == FileKind::Directory);
        Ok(id)
    }

    pub fn link(&mut self, id: usize, at: Spot<'_>) -> Result<()> {
        self.dir(at.0)?;
        let node = self.nodes.get(&id).ok_or(Error::Stale)?;
        if node.is_directory() {
            return Err(Error::NotPermitted(""));
        }
        if self.find(at)?.is_some() {
            return Err(Error::Exists);
        }
        self.dir(at.0)?.children.insert(at.1.to_vec(), id);
        self.nodes.get_mut(&id).expect("found before").links += 1;
        Ok(())
    }

    pub fn remove(&mut self, at: Spot<'_>, is_rmdir: bool) -> Result<()> {
        let dir = self.nodes.get(&at.0).ok_or(Error::Stale)?;
        if !dir.is_directory() {
            return Err(Error::NotDirectory);
        }
        let id = *dir.children.get(at.1).ok_or(Error::NotFound)?;
        self.removable(id, is_rmdir)?;
        let dir = self.dir(at.0)?;
        dir.children.remove(at.1);
        dir.links -= u32::from(is_rmdir);
        self.drop_link(id);
        Ok(())
    }

    fn removable(&self, id: usize, is_rmdir: bool) -> Result<()> {
        let node = &self.nodes[&id];
        match (node.is_directory(), is_rmdir) {
            (true, false) => Err(Error::IsDirectory),
            (false, true) => Err(Error::NotDirectory),
            (true, true) if !node.children.is_empty() => Err(Error::NotEmpty),
            _ => Ok(()),
        }
    }

    fn drop_link(&mut self, id: usize) {
        let node = self.nodes.get_mut(&id).expect("it is there");
        node.links = if node.is_directory() { 0 } else { node.links - 1 };
        self.end(id);
    }

    /// Ends a file without names and holds.
    fn end(&mut self, id: usize) {
        let node = &self.nodes[&id];
        if node.links == 0 && node.holds == 0 {
            self.nodes.remove(&id);
        }
    }

    fn is_within(&self, mut id: usize, above: usize) -> bool {
        loop {
            if id == above {
                return true;
            }
            if id == 0 {
                return false;
            }
            id = self.nodes[&id].parent;
        }
    }

    pub fn rename(&mut self, from: Spot<'_>, to: Spot<'_>, how: Rename) -> Result<()> {
        self.dir(from.0)?;
        self.dir(to.0)?;
        let moved = self.find(from)?.ok_or(Error::NotFound)?;
        let met = self.find(to)?;
        let is_directory = self.nodes[&moved].is_directory();
        if from.0 != to.0 && is_directory && self.is_within(to.0, moved) {
            return Err(Error::Invalid(""));
        }
        match (how, met) {
            (Rename::NoReplace, Some(_)) => return Err(Error::Exists),
            (Rename::Exchange, None) => return Err(Error::NotFound),
            (_, Some(met)) if met == moved => return Ok(()),
            (Rename::Exchange, Some(met)) => return self.exchange(from, to, moved, met),
            _ => {}
        }
        if let Some(met) = met {
            self.removable(met, is_directory)?;
            self.dir(to.0)?.links -= u32::from(is_directory);
            self.drop_link(met);
        }
        self.dir(from.0)?.children.remove(from.1);
        self.dir(from.0)?.links -= u32::from(is_directory);
        self.dir(to.0)?.children.insert(to.1.to_vec(), moved);
        self.dir(to.0)?.links += u32::from(is_directory);
        self.nodes.get_mut(&moved).expect("it is there").parent = to.0;
        if let Rename::Whiteout(_) = how {
            let white = self.create(from, FileKind::CharDevice, b"")?;
            self.nodes.get_mut(&white).expect("it was made").mode = 0;
        }
        Ok(())
    }

    fn exchange(&mut self, from: Spot<'_>, to: Spot<'_>, one: usize, other: usize) -> Result<()> {
        if from.0 != to.0 && self.nodes[&other].is_directory() && self.is_within(from.0, other) {
            return Err(Error::Invalid(""));
        }
        for (spot, id, old) in [(from, other, one), (to, one, other)] {
            let (gained, lost) = (self.nodes[&id].is_directory(), self.nodes[&old].is_directory());
            let dir = self.dir(spot.0)?;
            dir.children.insert(spot.1.to_vec(), id);
            dir.links = dir.links + u32::from(gained) - u32::from(lost);
            self.nodes.get_mut(&id).expect("it is there").parent = spot.0;
        }
        Ok(())
    }

    pub fn write(&mut self, id: usize, at: u64, bytes: &[u8]) -> Result<()> {
        let node = self.file(id)?;
        let end = at as usize + bytes.len();
        if node.content.len() < end && !bytes.is_empty() {
            node.content.resize(end, 0);
        }
        if !bytes.is_empty() {
            node.content[at as usize..end].copy_from_slice(bytes);
        }
        Ok(())
    }

    pub fn append(&mut self, id: usize, bytes: &[u8]) -> Result<()> {
        self.file(id)?.content.extend(bytes);
        Ok(())
    }

    pub fn resize(&mut self, id: usize, size: u64) -> Result<()> {
        self.file(id)?.content.resize(size as usize, 0);
        Ok(())
    }

    pub fn allocate(&mut self, id: usize, range: std::ops::Range<u64>, how: Allocate) -> Result<()> {
        let node = self.file(id)?;
        if matches!(how, Allocate::Grow | Allocate::Zero) {
            let len = node.content.len().max(range.end as usize);
            node.content.resize(len, 0);
        }
        if !matches!(how, Allocate::Grow | Allocate::KeepSize) {
            let len = node.content.len();
            node.content[(range.start as usize).min(len)..(range.end as usize).min(len)].fill(0);
        }
        Ok(())
    }

    pub fn chmod(&mut self, id: usize, mode: u16) -> Result<()> {
        self.nodes.get_mut(&id).ok_or(Error::Stale)?.mode = mode;
        Ok(())
    }

    pub fn set_xattr(&mut self, id: usize, name: &[u8], value: Option<&[u8]>) -> Result<()> {
        let node = self.nodes.get_mut(&id).ok_or(Error::Stale)?;
        match value {
            Some(value) => drop(node.xattrs.insert(name.to_vec(), value.to_vec())),
            None => drop(node.xattrs.remove(name).ok_or(Error::NoAttribute)?),
        }
        Ok(())
    }

    pub fn hold(&mut self, id: usize) -> Result<()> {
        self.nodes.get_mut(&id).ok_or(Error::Stale)?.holds += 1;
        Ok(())
    }

    pub fn release(&mut self, id: usize) {
        if let Some(node) = self.nodes.get_mut(&id).filter(|node| node.holds > 0) {
            node.holds -= 1;
            self.end(id);
        }
    }

    /// After a start no inode is held.
    pub fn restart(&mut self) {
        let all: Vec<usize> = self.nodes.keys().copied().collect();
        for id in all {
            self.nodes.get_mut(&id).expect("listed").holds = 0;
            self.end(id);
        }
    }

    pub fn tree(&self) -> Tree {
        let mut tree = Tree::new();
        self.tree_below(0, b"", &mut tree);
        tree
    }

    /// What a user sees of one file.
    pub fn seen(&self, id: usize) -> Seen {
        let Node { kind, mode, links, content, xattrs, .. } = self.nodes[&id].clone();
        Seen { kind, mode, links, content, xattrs }
    }

    fn tree_below(&self, id: usize, path: &[u8], tree: &mut Tree) {
        tree.insert(path.to_vec(), self.seen(id));
        for (name, child) in &self.nodes[&id].children {
            self.tree_below(*child, &[path, b"/", name].concat(), tree);
        }
    }
}
