//! Directories that the root does not reach.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::successors;

use super::InodeSurvey;
use crate::Ino;
use crate::check::{Fix, FsFinding};
use crate::format::inode::{Inode, LOST};

impl InodeSurvey<'_> {
    /// Directories that lie within themselves by what their names say, each with those between.
    pub(super) fn circles(&self) -> Vec<Vec<Ino>> {
        let up = |ino: &Ino| self.parents.get(ino).copied();
        let (mut circles, mut seen) = (Vec::new(), BTreeMap::new());
        for start in self.parents.keys() {
            let known = successors(Some(*start), up).find(|ino| {
                let is_known = seen.contains_key(ino);
                seen.entry(*ino).or_insert(*start);
                is_known
            });
            if let Some(first) = known.filter(|ino| seen[ino] == *start) {
                let others = successors(up(&first), up).take_while(|ino| *ino != first);
                circles.push([first].into_iter().chain(others).collect());
            }
        }
        circles
    }

    /// Directories that the root does not reach; those in one that is lost are found again with it. Of a circle one
    /// name goes, so that it is lost.
    pub(super) fn reachable(&mut self, circles: &[Vec<Ino>]) {
        let children: BTreeMap<Ino, Vec<Ino>> =
            self.parents.iter().fold(BTreeMap::new(), |mut all, (child, parent)| {
                let of: &mut Vec<Ino> = all.entry(*parent).or_default();
                of.push(*child);
                all
            });
        let lost = self.inodes.values().filter(|inode| inode.head.flags & LOST != 0).map(|inode| inode.ino);
        let (mut reached, mut next) = (BTreeSet::new(), lost.chain([Ino::ROOT]).collect::<Vec<_>>());
        while let Some(ino) = next.pop() {
            if reached.insert(ino) {
                next.extend(children.get(&ino).into_iter().flatten());
            }
        }
        let opened: BTreeMap<Ino, u64> = circles.iter().filter_map(|circle| self.wrong_name(circle)).collect();
        let cut_off = self.parents.keys().filter(|ino| !reached.contains(ino)).filter_map(|ino| self.inodes.get(ino));
        for inode in cut_off {
            let what = format!("inode {} is a directory that the root does not reach", inode.ino.0);
            let wrong = FsFinding::new(what, inode.at);
            self.wrong.push(match opened.get(&inode.ino) {
                Some(slot_at) => wrong.fixed_by(Fix::word(
                    *slot_at,
                    0,
                    "its name, in a directory below it, is gone; it is found in lost+found",
                )),
                None => wrong,
            });
        }
    }

    /// The directory of a circle whose name there leads to it by mistake, and where the slot of that lies: one that
    /// says that it lies elsewhere, or any. Where more names lead to it those are parted first.
    fn wrong_name(&self, circle: &[Ino]) -> Option<(Ino, u64)> {
        let all: Vec<&Inode> = circle.iter().map(|ino| self.inodes.get(ino)).collect::<Option<_>>()?;
        let is_elsewhere = |inode: &&&Inode| self.parents[&inode.ino].0 != inode.rest.parent;
        let inode = all.iter().find(is_elsewhere).or(all.first())?;
        match self.ways.get(&inode.ino)?.as_slice() {
            [(_, slot_at)] => Some((inode.ino, *slot_at)),
            _ => None,
        }
    }
}
