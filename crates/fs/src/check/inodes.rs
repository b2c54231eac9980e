//! Every inode, what it names, and who names it.

use std::collections::{BTreeMap, BTreeSet};

use super::claims::Claims;
use super::content::Collector;
use super::{Media, Wrong};
use crate::inode::Inode;
use crate::layout::ORPHANS;
use crate::{Ino, Kind};

/// What all inodes say together.
pub(crate) struct Survey<'a> {
    media: &'a Media<'a>,
    claims: Claims,
    wrong: Vec<Wrong>,
    inodes: BTreeMap<Ino, Inode>,
    /// Names that lead to each inode, and of directories those of directories in them.
    names: BTreeMap<Ino, u64>,
    directories_in: BTreeMap<Ino, u64>,
    /// The directory that each directory lies in.
    parents: BTreeMap<Ino, Ino>,
}

impl<'a> Survey<'a> {
    /// Looks at all that `media` holds.
    pub fn of(media: &'a Media<'a>) -> Self {
        let inodes = media.inodes().map(|inode| (inode.ino, inode)).collect();
        let mut survey = Self {
            media,
            claims: Claims::default(),
            wrong: media.wrong.clone(),
            inodes,
            names: BTreeMap::new(),
            directories_in: BTreeMap::new(),
            parents: BTreeMap::new(),
        };
        let all: Vec<Inode> = survey.inodes.values().copied().collect();
        all.iter().for_each(|inode| survey.inode(inode));
        all.iter().for_each(|inode| survey.links(inode));
        survey.orphans();
        survey.reachable();
        survey.claims.against_bitmaps(media, &mut survey.wrong);
        survey
    }

    pub fn into_wrong(self) -> Vec<Wrong> {
        self.wrong
    }

    fn say(&mut self, inode: &Inode, what: impl std::fmt::Display) {
        self.wrong.push(Wrong::new(format!("inode {} {what}", inode.ino.0), inode.at));
    }

    fn inode(&mut self, inode: &Inode) {
        let Some(kind) = inode.kind() else {
            return self.say(inode, "is of a kind that nobody knows");
        };
        let (media, claims, wrong) = (self.media, &mut self.claims, &mut self.wrong);
        let mut collector = Collector { media, claims, wrong, pages: 0 };
        collector.collect(inode);
        let entries = if kind == Kind::Directory { collector.names(inode) } else { Vec::new() };
        let pages = collector.pages;
        if pages != inode.head.pages {
            self.say(inode, format_args!("says it has {} pages and has {pages}", inode.head.pages));
        }
        for entry in entries {
            let name = String::from_utf8_lossy(entry.name()).into_owned();
            let Some(child) = self.inodes.get(&entry.ino) else {
                self.say(inode, format_args!("has the name {name:?} for an inode that is free: {}", entry.ino.0));
                continue;
            };
            if child.kind() != Some(entry.kind) {
                self.say(inode, format_args!("calls inode {} a {:?}, which it is not", entry.ino.0, entry.kind));
            }
            *self.names.entry(entry.ino).or_default() += 1;
            if entry.kind == Kind::Directory {
                *self.directories_in.entry(inode.ino).or_default() += 1;
                self.parents.insert(entry.ino, inode.ino);
            }
        }
    }

    fn links(&mut self, inode: &Inode) {
        let names = self.names.get(&inode.ino).copied().unwrap_or(0);
        if !inode.is_directory() {
            if names != u64::from(inode.head.links) {
                self.say(inode, format_args!("says it has {} names and has {names}", inode.head.links));
            }
            return;
        }
        let is_root = inode.ino == Ino::ROOT;
        let wanted = match (names, is_root) {
            (1, false) | (0, true) => 2 + self.directories_in.get(&inode.ino).copied().unwrap_or(0),
            (0, false) => 0,
            _ => return self.say(inode, format_args!("is a directory with {names} names")),
        };
        if wanted != u64::from(inode.head.links) {
            self.say(inode, format_args!("says it has {} links and has {wanted}", inode.head.links));
        }
        let parent = if is_root { Some(Ino::ROOT) } else { self.parents.get(&inode.ino).copied() };
        if parent.is_some_and(|parent| parent.0 != inode.rest.parent) {
            self.say(inode, format_args!("has {} for its parent, which it does not lie in", inode.rest.parent));
        }
    }

    /// Orphan words and the inodes they name (FO1).
    fn orphans(&mut self) {
        let mut named = BTreeSet::new();
        for index in 0..ORPHANS {
            let at = self.media.map.orphan(index);
            let ino = self.media.memory.load_word(at);
            if ino == 0 {
                continue;
            }
            let inode = self.inodes.get(&Ino(ino));
            if inode.is_some_and(|inode| u64::from(inode.head.orphan) == index + 1) {
                named.insert(Ino(ino));
            } else {
                self.wrong.push(Wrong::new(format!("orphan word {index} names inode {ino}, which is no orphan"), at));
            }
        }
        let lost = |inode: &&Inode| (inode.head.links == 0 || inode.head.orphan != 0) && !named.contains(&inode.ino);
        let lost: Vec<Inode> = self.inodes.values().filter(lost).copied().collect();
        lost.iter().for_each(|inode| self.say(inode, "is an orphan that no orphan word names"));
    }

    /// Directories that name each other and no one else.
    fn reachable(&mut self) {
        let children: BTreeMap<Ino, Vec<Ino>> =
            self.parents.iter().fold(BTreeMap::new(), |mut all, (child, parent)| {
                let of: &mut Vec<Ino> = all.entry(*parent).or_default();
                of.push(*child);
                all
            });
        let (mut reached, mut next) = (BTreeSet::new(), vec![Ino::ROOT]);
        while let Some(ino) = next.pop() {
            if reached.insert(ino) {
                next.extend(children.get(&ino).into_iter().flatten());
            }
        }
        let cut_off: Vec<Inode> = self
            .parents
            .keys()
            .filter(|ino| !reached.contains(ino))
            .filter_map(|ino| self.inodes.get(ino).copied())
            .collect();
        cut_off.iter().for_each(|inode| self.say(inode, "is a directory that the root does not reach"));
    }
}
