//! What users of the file system rely on.

mod append_ends;
mod basics;
mod canary;
mod claims;
mod client_house;
mod client_leases;
mod client_processes;
mod crash;
mod damaged_media;
mod direct_appends;
mod doubt;
mod failing;
mod format;
mod full_pool;
mod golden;
mod hints;
mod holes;
mod inodes;
mod interleaved;
mod late_clients;
mod lease_rights;
mod listing;
mod lost_leaf_words;
mod model;
mod openings;
mod pages_ahead;
mod silent_owner;

mod append_checksums;
mod durable_returns;
mod fsync_waits;
mod idle_clients;
mod kernel_ends;
mod reference;
mod repair;
mod repair_limits;
mod space;
mod stopped_clients;
mod superpages;
mod support;
mod tables;
mod threads;
mod tier_adoption;
mod tier_clients;
mod tier_copies;
mod tier_crashes;
mod tier_interleaved;
mod tier_member_crashes;
mod tier_read_ahead;
mod tier_recency;
mod tier_rules;
mod tier_space;
mod tier_upkeep;
mod tiers;
mod times;
mod unlisted_orphans;

use std::cell::Cell;

use ferrite_memory::planted::{PlantedBug, plant_with};

use crate::FileSystem;
use crate::format::leaf::{self, LeafEntry};
use crate::share::shared_files::SharedFiles;

/// Defines the planted bugs with their names.
macro_rules! bugs {
    ($($(#[$doc:meta])* $name:ident = $place:literal,)*) => {
        /// A mistake that a test plants, to show that the crash tests find it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Bug {
            $($(#[$doc])* $name,)*
        }

        impl Bug {
            fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $place,)*
                }
            }
        }
    };
}

bugs! {
    /// Words name new pages before these are durable (FW1).
    WordBeforeData = "fs: word before data",
    /// A size covers bytes before these are durable (FW1).
    SizeBeforeData = "fs: size before data",
    /// What is written over is acknowledged before it is durable (FW2).
    ReturnBeforeFence = "fs: return before fence",
    /// What lies behind the end is not made zeros before the end moves over it (FT1).
    UndefinedGap = "fs: undefined gap",
    /// An inode without a name has no orphan word (FO1).
    ForgottenOrphan = "fs: forgotten orphan",
    /// A transaction that writes a size starts no epoch (FI2).
    SameEpoch = "fs: same epoch",
    /// A superpage is named before the copy in it is durable (FS2).
    SuperBeforeCopy = "fs: super before copy",
    /// A page that moves is named before its copy is durable (FE1).
    MoveBeforeCopy = "fs: move before copy",
    /// A repair names a copy of a page before it is durable (FK1).
    NameBeforeCopy = "fs: name before copy",
    /// A repair clears more words at once than a transaction has room for.
    LargeFix = "fs: large fix",
    /// A chunk gets another kind while records can be replayed into it (FC1).
    HastyChunk = "fs: hasty chunk",
    /// A page is given back and not marked free.
    LeakedPage = "fs: leaked page",
    /// An index is lowered, and its page given back later (FT2).
    SplitLowering = "fs: split lowering",
    /// The end of a file stays where a stopped client may still store to it (FG7).
    StoppedAppendEnd = "fs: stopped append end",
    /// Where the last page cannot be another one, what is written behind the end goes into it (FG7).
    StoppedAppendPage = "fs: stopped append page",
    /// What a thread remembers counts whatever has changed since (FH1).
    StaleHint = "fs: stale hint",
    /// The end of a client's last append counts as the end, even after others had the file (FG7).
    StaleEnd = "fs: stale end",
    /// An append checksum is stored over the greater one (FP2).
    OneChecksum = "fs: one checksum",
    /// What a size rests on is stored over (FP3), or what a crash left of an append (FP4).
    UncommittedSize = "fs: uncommitted size",
    /// A caller that lists in pieces learns nothing of damage before the last piece (FN4).
    ForgottenDamage = "fs: forgotten damage",
    /// A client may append while the kernel is within an append (FG11).
    HastyAppender = "fs: hasty appender",
    /// Words name slots of a segment that is not durable (TI1).
    UnflushedSegment = "fs: unflushed segment",
    /// A slot is named and not marked so (TI2).
    UnmarkedSlot = "fs: unmarked slot",
    /// A page that was stored to since it was copied is evicted (TI4).
    StoredPage = "fs: stored page is clean",
    /// A page that is brought in is named before it is durable (TI10).
    NameBeforeBytes = "fs: named before brought in",
    /// A page is copied while a client may still store to it (TI4).
    UnawaitedPins = "fs: unawaited pins",
    /// Two threads clean and destage at once.
    SharedCleaning = "fs: shared cleaning",
    /// A copied page becomes clean although its word changed.
    UncheckedCopy = "fs: unchecked copy",
    /// A page comes back into the pool at its first read (TI20).
    EveryRead = "fs: every read admitted",
    /// A file system uses an SSD that is no member of the pool (TI13).
    StrangeSsd = "fs: SSD that is no member",
    /// An SSD is listed as in use before it has a stamp (TI15).
    EarlyUse = "fs: SSD in use before its stamp",
    /// An SSD is forgotten while words name its slots (TI16).
    EarlyForget = "fs: SSD forgotten before its names",
    /// A segment is trimmed before the change that frees it is durable (TI14).
    HastyTrim = "fs: hasty trim",
    /// A pool takes an SSD of a later life without a note of what that overwrote (TI18).
    UnnotedLife = "fs: SSDs of a later life without notes",
    /// A segment is written behind a backup of the pool under the generation that the backup has (TI11).
    CopiedPool = "fs: SSD of a copied pool",
    /// A segment that words name is written again (TI3).
    ReusedSegment = "fs: segment with names is reused",
    /// A page is evicted though it was stored to since it was chosen (TI5).
    UnlookedVictim = "fs: victim without a second look",
    /// A page with two entries in the list of clean pages is freed twice (TI5).
    DoubleVictim = "fs: victim taken twice",
    /// What was read from an SSD is not compared with its check (TI7).
    UncheckedSlot = "fs: unchecked slot",
    /// Pages behind the end of a file go to an SSD (TI8).
    AwayBehindEnd = "fs: pages behind the end away",
    /// Bytes on which a size rests go to an SSD, and the size is not committed (TI8).
    AwaySizeBytes = "fs: bytes of a size away",
    /// A page leaves the pool, and only its shadow names its slot (TI6).
    ShadowForName = "fs: shadow instead of a name",
    /// An SSD that grew is used, and the table does not list its new size (TI17).
    UnlistedGrowth = "fs: unlisted growth",
    /// Segments are written however often that fails (TI12).
    EndlessFailures = "fs: endless failures",
    EndlessRest = "fs: endless rest",
    /// A stopped client holds back none of its files (TI21).
    ForgottenLease = "fs: forgotten lease",
    /// An SSD that nothing can be written to has free space (TI9).
    DeadRoom = "fs: room on a dead SSD",
    /// A segment that a backup copies is written (TI22).
    UnheldSegment = "fs: held segment is free",
    /// The owner overwrites for a client whose right has ended (FG13).
    UncheckedOverwrite = "fs: overwrite by an ended lease",
    /// A failure of a read-ahead is kept for the next reader (TI23).
    KeptFailure = "fs: failed read-ahead is kept",
    /// A client that withdraws from a session keeps the pool's memory (FG10).
    KeptMemory = "fs: kept memory",
}

thread_local!(static PLANTED: Cell<Option<PlantedBug>> = const { Cell::new(None) });

/// Plants `bug` for the calling thread, or none.
pub(crate) fn plant(bug: Option<Bug>) {
    PLANTED.set(bug.map(|bug| ferrite_memory::planted::plant(bug.name())));
}

/// Calls `stop` in the calling thread at each place called `point`, until the returned guard is dropped.
pub(crate) fn stop_at(point: &str, stop: impl Fn() + 'static) -> PlantedBug {
    plant_with(point, move || {
        stop();
        false
    })
}

/// Tests look at the parts behind the facade.
impl std::ops::Deref for FileSystem {
    type Target = SharedFiles;

    fn deref(&self) -> &SharedFiles {
        &self.shared
    }
}

impl LeafEntry {
    /// Returns its offset in the pool.
    fn at(&self) -> u64 {
        self.name_at - leaf::ENTRY
    }
}
