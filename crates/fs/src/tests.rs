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
mod failing;
mod first_words;
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
mod stray_leaves;
mod stray_words;
mod superpages;
mod support;
mod tables;
mod threads;
mod times;
mod unlisted_orphans;

/// Defines the planted bugs with their names.
macro_rules! bugs {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A mistake that a test plants, to show that the crash tests find it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Bug {
            $($(#[$doc])* $name,)*
        }

        impl Bug {
            fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }
        }
    };
}

bugs! {
    /// Words name new pages before these are durable (FW1).
    WordBeforeData,
    /// A size covers bytes before these are durable (FW1).
    SizeBeforeData,
    /// What is written over is acknowledged before it is durable (FW2).
    ReturnBeforeFence,
    /// What lies behind the end is not made zeros before the end moves over it (FT1).
    UndefinedGap,
    /// An inode without a name has no orphan word (FO1).
    ForgottenOrphan,
    /// A transaction that writes a size starts no epoch (FI2).
    SameEpoch,
    /// A superpage is named before the copy in it is durable (FS2).
    SuperBeforeCopy,
    /// A page that moves is named before its copy is durable (FE1).
    MoveBeforeCopy,
    /// A repair names a copy of a page before it is durable (FK1).
    NameBeforeCopy,
    /// A page that two inodes name goes to the first one, whether it fits or not (FJ1).
    FirstAsked,
    /// A repair clears more words at once than a transaction has room for.
    LargeFix,
    /// A chunk gets another kind while records can be replayed into it (FC1).
    HastyChunk,
    /// A page is given back and not marked free.
    LeakedPage,
    /// An index is lowered, and its page given back later (FT2).
    SplitLowering,
    /// The end of a file stays where a stopped client may still store to it (FG7).
    StoppedAppendEnd,
    /// Where the last page cannot be another one, what is written behind the end goes into it (FG7).
    StoppedAppendPage,
    /// What a thread remembers counts whatever has changed since (FH1).
    StaleHint,
    /// The end of a client's last append counts as the end, even after others had the file (FG7).
    StaleEnd,
    /// An append checksum is stored over the greater one (FP2).
    OneChecksum,
    /// What a size rests on is stored over (FP3), or what a crash left of an append (FP4).
    UncommittedSize,
    /// A caller that lists in pieces learns nothing of damage before the last piece (FN4).
    ForgottenDamage,
    /// A client may append while the kernel is within an append (FG11).
    HastyAppender,
    /// A client that withdraws from a session keeps the pool's memory (FG10).
    KeptMemory,
}

/// Plants `bug` for the calling thread, or none.
pub(crate) fn plant(bug: Option<Bug>) {
    crate::planted::plant(bug.map(Bug::name));
}
