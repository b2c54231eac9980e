//! The experiments of the papers, rerun on this machine with peers beside them in the same run.
//!
//! An [`Experiment`] gives a [`BenchReport`]: rows of measured values, each beside another subject of the same run, what
//! the paper says, and one line that compares the two. Subjects of one case take turns in short slices, so that what
//! disturbs the machine disturbs all of them; only ratios between neighbours in time are trusted.

mod alternatives;
mod applications;
mod bare_copy;
mod barriers;
mod bench_random;
mod buffering;
mod cache_stage;
mod case_filter;
mod child_process;
mod consolidation;
mod copy_buffer;
mod copy_plan;
mod db_log;
mod error;
mod experiment;
mod ferrite;
mod field;
mod file_subject;
mod flash_cache;
mod ftl;
mod guest;
mod llc;
mod load_client;
mod loads;
mod machine;
mod media;
mod mirror_disk;
mod mount_node;
mod multi_ssd;
mod nbd_server;
mod nvmfs;
mod objects;
mod options;
mod pace;
mod pattern_disk;
mod plot;
mod pool_tree;
mod program;
mod protection;
mod records;
mod recovery;
mod region_work;
mod report;
mod rounds;
mod scratch;
mod session;
mod superpages;
#[cfg(test)]
mod tests;
mod tlb;
mod unflushed_memory;
mod verdict;
mod void_disk;
pub mod worker;
mod write_schemes;
mod zipf_blocks;
mod zones;

pub use case_filter::CaseFilter;
pub use error::{Error, Result};
pub use experiment::{EXPERIMENTS, find};
pub use ferrite::ferrite_program;
pub use machine::MachineState;
pub use options::{BenchOptions, BenchProgress, Length, ProgressWatch};
pub use report::{BOUND, BenchReport, Chart, ChartMeasure, PaperClaim, ReportRow};
pub use session::Experiment;
