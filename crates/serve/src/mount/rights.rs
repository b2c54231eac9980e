//! Rights that a change of a file takes away (FM3).

use ferrite_fs::{Error, Ino, Kind, Result, SetAttr};

use super::front::Front;

const SET_ID_BITS: u16 = 0o6000;
const GROUP_EXECUTE: u16 = 0o010;
const CAPABILITIES: &[u8] = b"security.capability";

impl Front {
    /// Adds to `set` that set-id bits go, where the change takes them (FM3).
    pub(super) fn with_losses(&self, ino: Ino, set: SetAttr, by_root: bool) -> Result<SetAttr> {
        #[cfg(test)]
        if super::tests::is_planted(super::tests::Bug::RightsKept) {
            return Ok(set);
        }
        let loses = set.uid.is_some() || set.gid.is_some() || (set.size.is_some() && !by_root);
        if !loses || set.mode.is_some() {
            return Ok(set);
        }
        Ok(SetAttr { mode: self.drop_capabilities(ino)?, ..set })
    }

    /// Takes the file's capabilities away; the mode without its set-id bits where it has some.
    pub(super) fn drop_capabilities(&self, ino: Ino) -> Result<Option<u16>> {
        let attr = self.fs.getattr(ino)?;
        if attr.kind == Kind::Directory {
            return Ok(None);
        }
        match self.fs.remove_xattr(ino, CAPABILITIES) {
            Ok(()) | Err(Error::NoAttribute) => {}
            Err(error) => return Err(error),
        }
        let kept = kept_mode(attr.mode);
        Ok((kept != attr.mode).then_some(kept))
    }
}

/// The mode without what a change of owner or content takes away: set-user-id, and set-group-id where it means that
/// and not mandatory locking.
fn kept_mode(mode: u16) -> u16 {
    if mode & GROUP_EXECUTE == 0 { mode & !0o4000 } else { mode & !SET_ID_BITS }
}
