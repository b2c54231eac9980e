//! The label of an object, in the attributes of its tag.
//!
//! ```text
//! 0 form u16   2 reserved [6]   8 value_bytes u64   16 type [32]   48 reserved [16]
//! ```

use ferrite_pool::holding::{RoleSpace, TagLease, TagSpec};
use ferrite_pool::{Role, Tag, TagKind};
use zerocopy::little_endian::{U16, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use crate::{Error, Result, checkpoint};

/// Bytes of a page of the pool.
pub const PAGE: u64 = 4096;
/// The longest name of a type in bytes.
const TYPE_BYTES_MAX: usize = 32;

/// The form in which an object is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectForm {
    /// A value that is updated in place.
    Direct = 1,
    /// A structure in DRAM whose changes are logged.
    Logged = 2,
    /// An append-only log.
    Log = 3,
}

/// The label of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectLabel {
    /// The form in which it is stored.
    pub form: ObjectForm,
    /// Bytes of its value, if it is updated in place.
    pub value_bytes: u64,
    /// The name of its type.
    pub type_name: String,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct LabelMedia {
    form: U16,
    reserved: [u8; 6],
    value_bytes: U64,
    type_name: [u8; TYPE_BYTES_MAX],
    reserved2: [u8; 16],
}

const _: () = assert!(size_of::<LabelMedia>() == 64);

impl ObjectLabel {
    /// Returns a label; refuses an invalid name of a type.
    pub fn new(form: ObjectForm, type_name: &str, value_bytes: u64) -> Result<Self> {
        let bytes = type_name.len();
        if bytes == 0 || bytes > TYPE_BYTES_MAX || type_name.contains('\0') {
            let bytes_max = TYPE_BYTES_MAX as u64;
            return Err(Error::TooLarge { what: "the name of a type", bytes: bytes as u64, bytes_max });
        }
        Ok(Self { form, value_bytes, type_name: type_name.into() })
    }

    fn encode(&self) -> [u8; 64] {
        let mut media = LabelMedia::new_zeroed();
        media.form = (self.form as u16).into();
        media.value_bytes = self.value_bytes.into();
        media.type_name[..self.type_name.len()].copy_from_slice(self.type_name.as_bytes());
        zerocopy::transmute!(media)
    }

    /// Returns the label of `tag`, if it is an object's.
    pub fn of(tag: &Tag) -> Option<Self> {
        let media: LabelMedia = zerocopy::transmute!(tag.attributes);
        let form = [ObjectForm::Direct, ObjectForm::Logged, ObjectForm::Log]
            .into_iter()
            .find(|form| *form as u16 == media.form.get())?;
        let name = media.type_name.split(|byte| *byte == 0).next().unwrap_or_default();
        let type_name = std::str::from_utf8(name).ok().filter(|name| !name.is_empty())?.into();
        (tag.kind == TagKind::OBJECT).then_some(Self { form, value_bytes: media.value_bytes.get(), type_name })
    }

    /// Refuses a held tag with another label.
    pub fn ensure(&self, holding: &TagLease) -> Result<()> {
        let tag = holding.tag();
        let found = Self::of(&tag);
        if found.as_ref() == Some(self) {
            return Ok(());
        }
        let found = found.map_or_else(|| tag.kind.name().to_owned(), |label| label.to_string());
        Err(Error::WrongType { name: tag.name.clone(), found, wanted: self.to_string() })
    }

    /// Returns the description of a tag for such an object, with a log of `log_bytes` if it has one.
    pub fn spec(&self, name: &str, log_bytes: u64) -> TagSpec {
        let mut parts = vec![RoleSpace { role: Role::MAP, bytes: PAGE }];
        let has_log = self.form != ObjectForm::Direct;
        // A pool refuses a size that none can have.
        let pages = || log_bytes.max(1).checked_next_multiple_of(PAGE).unwrap_or(u64::MAX);
        let size = if has_log { pages() } else { self.value_bytes };
        if has_log {
            parts.push(RoleSpace { role: Role::DATA, bytes: size });
        }
        if self.form == ObjectForm::Logged {
            // A new object accepts content in a full pool (CK5).
            parts.extend(checkpoint::SLOTS.map(|role| RoleSpace { role, bytes: PAGE }));
        }
        let attributes = self.encode().to_vec();
        TagSpec { name: name.into(), kind: TagKind::OBJECT.0, size, attributes, parts, has_log }
    }
}

impl std::fmt::Display for ObjectLabel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.form {
            ObjectForm::Direct => write!(f, "a {} of {} bytes", self.type_name, self.value_bytes),
            ObjectForm::Logged | ObjectForm::Log => write!(f, "a {}", self.type_name),
        }
    }
}
