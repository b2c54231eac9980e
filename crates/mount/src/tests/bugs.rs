//! The bugs that tests of the mount plant.

/// A bug that a test plants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// An entry is reported and not held (FM1).
    NotHeld,
    /// An entry that a listing has no room for stays held (FM1).
    RefusedHeld,
    /// A write is answered and not done (FM2).
    KeptBack,
    /// A change of owner takes no rights away (FM3).
    RightsKept,
    /// The kernel is not told of rights that a write has taken away (FM3).
    RightsRemembered,
    /// A change of content removes set-id bits alone (FM3).
    CapabilitiesKept,
    /// Opening is answered instead of declined (FM4).
    OpenAnswered,
    /// Making a folder durable is answered instead of declined (FM4).
    SettlingAnswered,
    /// A read through the mount does not end a client's right to store (FM5).
    RightStays,
    /// The kernel believes attributes for a day, although clients write (FM5).
    Believed,
    /// The kernel keeps what was appended where it believed the end to be (FM5).
    Misplaced,
    /// A write that is all or nothing goes by the kernel's cache (FM6).
    Split,
    /// A late write-back is stamped when it comes (FM7).
    Restamped,
    /// A write-back of which only a part fits is answered as a success (FM8).
    ShortWriteBack,
    /// A panic ends the thread that it came up in (FM9).
    PanicEnds,
    /// A name that is not there is an error each time (FM10).
    NotRemembered,
    /// An inode without names in it is not found by its number (FM11).
    NumbersUnknown,
    /// A file system that root mounts may give rights, even from another user's pool.
    SuidLifted,
    /// Another user's symbolic link leads root elsewhere (MF1).
    LinkFollowed,
    /// Other users take the reserve (MR1).
    ReserveTaken,
    /// An fsync after a failed write-back is answered as if nothing was lost (ML1).
    LossForgotten,
    /// What could not be written back stays in the kernel's cache (ML1).
    LostShown,
    /// A write without space does not wait for the kernel's release of a removed file (FW5).
    RemovedLost,
}

impl Bug {
    /// Returns the name by which the bug is planted.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotHeld => "mount: not held",
            Self::RefusedHeld => "mount: refused held",
            Self::KeptBack => "mount: kept back",
            Self::RightsKept => "mount: rights kept",
            Self::RightsRemembered => "mount: rights remembered",
            Self::CapabilitiesKept => "mount: capabilities kept",
            Self::OpenAnswered => "mount: open answered",
            Self::SettlingAnswered => "mount: settling answered",
            Self::RightStays => "mount: right stays",
            Self::Believed => "mount: believed",
            Self::Misplaced => "mount: misplaced",
            Self::Split => "mount: split",
            Self::Restamped => "mount: restamped",
            Self::ShortWriteBack => "mount: short write back",
            Self::PanicEnds => "fuse: a panic ends the thread",
            Self::NotRemembered => "mount: not remembered",
            Self::NumbersUnknown => "mount: numbers unknown",
            Self::SuidLifted => "mount: suid lifted",
            Self::LinkFollowed => "mount: link followed",
            Self::ReserveTaken => "mount: reserve taken",
            Self::LossForgotten => "mount: loss forgotten",
            Self::LostShown => "mount: lost shown",
            Self::RemovedLost => "fs: no wait for a removed file",
        }
    }
}
