//! Requests that read, replace or cut the whole content of a guest.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use ferrite_owner::{ProgressCall, machine};
use ferrite_pool::{Failure, FailureKind, Progress};

use crate::guest_image::CopiedBytes;
use crate::open_guests::OpenGuests;
use crate::pending_change::PendingChange;
use crate::plane::DirectPlane;
use crate::{GuestEngine, GuestImageReport, GuestLayout, GuestReport, Result};

/// Returns the function that passes bytes of `what` to `progress`.
fn watch<'a>(progress: ProgressCall<'a>, what: &'static str) -> impl FnMut(u64, u64) -> bool + 'a {
    move |done, total| progress(Progress { done, total, what: what.into() })
}

/// Returns the file whose descriptor came with a call.
fn passed_file(fds: Vec<OwnedFd>) -> std::result::Result<File, Failure> {
    let file = fds.into_iter().next().map(File::from);
    let file = file.ok_or_else(|| Failure::new(FailureKind::BadRequest, "the call has no file with it"))?;
    match file.metadata() {
        Ok(found) if found.is_file() => Ok(file),
        Ok(_) => Err(Failure::refused("only a plain file has the content of a guest")),
        Err(error) => Err(Failure::failed(format!("looking at the file: {error}"))),
    }
}

fn io_error(what: &str, error: std::io::Error) -> ferrite_memory::Error {
    ferrite_memory::Error::io(what, error)
}

impl OpenGuests {
    /// Writes the content of the guest called `name` to the file in `fds` (VC2).
    pub(crate) fn export(
        &self,
        name: &str,
        fds: Vec<OwnedFd>,
        progress: ProgressCall<'_>,
    ) -> std::result::Result<GuestImageReport, Failure> {
        let open = self.open(name)?;
        let file = passed_file(fds)?;
        let size = open.engine.size();
        file.set_len(size).map_err(|error| Failure::failed(format!("sizing the file: {error}")))?;
        let mut write = |at: u64, bytes: &[u8]| -> Result<()> {
            Ok(file.write_all_at(bytes, at).map_err(|error| io_error("writing the file", error))?)
        };
        let copied = open.engine.export(&mut write, &mut watch(progress, "exporting the guest"))?;
        let copied = copied.ok_or_else(|| Failure::new(FailureKind::Cancelled, "stopped: there is no file"))?;
        Ok(image_report(name, size, copied))
    }

    /// Replaces the content of the guest called `name` by the file in `fds` (VC1).
    pub(crate) fn import(
        &self,
        name: &str,
        fds: Vec<OwnedFd>,
        progress: ProgressCall<'_>,
    ) -> std::result::Result<GuestImageReport, Failure> {
        self.own_tag(name)?;
        let file = passed_file(fds)?;
        let len = file.metadata().map_err(|error| Failure::failed(format!("looking at the file: {error}")))?.len();
        self.end_uses(name)?;
        self.close(name)?;
        self.store_version(name)?;
        let disk = self.disk_of(name)?;
        let engine = GuestEngine::open_to_replace(&self.pool, name, disk, || machine::random() as u16)?;
        let mut read = |at: u64, into: &mut [u8]| -> Result<()> {
            Ok(file.read_exact_at(into, at).map_err(|error| io_error("reading the file", error))?)
        };
        let imported = engine.import(len, &mut read, &mut watch(progress, "importing into the guest"));
        let size = engine.size();
        drop(engine);
        let is_whole = || Ok::<_, Failure>(GuestLayout::read(&*self.tag(name)?)?.pending != PendingChange::Import);
        let end = "the guest is refused until `ferrite guest import` has ended; `ferrite guest remove` removes it";
        match imported {
            Ok(Some(copied)) => Ok(image_report(name, size, copied)),
            Ok(None) => Err(Failure::new(FailureKind::Cancelled, format!("stopped: {end}"))),
            Err(error) if is_whole()? => Err(error.into()),
            Err(error) => {
                let failure = Failure::from(error);
                Err(Failure { message: format!("{}; {end}", failure.message), ..failure })
            }
        }
    }

    /// Changes the bytes of the guest called `name` (VS1).
    pub(crate) fn set_size(
        &self,
        name: &str,
        size: u64,
        lose: Option<u64>,
        progress: ProgressCall<'_>,
    ) -> std::result::Result<GuestReport, Failure> {
        self.own_tag(name)?;
        self.end_uses(name)?;
        self.close(name)?;
        self.store_version(name)?;
        let disk = self.disk_of(name)?;
        let random = || machine::random() as u16;
        let engine = GuestEngine::open(&self.pool, name, disk, Box::new(DirectPlane), random)?;
        let changed = engine.set_size(size, lose, &mut watch(progress, "preparing the change of the size"));
        drop(engine);
        match changed? {
            true => Ok(self.report(&*self.tag(name)?)),
            false => Err(Failure::new(FailureKind::Cancelled, "stopped: the guest has its old size")),
        }
    }

    /// Completes a change of the size of the guest called `name`: another process that has the guest cannot (VS1).
    pub(crate) fn complete_size(&self, name: &str) -> std::result::Result<(), Failure> {
        match GuestLayout::read(&*self.tag(name)?)?.pending {
            PendingChange::Size { .. } => {
                drop(self.open(name)?);
                self.close(name)
            }
            PendingChange::None | PendingChange::Import => Ok(()),
        }
    }

    /// Stores the attributes of the guest called `name` in the version that has pending changes.
    fn store_version(&self, name: &str) -> std::result::Result<(), Failure> {
        let _changing = self.changing.lock();
        self.change_record(name, |_| ())
    }
}

fn image_report(name: &str, size: u64, copied: CopiedBytes) -> GuestImageReport {
    let CopiedBytes { copied, zeros } = copied;
    GuestImageReport { name: name.into(), size_bytes: size, copied_bytes: copied, zeroed_bytes: zeros }
}
