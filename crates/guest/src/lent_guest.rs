//! A guest that the pool's owner lends to another process.
//!
//! ```text
//!   owner    OpenGuests: ends its engine of the guest, lends the tag
//!              |  grant, descriptors of the pool's memory and of the words that the owner shares
//!   process  TagLease -- GuestEngine -- region
//!                            +--------- the disk, by the address in the guest's header
//! ```
//!
//! - VG1. A guest has one engine. The owner ends its own before it lends the tag, opens no lent guest (HO1), and lends none
//!   that a client uses.
//! - VG2. The engine of a lent guest needs no owner: programs store and batches run when the owner has ended (HO7). A later
//!   owner finds the grant, and opens the guest when that has ended.
//! - VG3. When the region ends, its grant ends with it: the process releases it to the present owner of the pool, whichever
//!   process that is. If the process ends first, the owner ends the grant (G3). The words of the frames say all that the
//!   next engine needs.
//! - VG4. A lent guest follows the frames that its owner wishes. A thread of its own asks the owner for each change; no store
//!   and no batch waits for an answer. Without that owner the guest keeps its frames.

use std::path::Path;
use std::sync::Arc;

use ferrite_disk::{Disk, FileDisk, FileDiskOptions};
use ferrite_memory::{Guard, RegionPlace};
use ferrite_owner::lease::RemoteTags;
use ferrite_owner::{OwnerClient, ServiceRequest};
use ferrite_pool::holding::TagLease;

use crate::frame_space::FrameSpace;
use crate::{GuestError, GuestRequest, Result};

/// A guest to map into this process.
pub struct BorrowedGuest<'a> {
    /// The path of the pool, which another process owns.
    pub pool: &'a Path,
    /// The name of the guest.
    pub name: &'a str,
    /// The place of the region; `None`: any.
    pub place: Option<RegionPlace>,
    /// The function that each thread which serves the region calls first.
    pub begin: fn(),
}

/// Borrows the tag of the guest called `name` from the owner of the pool at `path` (VG1).
///
/// # Errors
/// [`GuestError::Refused`] if there is no owner, or if it refuses.
pub(crate) fn borrow_tag(path: &Path, name: &str) -> Result<TagLease> {
    let client = OwnerClient::connect(path).map_err(|error| GuestError::Refused(error.to_string()))?;
    let tags = Arc::new(RemoteTags::new(client, Guard::best(), path));
    Ok(tags.hold_by(ServiceRequest::of(&GuestRequest::Lend { name: name.into() }))?.outliving())
}

/// Opens the disk of the guest in `space`.
///
/// # Errors
/// [`GuestError::Refused`] if the disk is neither a file nor a device, and the errors of opening it.
pub(crate) fn open_disk(space: &FrameSpace) -> Result<Arc<dyn Disk>> {
    let address = space.header().address();
    let address = address.ok_or_else(|| GuestError::Damaged("the address of its disk is damaged".into()))?;
    let path = Path::new(&address);
    if !path.is_absolute() || !path.exists() {
        return Err(GuestError::Refused(format!(
            "the guest's disk is {address}: only a guest on a file or device of this machine runs in another process than \
             the pool's owner"
        )));
    }
    Ok(Arc::new(FileDisk::open(path, &FileDiskOptions::default())?))
}
