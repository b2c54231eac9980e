//! Set-id bits and capabilities that a change of a file removes (FM3).

use std::fs;

use ferrite_fs::Error;
use ferrite_fs::FileKind;
use ferrite_fs::Ino;
use ferrite_fs::Result;
use ferrite_fs::SetAttr;
use ferrite_memory::planted;
use fuser::Request;

use super::attributes::ACCESS;
use super::server::FuseFs;

const SET_USER: u16 = 0o4000;
const SET_GROUP: u16 = 0o2000;
const GROUP_EXECUTE: u16 = 0o010;
const CAPABILITIES: &[u8] = b"security.capability";

impl FuseFs {
    /// Returns `set` with the mode that clears set-id bits, if the change must clear them (FM3).
    pub(super) fn with_losses(&self, by: &Request, ino: Ino, set: SetAttr) -> Result<SetAttr> {
        if planted!("mount: rights kept") {
            return Ok(set);
        }
        let loses = set.uid.is_some() || set.gid.is_some() || (set.size.is_some() && by.uid() != 0);
        if !loses || set.mode.is_some() {
            return Ok(set);
        }
        Ok(SetAttr { mode: self.kept_mode(by, ino)?, ..set })
    }

    /// Clears the set-id bits of `ino` before a user changes its content who may not keep them (FM3). The answer to a
    /// write carries no mode, so the kernel drops its cached attributes.
    pub(super) fn lose_rights(&self, by: &Request, ino: Ino) -> Result<()> {
        let Some(mode) = self.kept_mode(by, ino)? else { return Ok(()) };
        self.set_mode(ino, mode)?;
        if planted!("mount: rights remembered") {
            return Ok(());
        }
        self.fs.forget_attributes(ino);
        Ok(())
    }

    /// Clears the set-group-id bit of `ino` before `by` sets its access ACL, if `by` is not in the file's group (FM3).
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
        if planted!("mount: rights kept") {
            return Ok(());
        }
        self.fs.setattr(ino, &SetAttr { mode: Some(mode), ..SetAttr::default() }).map(drop)
    }

    /// Removes the capabilities of the file.
    pub(super) fn drop_capabilities(&self, ino: Ino) -> Result<()> {
        match self.fs.remove_xattr(ino, CAPABILITIES) {
            Err(Error::NoAttribute) => Ok(()),
            done => done,
        }
    }

    /// Removes the capabilities of the file. Returns its mode without set-id bits, if it has some.
    fn kept_mode(&self, by: &Request, ino: Ino) -> Result<Option<u16>> {
        let attr = self.fs.getattr(ino)?;
        if attr.kind == FileKind::Directory {
            return Ok(None);
        }
        if planted!("mount: capabilities kept") {
            return Ok(None);
        }
        self.drop_capabilities(ino)?;
        let kept = kept_mode(attr.mode, || is_of(by, attr.gid));
        Ok((kept != attr.mode).then_some(kept))
    }
}

/// Returns true if the requesting process is root or in group `gid`. A FUSE request carries only one group.
fn is_of(by: &Request, gid: u32) -> bool {
    let status = || fs::read_to_string(format!("/proc/{}/status", by.pid())).unwrap_or_default();
    let is_listed = |status: String| {
        let groups = status.lines().find_map(|line| line.strip_prefix("Groups:"));
        groups.is_some_and(|groups| groups.split_whitespace().any(|group| group.parse() == Ok(gid)))
    };
    by.uid() == 0 || by.gid() == gid || is_listed(status())
}

/// Returns `mode` without set-user-id and set-group-id. Set-group-id without group execution means mandatory locking, and
/// stays if the user is in the group.
fn kept_mode(mode: u16, is_of_group: impl FnOnce() -> bool) -> u16 {
    let is_locking = mode & SET_GROUP != 0 && mode & GROUP_EXECUTE == 0;
    if is_locking && is_of_group() { mode & !SET_USER } else { mode & !(SET_USER | SET_GROUP) }
}
