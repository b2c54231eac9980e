//! Disks as `/dev` nodes, with real programs on them (invariants A1 to A4 of `attach`, E1 to E3 of its file).

mod files;
mod killed;
mod life;
mod node;
mod ram;
mod stand;
