//! Decoders of bytes from a hostile medium, for the fuzz targets.

pub use crate::lane::lane_content::committed;
pub use crate::member::decode_slot as decode_member;
pub use crate::operation::changes;
pub use crate::tag::{SLOT_BYTES, decode_overflow, decode_slot};
