//! Names and what they lead to: directories, links, attributes.

pub(crate) mod acl;
pub(crate) mod create;
pub(crate) mod directory;
pub(crate) mod hold;
pub(crate) mod lookup;
pub(crate) mod lost_found;
pub(crate) mod remove;
pub(crate) mod rename;
pub(crate) mod setattr;
pub(crate) mod xattr;
