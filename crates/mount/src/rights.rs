//! Rights that a change of a file takes away (FM3).

use std::fs;

use ferrite_fs::{Error, Ino, Kind, Result, SetAttr};
use fuser::Request;

use super::attributes::ACCESS;
use super::front::Front;

const SET_USER: u16 = 0o4000;
const SET_GROUP: u16 = 0o2000;
const GROUP_EXECUTE: u16 = 0o010;
const CAPABILITIES: &[u8] = b"security.capability";

impl Front {
    /// Adds to `set` that set-id bits go, where the change takes them (FM3).
    pub(super) fn with_losses(&self, by: &Request, ino: Ino, set: SetAttr) -> Result<SetAttr> {
        #[cfg(test)]
        if super::tests::is_planted(super::tests::Bug::RightsKept) {
            return Ok(set);
        }
        let loses = set.uid.is_some() || set.gid.is_some() || (set.size.is_some() && by.uid() != 0);
        if !loses || set.mode.is_some() {
            return Ok(set);
        }
        Ok(SetAttr { mode: self.kept_mode(by, ino)?, ..set })
    }

    /// Before the content of `ino` is changed by who has no right to keep set-id bits: they go (FM3). The kernel, which is
    /// told of no mode in the answer, is to ask for it before it trusts the bits again.
    pub(super) fn lose_rights(&self, by: &Request, ino: Ino) -> Result<()> {
        let Some(mode) = self.kept_mode(by, ino)? else { return Ok(()) };
        self.set_mode(ino, mode)?;
        #[cfg(test)]
        if super::tests::is_planted(super::tests::Bug::RightsRemembered) {
            return Ok(());
        }
        self.fs.forget_attributes(ino);
        Ok(())
    }

    /// Before `by` sets attribute `name`: who is not of the file's group cannot give a program that group's rights, by an
    /// ACL as little as by a mode (FM3).
    pub(super) fn lose_group(&self, by: &Request, ino: Ino, name: &[u8]) -> Result<()> {
        if name != ACCESS {
            return Ok(());
        }
        let attr = self.fs.getattr(ino)?;
        if attr.mode & SET_GROUP == 0 || is_of(by, attr.gid) {
            return Ok(());
        }
        self.set_mode(ino, attr.mode & !SET_GROUP)
    }

    fn set_mode(&self, ino: Ino, mode: u16) -> Result<()> {
        #[cfg(test)]
        if super::tests::is_planted(super::tests::Bug::RightsKept) {
            return Ok(());
        }
        self.fs.setattr(ino, &SetAttr { mode: Some(mode), ..SetAttr::default() }).map(drop)
    }

    /// Takes the file's capabilities away.
    pub(super) fn drop_capabilities(&self, ino: Ino) -> Result<()> {
        match self.fs.remove_xattr(ino, CAPABILITIES) {
            Err(Error::NoAttribute) => Ok(()),
            done => done,
        }
    }

    /// Takes the file's capabilities away; the mode without its set-id bits where it has some.
    fn kept_mode(&self, by: &Request, ino: Ino) -> Result<Option<u16>> {
        let attr = self.fs.getattr(ino)?;
        if attr.kind == Kind::Directory {
            return Ok(None);
        }
        #[cfg(test)]
        if super::tests::is_planted(super::tests::Bug::CapabilitiesKept) {
            return Ok(None);
        }
        self.drop_capabilities(ino)?;
        let kept = kept_mode(attr.mode, || is_of(by, attr.gid));
        Ok((kept != attr.mode).then_some(kept))
    }
}

/// Whether who asks is of group `gid`, or root. The kernel tells only one of its groups.
fn is_of(by: &Request, gid: u32) -> bool {
    let status = || fs::read_to_string(format!("/proc/{}/status", by.pid())).unwrap_or_default();
    let is_listed = |status: String| {
        let groups = status.lines().find_map(|line| line.strip_prefix("Groups:"));
        groups.is_some_and(|groups| groups.split_whitespace().any(|group| group.parse() == Ok(gid)))
    };
    by.uid() == 0 || by.gid() == gid || is_listed(status())
}

/// The mode without what a change of owner or content takes away: set-user-id, and set-group-id, which where it means
/// mandatory locking who is of the group keeps.
fn kept_mode(mode: u16, is_of_group: impl FnOnce() -> bool) -> u16 {
    let is_locking = mode & SET_GROUP != 0 && mode & GROUP_EXECUTE == 0;
    if is_locking && is_of_group() { mode & !SET_USER } else { mode & !(SET_USER | SET_GROUP) }
}
