//! The experiments of the papers, rerun on this machine with peers beside them in the same run.
//!
//! An [`Experiment`] gives a [`Report`]: rows of measured values, each beside another subject of the same run, what
//! the paper says, and one line that compares the two. Subjects of one case take turns in short slices, so that what
//! disturbs the machine disturbs all of them; only ratios between neighbours in time are trusted.

mod alternatives;
mod applications;
mod bare;
mod barriers;
mod buffer;
mod buffering;
mod client;
mod db_log;
mod entrant;
mod error;
mod experiment;
mod ftl;
mod llc;
mod loads;
mod machine;
mod media;
mod micro;
mod node;
mod objects;
mod only;
mod options;
mod owner;
mod pace;
mod plot;
mod program;
mod protection;
mod random;
mod records;
mod report;
mod rounds;
mod scratch;
mod server;
mod session;
mod superpages;
mod tlb;
mod tree;
mod verdict;
mod void_disk;
pub mod worker;
mod write_schemes;
mod zones;

pub use error::{Error, Result};
pub use experiment::{EXPERIMENTS, Experiment, find};
pub use machine::Machine;
pub use only::Only;
pub use options::{Length, OnProgress, Options, Progress, Steps};
pub use report::{BOUND, Chart, Claim, Measure, Report, Row};
