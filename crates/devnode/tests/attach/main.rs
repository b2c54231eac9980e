//! Disks as `/dev` nodes, with real programs on them (invariants AT1 to AT4 of `attach`, AE1 to AE3 of its file).

mod files;
mod killed;
mod life;
mod node;
mod planted;
mod ram;
mod stand;
