//! What an inode names beside other inodes: pages of content, of words, of attributes.

use ferrite_pool::layout::CHUNK_PAGES;

use super::claims::{ContestedPage, PageClaim, PageClaims};
use super::{CheckedMedia, Fix, FsFinding};
use crate::FileKind;
use crate::format::inode::Inode;
use crate::format::layout::ChunkKind;
use crate::format::layout::NODE_WORDS;
use crate::format::word::{IndexWord, NamedBy};

/// Levels of words below the words of an inode, at most.
const HEIGHT_MAX: u8 = 4;

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
    /// A word is of another level of the index than the one it lies in.
    pub is_level_wrong: bool,
    /// A word of the lowest level names content.
    pub is_any_reached: bool,
}

impl<'a> Collector<'a> {
    pub fn new(
        media: &'a CheckedMedia<'a>,
        claims: &'a mut PageClaims,
        wrong: &'a mut Vec<FsFinding>,
        shared: &'a mut Vec<ContestedPage>,
    ) -> Self {
        Self { media, claims, wrong, shared, pages: 0, is_hidden: false, is_level_wrong: false, is_any_reached: false }
    }

    /// Collects all that `inode` names, except the names of a directory.
    pub fn collect(&mut self, inode: &Inode) {
        match inode.kind() {
            Some(FileKind::File) => {
                let before = self.wrong.len();
                for (index, word) in inode.roots.iter().enumerate() {
                    self.word(inode, inode.root_at(index as u64), *word, inode.head.height);
                }
                if inode.head.height > HEIGHT_MAX || self.is_level_wrong && !self.is_any_reached {
                    self.wrong.truncate(before);
                    let what = format!("no word of inode {} fits the height of its index", inode.ino.0);
                    self.wrong.push(FsFinding::doubt(what, inode.at));
                }
            }
            Some(FileKind::Symlink) if inode.is_long_link() => self.word(inode, inode.root_at(0), inode.roots[0], 0),
            _ => {}
        }
        self.attributes(inode);
    }

    /// `inode` names `page` by the word at `at`. Returns true if the content of the page must be looked at.
    fn claim(&mut self, inode: &Inode, page: u64, kind: ChunkKind, at: u64) -> bool {
        let claim = self.claims.claim(self.media, page, kind, inode.ino);
        if !matches!(claim, PageClaim::Taken(_)) {
            // What is not there counts while it is named.
            self.pages += if kind == ChunkKind::Super { CHUNK_PAGES } else { 1 };
        }
        match claim {
            PageClaim::Own => true,
            PageClaim::Taken(other) if kind == ChunkKind::Data => {
                self.shared.push(ContestedPage { ino: inode.ino, other, page, at });
                true
            }
            PageClaim::Taken(other) => {
                let what = format!("inode {} names page {page}, which inode {} names too", inode.ino.0, other.0);
                self.wrong.push(FsFinding::doubt(what, at));
                false
            }
            PageClaim::Absent => {
                self.is_hidden = true;
                let what = format!("inode {} names page {page}, which is not of the kind it needs", inode.ino.0);
                let done = format!("inode {} has nothing there now; what it had is lost", inode.ino.0);
                self.wrong.push(FsFinding::new(what, at).fixed_by(Fix::word(at, 0, done)));
                false
            }
        }
    }

    fn word(&mut self, inode: &Inode, at: u64, word: IndexWord, height: u8) {
        match (word.named(), height) {
            (NamedBy::Nothing, _) => {}
            (NamedBy::Page(page), 0) => {
                self.is_any_reached = true;
                self.claim(inode, page, ChunkKind::Data, at);
            }
            (NamedBy::Away(page), 0) if self.media.slots.as_ref().is_some_and(|slots| slots.has(page.slot)) => {
                self.is_any_reached = true;
                self.pages += 1;
                if let Some(other) = self.claims.claim_slot(page.slot, inode.ino) {
                    let (ino, slot) = (inode.ino.0, page.slot.0);
                    let what = format!("inode {ino} names slot {slot} of the SSDs, which inode {} names too", other.0);
                    self.wrong.push(FsFinding::doubt(what, at));
                }
            }
            (NamedBy::Super(page), 1) => {
                self.is_any_reached = true;
                self.superpage(inode, page, at);
            }
            (NamedBy::Node(node), 1..=HEIGHT_MAX) => {
                if let Some((first, words)) = self.node(inode, node, at) {
                    let words = (first..).step_by(8).zip(words);
                    words.for_each(|(at, word)| self.word(inode, at, IndexWord(word), height - 1));
                }
            }
            (named, _) => {
                self.is_level_wrong |= named != NamedBy::Unknown;
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

    /// Returns the place of an index page and its words, if it can be one.
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
