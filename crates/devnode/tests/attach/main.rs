//! Disks as `/dev` nodes and as files, with real programs on them (invariants AT1 to AT4 of the crate, AE1 to AE3 of
//! `export`, AF1 to AF5 of `cached_file`, AH1 and AH2 of `attached_file`).

mod cached;
mod files;
mod killed;
mod life;
mod node;
mod planted;
mod ram;
mod stand;
