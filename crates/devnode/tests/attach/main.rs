//! Disks as `/dev` nodes, with real programs on them (invariants AT1 to AT4 of the crate, AE1 to AE3 of `export`).

mod files;
mod killed;
mod life;
mod node;
mod planted;
mod ram;
mod stand;
