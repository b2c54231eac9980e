//! What an inode names beside other inodes: pages of content, of words, of attributes.

use ferrite_pool::layout::CHUNK_PAGES;

use super::claims::{ContestedPage, PageClaims};
use super::{CheckedMedia, Fix, FsFinding};
use crate::format::inode::Inode;
use crate::format::layout::ChunkKind;
use crate::format::layout::NODE_WORDS;
use crate::format::word::{IndexWord, NamedBy};
use crate::{FileKind, Ino};

/// What is collected of one inode.
pub(crate) struct Collector<'a> {
    pub media: &'a CheckedMedia<'a>,
    pub claims: &'a mut PageClaims,
    pub wrong: &'a mut Vec<FsFinding>,
    pub shared: &'a mut Vec<ContestedPage>,
    /// Pages it names.
    pub pages: u64,
    /// Some of them are missing, so the pages of the inode cannot be counted.
    pub is_hidden: bool,
}

/// Returns true if `inode`, were it alone, would have as many pages as it says and nothing wrong with what it names
/// (FJ1).
pub(crate) fn fits(media: &CheckedMedia<'_>, inode: &Inode) -> bool {
    let (mut claims, mut wrong, mut shared) = (PageClaims::default(), Vec::new(), Vec::new());
    let (claims, wrong, shared) = (&mut claims, &mut wrong, &mut shared);
    let mut alone = Collector { media, claims, wrong, shared, pages: 0, is_hidden: false };
    alone.collect(inode);
    if inode.is_directory() {
        alone.names(inode);
    }
    alone.pages == inode.head.pages && alone.wrong.is_empty()
}

impl Collector<'_> {
    /// Collects all that `inode` names, except the names of a directory.
    pub fn collect(&mut self, inode: &Inode) {
        match inode.kind() {
            Some(FileKind::File) => {
                if inode.head.height > 4 {
                    let mut emptied = *inode;
                    (emptied.head.height, emptied.roots) = (0, [IndexWord::NONE; 8]);
                    let wrong = FsFinding::new(format!("the index of inode {} is too high", inode.ino.0), inode.at);
                    self.wrong.push(wrong.fixed_by(Fix::inode(emptied, "it reads as zeros now; what it held is lost")));
                    return;
                }
                for (index, word) in inode.roots.iter().enumerate() {
                    self.word(inode, inode.root_at(index as u64), *word, inode.head.height);
                }
            }
            Some(FileKind::Symlink) if inode.is_long_link() => self.word(inode, inode.root_at(0), inode.roots[0], 0),
            _ => {}
        }
        self.attributes(inode);
    }

    /// `inode` names `page` by the word at `at`. Returns true if the content of the page must be looked at.
    fn claim(&mut self, inode: &Inode, page: u64, kind: ChunkKind, at: u64) -> bool {
        let (claimed, is_there) =
            (self.claims.claim(self.media, page, kind, inode.ino, at), self.media.place(page, kind).is_some());
        self.is_hidden |= !is_there;
        // What is not there counts while it is named.
        if claimed.is_ok() || !is_there {
            self.pages += if kind == ChunkKind::Super { CHUNK_PAGES } else { 1 };
        }
        match claimed {
            Ok(()) => true,
            Err(wrong) => {
                let copied = is_there.then(|| self.claims.copied_from(page, kind, inode)).flatten();
                if let Some(other) = copied {
                    self.share(inode, other, page, kind, at);
                    // What words name is looked for when they are its own.
                    return kind == ChunkKind::Data;
                }
                let done = format!("inode {} has nothing there now; what it had is lost", inode.ino.0);
                self.wrong.push(wrong.fixed_by(Fix::word(at, 0, done)));
                false
            }
        }
    }

    /// Gives `inode` a copy of a page of `other`.
    fn share(&mut self, inode: &Inode, other: Ino, page: u64, kind: ChunkKind, at: u64) {
        self.shared.push(ContestedPage { ino: inode.ino, other, page, kind, at });
    }

    fn word(&mut self, inode: &Inode, at: u64, word: IndexWord, height: u8) {
        match (word.named(), height) {
            (NamedBy::Nothing, _) => {}
            (NamedBy::Page(page), 0) => match self.claims.owner(page) {
                Some(other) => self.share(inode, other, page, ChunkKind::Data, at),
                None => drop(self.claim(inode, page, ChunkKind::Data, at)),
            },
            (NamedBy::Super(page), 1) => self.superpage(inode, page, at),
            (NamedBy::Node(node), 1..) => {
                if self.claim(inode, node, ChunkKind::Index, at) {
                    let first = self.media.place(node, ChunkKind::Index).expect("it was claimed");
                    for at in (0..NODE_WORDS).map(|index| first + index * 8) {
                        self.word(inode, at, IndexWord(self.media.memory.load_word(at)), height - 1);
                    }
                }
            }
            _ => {
                let done = format!("inode {} has nothing there now; what it had is lost", inode.ino.0);
                let wrong = FsFinding::new(format!("a word of inode {} names what cannot be there", inode.ino.0), at);
                self.wrong.push(wrong.fixed_by(Fix::word(at, 0, done)));
            }
        }
    }

    /// A superpage begins a chunk: if `page` lies within a superpage, everything except the place in it is right.
    fn superpage(&mut self, inode: &Inode, page: u64, at: u64) {
        let first = page - page % CHUNK_PAGES;
        if self.claim(inode, first, ChunkKind::Super, at) && first != page {
            let what = format!("inode {} names page {page}, with which no superpage begins", inode.ino.0);
            let fix = Fix::word(at, IndexWord::superpage(first).0, "it names the superpage that the page lies in");
            self.wrong.push(FsFinding::new(what, at).fixed_by(fix));
        }
    }

    /// An index page of names or attributes; its words, if it can be one.
    pub fn node(&mut self, inode: &Inode, node: u64, at: u64) -> Option<(u64, Vec<u64>)> {
        if !self.claim(inode, node, ChunkKind::Index, at) {
            return None;
        }
        let first = self.media.place(node, ChunkKind::Index)?;
        Some((first, (0..NODE_WORDS).map(|index| self.media.memory.load_word(first + index * 8)).collect()))
    }

    /// A page of names; where it lies, if it can be one.
    pub fn leaf(&mut self, inode: &Inode, page: u64, at: u64) -> Option<u64> {
        self.claim(inode, page, ChunkKind::Index, at).then(|| self.media.place(page, ChunkKind::Index))?
    }

    fn attributes(&mut self, inode: &Inode) {
        let (word, at) = (IndexWord(inode.rest.xattrs), inode.at + 152);
        let pages = match word.named() {
            NamedBy::Nothing => return,
            NamedBy::Page(page) => vec![(at, page)],
            NamedBy::Node(node) => {
                let Some((first, words)) = self.node(inode, node, at) else { return };
                let named = (first..).step_by(8).zip(words).take_while(|(_, word)| *word != 0);
                let page = |(at, word)| {
                    if let NamedBy::Page(page) = IndexWord(word).named() { Some((at, page)) } else { None }
                };
                named.filter_map(page).collect()
            }
            _ => Vec::new(),
        };
        let mut blob = Vec::new();
        for (at, page) in pages {
            if !self.claim(inode, page, ChunkKind::Data, at) {
                // That gives up all of them.
                return;
            }
            let mut bytes = vec![0; ferrite_pool::layout::PAGE as usize];
            self.media.memory.load(self.media.place(page, ChunkKind::Data).expect("it was claimed"), &mut bytes);
            blob.extend(bytes);
        }
        if crate::tree::xattr::decode(&blob).is_none() {
            let wrong = FsFinding::new(format!("the extended attributes of inode {} are damaged", inode.ino.0), at);
            self.wrong.push(wrong.fixed_by(Fix::word(at, 0, "they are lost")));
        }
    }
}
