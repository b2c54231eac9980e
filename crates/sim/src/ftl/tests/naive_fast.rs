//! FAST written as plainly as can be: blocks are lists of programmed pages, and the newest version of a page is
//! searched everywhere.

use super::super::FlashShape;

/// A block's pages: which version of the host's page each slot holds.
type Slots = Vec<Option<(u32, u64)>>;

pub(super) struct NaiveFast {
    pages: u32,
    log_blocks: usize,
    data: Vec<Slots>,
    /// The owner of the sequential log, and its pages in order.
    sequential: Option<(u32, Vec<(u32, u64)>)>,
    random: Vec<Vec<(u32, u64)>>,
    newest: Vec<Option<u64>>,
    now: u64,
    /// Switch, partial and full merges, erases, copies.
    pub(super) counts: [u64; 5],
}

impl NaiveFast {
    pub(super) fn new(shape: FlashShape, log_blocks: u32) -> Self {
        let slots = vec![None; shape.block_pages as usize];
        Self {
            pages: shape.block_pages,
            log_blocks: log_blocks as usize,
            data: vec![slots; shape.logical_blocks as usize],
            sequential: None,
            random: Vec::new(),
            newest: vec![None; shape.host_pages() as usize],
            now: 0,
            counts: [0; 5],
        }
    }

    fn owns(&self, owner: u32) -> bool {
        self.sequential.as_ref().is_some_and(|(other, _)| *other == owner)
    }

    pub(super) fn write(&mut self, page: u32) {
        self.now += 1;
        let (owner, offset) = (page / self.pages, page % self.pages);
        let new = (page, self.now);
        if self.data[owner as usize][offset as usize].is_none() {
            self.data[owner as usize][offset as usize] = Some(new);
        } else if offset == 0 {
            self.end_sequential(None);
            self.sequential = Some((owner, vec![new]));
        } else if self.owns(owner) {
            self.write_owned(owner, offset, new);
        } else {
            self.append(new);
        }
        self.newest[page as usize] = Some(self.now);
    }

    fn write_owned(&mut self, owner: u32, offset: u32, new: (u32, u64)) {
        let (_, log) = self.sequential.as_mut().expect("it owns one");
        if offset as usize == log.len() {
            log.push(new);
        } else if offset as usize > log.len() {
            self.end_sequential(Some(new));
        } else {
            self.merge_fully(owner, Some(new));
            self.sequential = None;
            self.counts[3] += 1;
        }
    }

    pub(super) fn trim(&mut self, page: u32) {
        self.newest[page as usize] = None;
    }

    /// Collects the newest version of each page of `owner` from `offset`; all except the new one are copied.
    fn gather(&mut self, owner: u32, offset: usize, new: Option<(u32, u64)>) -> Slots {
        let first = owner * self.pages;
        let newest = (first..first + self.pages).skip(offset).map(|page| match new {
            Some(new) if new.0 == page => Some(new),
            _ => self.newest[page as usize].map(|version| (page, version)),
        });
        let gathered: Slots = newest.collect();
        self.counts[4] += gathered.iter().flatten().filter(|page| Some(**page) != new).count() as u64;
        gathered
    }

    fn end_sequential(&mut self, new: Option<(u32, u64)>) {
        let Some((owner, log)) = self.sequential.take() else { return };
        let kind = usize::from(log.len() < self.pages as usize);
        let rest = self.gather(owner, log.len(), new);
        self.data[owner as usize] = log.into_iter().map(Some).chain(rest).collect();
        self.forget_log_copies(owner);
        self.counts[kind] += 1;
        self.counts[3] += 1;
    }

    /// Drops copies in the log: no write has version 0.
    fn forget_log_copies(&mut self, owner: u32) {
        self.random.iter_mut().flatten().filter(|(page, _)| page / self.pages == owner).for_each(|it| it.1 = 0);
    }

    fn merge_fully(&mut self, owner: u32, new: Option<(u32, u64)>) {
        self.data[owner as usize] = self.gather(owner, 0, new);
        self.forget_log_copies(owner);
        self.counts[2] += 1;
        self.counts[3] += 1;
    }

    fn append(&mut self, new: (u32, u64)) {
        if self.random.last().is_none_or(|block| block.len() == self.pages as usize) {
            if self.random.len() == self.log_blocks {
                self.reclaim();
            }
            let (owner, offset) = (new.0 / self.pages, new.0 % self.pages);
            let slot = &mut self.data[owner as usize][offset as usize];
            if slot.is_none() {
                *slot = Some(new);
                return;
            }
            self.random.push(Vec::new());
        }
        self.random.last_mut().expect("just made").push(new);
    }

    fn reclaim(&mut self) {
        let oldest = self.random.remove(0);
        let mut merged = Vec::new();
        for (page, version) in oldest {
            let owner = page / self.pages;
            if self.newest[page as usize] != Some(version) || merged.contains(&owner) {
                continue;
            }
            let holds = |slots: &Slots| slots.contains(&Some((page, version)));
            assert!(!holds(&self.data[owner as usize]), "FA5: the log holds what the data block does");
            if self.owns(owner) {
                self.end_sequential(None)
            } else {
                self.merge_fully(owner, None)
            }
            merged.push(owner);
        }
        self.counts[3] += 1;
    }
}
