//! Requests to the service of counters.

use std::path::PathBuf;

use ferrite_owner::{ArgumentKind, ArgumentSpec, ColumnKind, ColumnSpec, CommandSpec, NamedPlaces, TypedRequest};
use serde::{Deserialize, Serialize};

/// The name of the service.
pub const COUNTERS: &str = "counters";

/// A request of the service of counters.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum CounterRequest {
    /// Lists the counters of all tags: [`CounterReport`]s.
    List,
    /// Adds to a counter; the tag and the counter are made if they do not exist. The answer is a list of one.
    Add {
        /// The name of the tag.
        tag: String,
        /// The name of the counter.
        counter: String,
        /// The number to add; 1 without it.
        #[serde(default = "one")]
        by: u64,
    },
    /// From now on keeps the sum of all counters in a file, which becomes a member of the pool.
    Export {
        /// The absolute path of the file.
        #[serde(with = "ferrite_owner::paths::exact")]
        to: PathBuf,
    },
}

fn one() -> u64 {
    1
}

impl TypedRequest for CounterRequest {
    const SERVICE: &'static str = COUNTERS;

    fn places(&self) -> NamedPlaces<'_> {
        match self {
            Self::Export { to } => NamedPlaces::of_paths([to.as_path()]),
            Self::List | Self::Add { .. } => NamedPlaces::default(),
        }
    }
}

/// A counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CounterReport {
    /// The name of the tag.
    pub tag: String,
    /// The name of the counter.
    pub counter: String,
    /// The count.
    pub count: u64,
}

/// The columns of a list of [`CounterReport`]s.
const TABLE: &[ColumnSpec] = &[
    ColumnSpec { head: "tag", field: "tag", show: ColumnKind::Text },
    ColumnSpec { head: "counter", field: "counter", show: ColumnKind::Text },
    ColumnSpec { head: "count", field: "count", show: ColumnKind::Number },
];

/// `ferrite counters`.
pub(crate) const COMMANDS: &[CommandSpec] = &[
    CommandSpec { name: "list", help: "List the counters", arguments: &[], request: "list", table: TABLE },
    CommandSpec {
        name: "add",
        help: "Add to a counter, which is made if it does not exist",
        arguments: &[
            ArgumentSpec { name: "tag", help: "The tag", kind: ArgumentKind::Word },
            ArgumentSpec { name: "counter", help: "The counter", kind: ArgumentKind::Word },
            ArgumentSpec { name: "by", help: "The number to add [default: 1]", kind: ArgumentKind::Number },
        ],
        request: "add",
        table: TABLE,
    },
];
