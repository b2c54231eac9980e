//! The loads of programs with regions.
//!
//! A load works on an array of files of one size in the region, without a file system: each file has a fixed place. Steps
//! have the shapes of filebench's personalities, of dbench and of lmbench's `fwr`. The program computes for a while for each
//! page that it moves, as long as the paper's whole stack does: the paper's rate with all memory gives that time.

use serde::{Deserialize, Serialize};

/// A kind of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RegionLoad {
    /// Whole files of 128 KiB are written and read, and 16 KiB are appended to others (filebench).
    FileServer,
    /// Ten files of 16 KiB are read, and 16 KiB are appended to a log (filebench).
    WebServer,
    /// Mails of 16 KiB are written, read and appended to, with a sync behind each change (filebench).
    VarMail,
    /// A file of 64 KiB is written and another one read, 16 KiB at a time, and each eighth file is synced (dbench).
    Dbench,
    /// A range is written again and again from its begin to its end, 64 KiB at a time (lmbench).
    Fwr,
}

/// A load with its parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadShape {
    /// The kind.
    pub kind: RegionLoad,
    /// The skew of the choice of files by Zipf's law, in hundredths; 0 is uniform.
    pub theta_percent: u64,
    /// Nanoseconds that the program computes for each page that it moves.
    pub own_nanos: u64,
    /// Bytes of the region that `fwr` writes; other loads use all.
    pub touched_bytes: Option<u64>,
}

impl RegionLoad {
    /// The load by its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FileServer => "file server",
            Self::WebServer => "web server",
            Self::VarMail => "varmail",
            Self::Dbench => "dbench",
            Self::Fwr => "fwr",
        }
    }

    /// The bytes of a file.
    pub const fn file_bytes(self) -> u64 {
        match self {
            Self::FileServer => 128 << 10,
            Self::WebServer | Self::VarMail => 16 << 10,
            Self::Dbench | Self::Fwr => 64 << 10,
        }
    }

    /// The bytes behind a file that appends fill.
    pub const fn append_bytes(self) -> u64 {
        match self {
            Self::FileServer | Self::VarMail => 16 << 10,
            Self::WebServer | Self::Dbench | Self::Fwr => 0,
        }
    }

    /// Nanoseconds of computing for a page: 4 KiB at the paper's rate with all memory (table 2), which is 430, 251, 90 and
    /// 1168 MB/s. `fwr` computes nothing.
    pub const fn paper_nanos(self) -> u64 {
        match self {
            Self::FileServer => 9500,
            Self::WebServer => 16_300,
            Self::VarMail => 45_500,
            Self::Dbench => 3500,
            Self::Fwr => 0,
        }
    }

    /// Returns true if the load calls sync.
    pub const fn syncs(self) -> bool {
        matches!(self, Self::VarMail | Self::Dbench)
    }
}

impl LoadShape {
    /// The load with the paper's time of computing, and files chosen with a skew of `theta_percent` hundredths.
    pub const fn new(kind: RegionLoad, theta_percent: u64) -> Self {
        Self { kind, theta_percent, own_nanos: kind.paper_nanos(), touched_bytes: None }
    }
}
