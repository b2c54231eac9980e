//! The file system: a tree of files in a tag of a pool, read and written in place (zonfs.txt; nvm-storage-hierarchy.txt
//! chapter 5).
//!
//! File pages and inodes lie in chunks of the pool and nowhere else: there is no page cache. A read copies from where
//! the bytes are, a write goes to where they stay. Each change of names, sizes or space is one pool transaction.
//!
//! [`FileSystem`] is by inode number, `&self` and `Sync`; a front end translates its protocol and its errors to it.
//! Permissions are the front end's (its kernel's) to check; ownership comes in with each call that makes something.

mod acl;
mod allocate;
mod alone;
mod attr;
mod bits;
mod change;
mod check;
pub mod direct;
mod error;
mod extend;
mod fs;
mod fsync;
mod gate;
mod glance;
mod growth;
mod height;
mod hints;
mod index;
mod inode;
mod inode_map;
mod layout;
mod leaf;
mod limbo;
mod links;
mod locks;
mod lookup;
mod make;
mod migrate;
mod names;
mod options;
mod orphans;
mod proof;
mod read;
mod remove;
mod rename;
mod rescue;
mod setattr;
mod shape;
mod space;
mod step;
#[cfg(test)]
mod tests;
mod tree;
mod word;
mod write;
mod xattr;

pub use attr::{
    Allocate, Attr, Credentials, DirEntry, Ino, Kind, Listed, NewFile, Rename, Seek, SetAttr, SetTime, SetXattr,
    Statfs, Time,
};
pub use check::FilesOwner;
pub use error::{Error, Result};
pub use fs::{FileSystem, NAME_BYTES_MAX};
pub use options::{ATOMIC_BYTES_MAX, Clock, DataMode, FsOptions, FsSpec, SUPER_THRESHOLD_BYTES};
