//! Every inode, the pages that it names, and the names that lead to it.

mod circles;

use std::collections::{BTreeMap, BTreeSet};

use ferrite_memory::planted;
use ferrite_pool::layout::CHUNK_PAGES;

use super::claims::{ContestedPage, PageClaims};
use super::content::Collector;
use super::{CheckedMedia, Fix, FsFinding};
use crate::format::inode::{Inode, LOST};
use crate::format::layout::ChunkKind;
use crate::format::layout::{CHUNK_INODES, FILE_BYTES_MAX, LAST_ORPHAN, ORPHANS, UNLISTED};
use crate::format::leaf::{LeafEntry, NameSlot};
use crate::format::word::IndexWord;
use crate::{FileKind, Ino};

/// The report on corrected numbers.
const COUNTED: &str = "it says what was counted";

/// Slots that are cleared in one transaction, which has room for so many.
fn slots_max() -> usize {
    planted!("fs: large fix" => return usize::MAX);
    1000
}

/// What all inodes say together.
pub(crate) struct InodeSurvey<'a> {
    media: &'a CheckedMedia<'a>,
    claims: PageClaims,
    wrong: Vec<FsFinding>,
    inodes: BTreeMap<Ino, Inode>,
    /// Names that lead to each inode; for directories, the count of directories in them.
    names: BTreeMap<Ino, u64>,
    directories_in: BTreeMap<Ino, u64>,
    /// The directory that each directory lies in.
    parents: BTreeMap<Ino, Ino>,
    /// Those that lie within themselves.
    in_circles: BTreeSet<Ino>,
    /// The names that lead to each directory: whose they are, and where their slots lie.
    ways: BTreeMap<Ino, Vec<(Ino, u64)>>,
    /// The orphan words before this one are in use, or given to inodes without names.
    given: u64,
    /// Inodes that a name calls what they are.
    confirmed: BTreeSet<Ino>,
    /// Reports on names that call these inodes something else.
    miscalled: Vec<(Ino, FsFinding)>,
}

/// Owner and group of `inode`, root where it says what the kernel takes for none.
fn owners(inode: &Inode) -> (u32, u32) {
    let owner = |id: u32| if id == u32::MAX { 0 } else { id };
    (owner(inode.head.uid), owner(inode.head.gid))
}

impl<'a> InodeSurvey<'a> {
    /// Looks at everything in `media`.
    pub fn of(media: &'a CheckedMedia<'a>) -> Self {
        let mut survey = Self {
            media,
            claims: PageClaims::default(),
            wrong: Vec::new(),
            inodes: media.inodes().map(|inode| (inode.ino, inode)).collect(),
            names: BTreeMap::new(),
            directories_in: BTreeMap::new(),
            parents: BTreeMap::new(),
            in_circles: BTreeSet::new(),
            ways: BTreeMap::new(),
            given: 0,
            confirmed: BTreeSet::new(),
            miscalled: Vec::new(),
        };
        survey.root();
        let (all, mut shared) = (survey.inodes.values().copied().collect::<Vec<_>>(), Vec::new());
        all.iter().for_each(|inode| survey.inode(inode, &mut shared));
        survey.claims.copy(media, &shared, &mut survey.wrong);
        for (ino, wrong) in std::mem::take(&mut survey.miscalled) {
            let is_in_doubt = !survey.confirmed.contains(&ino);
            survey.wrong.push(FsFinding { is_in_doubt, ..wrong });
        }
        let circles = survey.circles();
        survey.in_circles = circles.iter().flatten().copied().collect();
        all.iter().for_each(|inode| survey.links(inode));
        survey.orphans();
        survey.reachable(&circles);
        let is_all = survey.wrong.is_empty();
        survey.claims.against_bitmaps(media, is_all, &mut survey.wrong);
        survey.claims.against_slots(media, is_all, &mut survey.wrong);
        survey
    }

    /// Returns true if anything in chunk `number` is named as what that is.
    fn is_named(&self, number: u64) -> bool {
        let inodes = Ino(number * CHUNK_INODES)..Ino((number + 1) * CHUNK_INODES);
        number == 0 || self.claims.is_any_in(number) || self.names.range(inodes).next().is_some()
    }

    /// Returns the chunks that all their names need as other kinds, with those. A chunk without a place is none of them
    /// if no place is left for it.
    pub fn misnamed(&self) -> impl Iterator<Item = (u64, &BTreeSet<u8>)> {
        let may_be = |number: u64| {
            self.media.bases.get(number as usize).is_some_and(|base| base.is_some() || !self.media.spare.is_empty())
        };
        let all = self.claims.misnamed.iter().map(|(number, kinds)| (*number, kinds));
        all.filter(move |(number, _)| may_be(*number) && !self.is_named(*number))
    }

    pub fn into_wrong(self) -> Vec<FsFinding> {
        self.wrong
    }

    /// Reports an inode that should be `right`.
    fn mend(&mut self, right: Inode, what: impl std::fmt::Display, done: &str) {
        let wrong = FsFinding::new(format!("inode {} {what}", right.ino.0), right.at);
        self.wrong.push(wrong.fixed_by(Fix::inode(right, done)));
    }

    /// Inode 1 is the root directory, whatever it says: without it the file system cannot be opened. It keeps its
    /// names, and gains only the usual permissions.
    fn root(&mut self) {
        let Some(inode) = self.media.inode(Ino::ROOT) else { return };
        if inode.is_directory() {
            return;
        }
        let mut right = inode;
        right.head.mode = FileKind::Directory.mode_bits() as u16 | 0o700 | inode.head.mode & 0o055;
        (right.head.uid, right.head.gid) = owners(&inode);
        (right.head.height, right.head.flags, right.head.links, right.head.orphan) = (0, 0, 2, 0);
        right.rest.parent = Ino::ROOT.0;
        self.inodes.insert(Ino::ROOT, right);
        let done = "it is one, with the names that are left: see that its owner and mode are right";
        self.mend(right, "is the root, and no directory", done);
    }

    /// Looks at `inode` and all that it names; `shared` are the pages that an inode before named too.
    fn inode(&mut self, inode: &Inode, shared: &mut Vec<ContestedPage>) {
        let Some(kind) = inode.kind() else {
            let what = format!("inode {} is of an unknown kind", inode.ino.0);
            return self.wrong.push(FsFinding::doubt(what, inode.at));
        };
        self.head(inode, kind);
        let (media, claims, wrong, copies) = (self.media, &mut self.claims, &mut self.wrong, shared.len());
        let mut collector = Collector::new(media, claims, wrong, shared);
        collector.collect(inode);
        let entries = if kind == FileKind::Directory { collector.names(inode) } else { Vec::new() };
        let pages = collector.pages;
        if pages != inode.head.pages && shared.len() == copies {
            let mut right = *inode;
            right.head.pages = pages;
            self.mend(right, format_args!("says it has {} pages and has {pages}", inode.head.pages), COUNTED);
        }
        entries.iter().for_each(|entry| self.entry(inode, entry));
    }

    /// Notes `entry` of directory `inode`.
    fn entry(&mut self, inode: &Inode, entry: &LeafEntry) {
        let name = String::from_utf8_lossy(&entry.name(self.media.memory)).into_owned();
        let Some(child) = self.inodes.get(&entry.ino) else {
            return self.free_child(inode, entry, &name);
        };
        if child.kind() == Some(entry.kind) {
            self.confirmed.insert(entry.ino);
        } else if let Some(kind) = child.kind() {
            let what = format!("inode {} calls inode {} a {:?}, which it is not", inode.ino.0, entry.ino.0, entry.kind);
            let slot = NameSlot(self.media.memory.load_word(entry.slot_at)).with_kind(kind);
            let fix = Fix::word(entry.slot_at, slot.0, "it is called what it is");
            self.miscalled.push((entry.ino, FsFinding::new(what, entry.slot_at).fixed_by(fix)));
        }
        *self.names.entry(entry.ino).or_default() += 1;
        if entry.kind == FileKind::Directory {
            *self.directories_in.entry(inode.ino).or_default() += 1;
            let parent = self.parents.entry(entry.ino).or_insert(inode.ino);
            if child.rest.parent == inode.ino.0 {
                *parent = inode.ino;
            }
        }
        if child.is_directory() {
            self.ways.entry(entry.ino).or_default().push((inode.ino, entry.slot_at));
        }
    }

    /// Reports `entry` of directory `inode`, whose inode is free.
    fn free_child(&mut self, inode: &Inode, entry: &LeafEntry, name: &str) {
        let number = entry.ino.0 / CHUNK_INODES;
        if self.media.chunk_of(number * CHUNK_PAGES, ChunkKind::Inodes).is_none() {
            self.claims.note_misnamed(number, ChunkKind::Inodes);
        }
        let what = format!("inode {} has the name {name:?} for inode {}, which is free", inode.ino.0, entry.ino.0);
        let is_empty = |child: &Inode| child.head.pages == 0 && child.roots == [IndexWord::NONE; 8];
        self.wrong.push(match self.media.inode(entry.ino).filter(|child| !is_empty(child)) {
            Some(child) => FsFinding::doubt(what + " and still names pages", child.at),
            None => {
                let fix = Fix::word(entry.slot_at, 0, "the name is gone; what it named is lost");
                FsFinding::new(what, entry.slot_at).fixed_by(fix)
            }
        });
    }

    /// What an inode of kind `kind` says of itself.
    fn head(&mut self, inode: &Inode, kind: FileKind) {
        if inode.is_long_link() && inode.head.links > 0 && inode.roots[0] == IndexWord::NONE {
            // Its names are cleared in the next round.
            self.mend(inode.freed(), "is a symbolic link whose target is lost", "it is given up");
        }
        let (uid, gid) = owners(inode);
        if (uid, gid) != (inode.head.uid, inode.head.gid) {
            let mut right = *inode;
            (right.head.uid, right.head.gid) = (uid, gid);
            // A program in it must not gain root's rights.
            right.head.mode &= !0o6000;
            self.mend(
                right,
                "has an owner or a group that none can be",
                "it is root's: see that this and its mode are right",
            );
        }
        let size_max = match kind {
            FileKind::File => FILE_BYTES_MAX,
            FileKind::Symlink => 4095,
            _ => u64::MAX,
        };
        if inode.size() > size_max {
            let mut right = *inode;
            right.head.size = size_max;
            self.mend(right, format_args!("says it has {} bytes", inode.size()), "it has as many as it can have");
        }
    }

    fn links(&mut self, inode: &Inode) {
        let names = self.names.get(&inode.ino).copied().unwrap_or(0);
        // By its orphan word it is found.
        let is_lost = inode.head.flags & LOST != 0 && inode.head.orphan != 0;
        let is_root = inode.ino == Ino::ROOT;
        if names == 0 && inode.head.links > 0 && !is_root && !is_lost {
            return self.lose(inode);
        }
        let below = self.directories_in.get(&inode.ino).copied().unwrap_or(0);
        let wanted = match (inode.is_directory(), names) {
            (false, _) => names.max(u64::from(is_lost)),
            (true, 0) if inode.head.links == 0 && !is_root => 0,
            (true, 0) => 2 + below,
            (true, 1) if !is_root => 2 + below,
            (true, _) => return self.part_names(inode, names),
        };
        if wanted != u64::from(inode.head.links) {
            let mut right = *inode;
            right.head.links = wanted as u32;
            self.mend(right, format_args!("says it has {} links and has {wanted}", inode.head.links), COUNTED);
        }
        // If it lies within itself, its own parent word shows which of the names is wrong.
        let lies_in = self.parents.get(&inode.ino).copied().filter(|_| !self.in_circles.contains(&inode.ino));
        let parent = if is_root { Some(Ino::ROOT) } else { lies_in };
        if let Some(parent) = parent.filter(|parent| inode.is_directory() && parent.0 != inode.rest.parent) {
            let mut right = *inode;
            right.rest.parent = parent.0;
            let what = format!("has {} for its parent, and lies in {}", inode.rest.parent, parent.0);
            self.mend(right, what, "it has the one that it lies in");
        }
    }

    /// A directory with `names` names lies where it says, and the root in no directory: other names are wrong. Of two
    /// names in its parent the first is kept, because the right one is unknown. Without a name in its parent it keeps
    /// none, because another name might put it inside itself.
    fn part_names(&mut self, inode: &Inode, names: u64) {
        let what = format!("inode {} is a directory with {names} names", inode.ino.0);
        let mut ways = self.ways.remove(&inode.ino).unwrap_or_default();
        let is_own = |(dir, _): &(Ino, u64)| inode.ino != Ino::ROOT && dir.0 == inode.rest.parent;
        let done = match ways.iter().position(is_own) {
            Some(own) => {
                ways.remove(own);
                "it has one, where it says that it lies; what only the others named is found in lost+found"
            }
            None => "it has none now; what only they named is found in lost+found",
        };
        for some in ways.chunks(slots_max()) {
            let writes = some.iter().map(|(_, slot_at)| (*slot_at, vec![0; 8])).collect();
            let wrong = FsFinding::new(what.clone(), inode.at);
            self.wrong.push(wrong.fixed_by(Fix { writes, copy: None, done: done.into() }));
        }
    }

    /// Makes an inode without a name known to the next opening: by its orphan word, or by a free one.
    fn lose(&mut self, inode: &Inode) {
        let mut right = *inode;
        right.head.flags |= LOST;
        right.head.links = if inode.is_directory() { inode.head.links } else { 1 };
        let free = |index: &u64| self.media.memory.load_word(self.media.map.orphan(*index)) == 0;
        let word = (self.given..LAST_ORPHAN).find(free);
        let what = format!("inode {} has no name", inode.ino.0);
        let Some(word) = word else { return self.wrong.push(FsFinding::new(what, inode.at)) };
        self.given = word + 1;
        right.head.orphan = word as u32 + 1;
        let mut fix = Fix::inode(right, "it is put into lost+found when the file system is opened");
        fix.writes.push((self.media.map.orphan(word), inode.ino.0.to_le_bytes().to_vec()));
        self.wrong.push(FsFinding::new(what, inode.at).fixed_by(fix));
    }

    /// Orphan words and the inodes they name (FO1); others without a name may have none where the last word says so
    /// (FO3).
    fn orphans(&mut self) {
        let mut named = BTreeSet::new();
        let is_unlisted = self.media.memory.load_word(self.media.map.orphan(LAST_ORPHAN)) == UNLISTED;
        for index in 0..ORPHANS {
            let at = self.media.map.orphan(index);
            let ino = self.media.memory.load_word(at);
            if ino == 0 || index == LAST_ORPHAN && is_unlisted {
                continue;
            }
            let inode = self.inodes.get(&Ino(ino));
            if inode.is_some_and(|inode| u64::from(inode.head.orphan) == index + 1) {
                named.insert(Ino(ino));
            } else {
                let wrong = FsFinding::new(format!("orphan word {index} names inode {ino}, which is no orphan"), at);
                self.wrong.push(wrong.fixed_by(Fix::word(at, 0, "it names none")));
            }
        }
        let waits = |inode: &Inode| inode.head.links == 0 && !is_unlisted || inode.head.orphan != 0;
        let lost = |inode: &&Inode| waits(inode) && !named.contains(&inode.ino);
        let lost: Vec<Inode> = self.inodes.values().filter(lost).copied().collect();
        for inode in lost {
            let mut right = inode;
            right.head.orphan = 0;
            // Without a name it is lost, and found again; with one it has pages behind its end, which its next cut
            // frees.
            right.head.links = inode.head.links.max(u32::from(inode.head.orphan == 0));
            self.mend(right, "is an orphan that no orphan word names", "it is none");
        }
    }
}
