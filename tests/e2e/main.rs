//! End-to-end tests of the release binary with real clients.
//!
//! There is one test binary, with a file per subject. `cargo xtask test` installs the clients, builds the binary and
//! names it in `FERRITE_BIN`. A test that crashes or kills a process has `crash` or `kill` in its name. Such a test
//! reads its seed from `FERRITE_SEED` and its rounds from `FERRITE_ROUNDS`. If this machine lacks something, a test
//! prints `skipped: REASON`.

mod backup;
mod cache_addresses;
mod cache_members;
mod cache_nodes;
mod cache_setup;
mod cache_ssd_servers;
mod caches;
mod clients;
mod databases;
mod deaf;
mod direct;
mod direct_interrupted;
mod direct_kill;
mod direct_limited;
mod direct_postgres;
mod direct_rights;
mod direct_together;
mod disk_queues;
mod disk_rates;
mod doors;
mod finalize;
mod full_host;
mod grant;
mod guest;
mod guest_files;
mod guests;
mod hugetlb;
mod images;
mod json;
mod keep;
mod kill;
mod library_owners;
mod metrics;
mod mount;
mod mount_atomic;
mod mount_copies;
mod mount_databases;
mod mount_full;
mod mount_layers;
mod mount_load;
mod mount_points;
mod mount_trees;
mod newcomer;
mod node;
mod objects;
mod planted;
mod pools;
mod programs;
mod recorded;
mod region_programs;
mod renamed;
mod samples;
mod server;
mod signals;
mod simulated;
mod ssd_caches;
mod standpoint;
mod starting;
mod strangers;
mod survival;
mod terminal;
mod tiers;
mod transfer;
mod tree;
mod up;
mod up_refused;
mod usage;
