//! The loads and the sizes of the experiment (nvm-storage-hierarchy.txt, 3.3.1; sizes beyond these are not in the paper).

use crate::options::Length;
use crate::records::{PAGE_BYTES, PageLoad, PageMeasure, ServerLoad};

/// The sizes of a run.
pub struct TierPlan {
    /// Bytes of our pool, and of the others' page cache.
    pub memory_bytes: u64,
    /// The part of the SSD that live data takes, in per cent.
    pub live_percents: &'static [u64],
    /// Writes after which a file is synced; 0 for never.
    pub syncs: &'static [u64],
    /// The length, by which loads are run in every way, or only some of them.
    pub length: Length,
    /// Bytes of the pools that are open in this process.
    pub library_bytes: u64,
    /// Bytes of the SSD of the pool whose owner is killed.
    pub killed_ssd_bytes: u64,
    /// Kills.
    pub kills: usize,
    /// Rounds of requests with a tier and without, and requests of a slice.
    pub cost_rounds: usize,
    /// See [`Self::cost_rounds`].
    pub cost_requests: u64,
    /// The number of the kernel's file systems that take part.
    pub peers: usize,
    /// Bytes of content, in sizes of the memory.
    content_times: u64,
    /// Random page writes on all files of a load.
    overwrites: u64,
    /// Files of the load on many files.
    many_files: u64,
    /// postmark's transactions.
    transactions: u64,
    /// Operations of the file server.
    operations: u64,
}

/// A load.
#[derive(Clone, Debug)]
pub struct TierLoad {
    /// The name in reports.
    pub name: &'static str,
    /// The work.
    pub kind: LoadKind,
    /// Bytes of content.
    pub live_bytes: u64,
}

/// The work of a load.
#[derive(Clone, Debug)]
pub enum LoadKind {
    /// Random requests to pages.
    Pages {
        /// The requests.
        load: PageLoad,
        /// Bytes of each file.
        file_bytes: u64,
    },
    /// A file server.
    Server(ServerLoad),
    /// postmark, which appends to small files.
    Postmark {
        /// The number of files.
        files: u64,
        /// The number of transactions.
        transactions: u64,
    },
}

/// The loads of a shorter run on a full SSD, and the one that is synced.
const CLEANED: [&str; 2] = ["iozone", "file server"];
const SYNCED: &str = "fio";
/// Durable rewrites of a page on average, in per cent: 20,000 over 64 MiB.
const REWRITES_PERCENT: u64 = 122;
/// Bytes of a file of postmark on average, with what it appends.
const POSTMARK_MEAN: u64 = 20 << 10;
/// Bytes of a file of the server on average, with what it appends.
const SERVED_MEAN: u64 = 128 << 10;

impl TierPlan {
    /// The plan for `length`.
    pub fn of(length: Length) -> Self {
        let memory_bytes = length.pick([64 << 20, 24 << 20, 12 << 20]);
        Self {
            memory_bytes,
            peers: length.pick([3, 1, 3]),
            content_times: length.pick([4, 4, 2]),
            live_percents: &[60, 90],
            syncs: &[0, 64],
            length,
            library_bytes: length.pick([64 << 20, 32 << 20, 32 << 20]),
            killed_ssd_bytes: length.pick([8 << 30, 1 << 30, 96 << 20]),
            kills: length.pick([9, 5, 2]),
            cost_rounds: length.pick([101, 41, 1]),
            cost_requests: length.pick([10_000, 10_000, 100]),
            overwrites: length.pick([memory_bytes / PAGE_BYTES * 8, memory_bytes / PAGE_BYTES, 256]),
            many_files: length.pick([4000, 1000, 40]),
            transactions: length.pick([20_000, 3000, 100]),
            operations: length.pick([8000, 1000, 100]),
        }
    }

    /// Whether `load` is run on an SSD of which `live_percent` is live, with a sync after so many writes.
    pub fn takes(&self, load: &TierLoad, live_percent: u64, sync_every: u64) -> bool {
        let (is_usual, is_synced) = (live_percent == self.live_percents[0], sync_every > 0);
        match self.length {
            _ if is_synced && !load.syncs() => false,
            Length::Full => true,
            Length::Quick if is_synced => is_usual && load.name == SYNCED,
            Length::Quick => is_usual || CLEANED.contains(&load.name),
            Length::Smoke => !is_synced && (is_usual || load.name == CLEANED[0]),
        }
    }

    /// Whether `load` is run on our file system in every way, or only in the first one.
    pub fn compares_ours(&self, load: &TierLoad) -> bool {
        self.length != Length::Smoke || load.name == CLEANED[0]
    }

    /// The loads.
    pub fn loads(&self) -> Vec<TierLoad> {
        let content = self.content_times * self.memory_bytes;
        let answer = PageMeasure::Rate;
        let pages = |name, files: u64, file_bytes: u64, window_bytes| {
            let load = PageLoad {
                files,
                window_bytes,
                requests: self.overwrites,
                reads_permille: 0,
                sync_every: 0,
                seed: 11,
                answer,
            };
            TierLoad { name, kind: LoadKind::Pages { load, file_bytes }, live_bytes: files * file_bytes }
        };
        let many_bytes = content / self.many_files / PAGE_BYTES * PAGE_BYTES;
        let served = ServerLoad {
            files: content / SERVED_MEAN,
            mean_bytes: SERVED_MEAN,
            operations: self.operations,
            sync_every: 0,
            seed: 12,
        };
        let files = content / POSTMARK_MEAN;
        let mut rewrites = pages("durable rewrites", 1, content, self.memory_bytes / 2);
        if let LoadKind::Pages { load, .. } = &mut rewrites.kind {
            (load.sync_every, load.requests) = (1, load.window_bytes / PAGE_BYTES * REWRITES_PERCENT / 100);
        }
        vec![
            rewrites,
            pages(CLEANED[0], 1, content, content),
            pages("iozone-3/4", 1, content, self.memory_bytes / 4 * 3),
            pages(SYNCED, self.many_files, many_bytes, many_bytes),
            TierLoad {
                name: "postmark",
                kind: LoadKind::Postmark { files, transactions: self.transactions },
                live_bytes: content,
            },
            TierLoad { name: CLEANED[1], kind: LoadKind::Server(served), live_bytes: content },
        ]
    }
}

impl TierLoad {
    /// Bytes of an SSD of which the load's content is `percent`.
    pub fn ssd_bytes(&self, percent: u64) -> u64 {
        (self.live_bytes * 100 / percent).next_multiple_of(2 << 20)
    }

    /// The load with a sync after so many writes.
    pub fn synced(&self, sync_every: u64) -> Self {
        if sync_every == 0 {
            return self.clone();
        }
        let mut synced = self.clone();
        match &mut synced.kind {
            LoadKind::Pages { load, .. } => load.sync_every = sync_every,
            LoadKind::Server(load) => load.sync_every = sync_every,
            LoadKind::Postmark { .. } => {}
        }
        synced
    }

    /// Whether the load may be run with syncs or without.
    fn syncs(&self) -> bool {
        match self.kind {
            LoadKind::Pages { load, .. } => load.sync_every == 0,
            LoadKind::Server(_) => true,
            LoadKind::Postmark { .. } => false,
        }
    }
}
