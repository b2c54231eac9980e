//! serve
pub mod attach;
pub mod nbd;
