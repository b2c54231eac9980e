//! A failure, as one process reports it to another.

use std::fmt;

use ferrite_memory::Error as MediumError;
use serde::{Deserialize, Serialize};

use crate::Error;

/// The kinds of failures. A program decides by the kind, never by the text of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// No tag, disk, file system, database or grant is called so.
    NotFound,
    /// The name is taken, or content would be overwritten.
    Exists,
    /// The text is not a valid name.
    BadName,
    /// Another process or thread uses the tag, disk or file, or has replaced it since the caller looked.
    Busy,
    /// The pool or its host has no free space.
    Full,
    /// The request exceeds a limit.
    Limit,
    /// The tag is of another kind.
    WrongKind,
    /// Stored bytes are not the bytes that were stored.
    Damaged,
    /// An earlier persist failed: the pool refuses changes until it is opened again.
    Poisoned,
    /// The caller or the end of the owner cancelled the work.
    Cancelled,
    /// The request is not allowed, or makes no sense.
    Refused,
    /// The owner's process does not link the service.
    NotServed,
    /// The request is not one of the service's requests of this version.
    BadRequest,
    /// All other failures.
    Failed,
}

/// A failure: its kind for programs, and a message for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The kind.
    pub kind: FailureKind,
    /// The message: what, where, and what to do.
    pub message: String,
}

impl Failure {
    /// Returns a failure of this kind.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// Returns a failure of the kind [`FailureKind::Refused`].
    pub fn refused(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Refused, message)
    }

    /// Returns a failure of the kind [`FailureKind::Busy`].
    pub fn busy(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Busy, message)
    }

    /// Returns a failure of the kind [`FailureKind::NotFound`].
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(FailureKind::NotFound, message)
    }

    /// Returns a failure of the kind [`FailureKind::Failed`].
    pub fn failed(why: impl fmt::Display) -> Self {
        Self::new(FailureKind::Failed, why.to_string())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Owner(failure) => failure,
            other => Self::new(other.kind(), other.to_string()),
        }
    }
}

impl From<ferrite_memory::Error> for Failure {
    fn from(error: ferrite_memory::Error) -> Self {
        Error::Medium(error).into()
    }
}

impl Error {
    /// Returns the kind of this error.
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::Full { .. } | Self::Medium(MediumError::NoSpace(_)) => FailureKind::Full,
            Self::Exists(_) | Self::Occupied(_) => FailureKind::Exists,
            Self::NotFound(_) => FailureKind::NotFound,
            Self::BadName(_) => FailureKind::BadName,
            Self::WrongKind { .. } => FailureKind::WrongKind,
            Self::Busy(_) | Self::Changed(_) => FailureKind::Busy,
            Self::Limit(_) | Self::LogFull { .. } => FailureKind::Limit,
            Self::Corrupt { .. } | Self::DamagedValue(_) | Self::BadImage { .. } => FailureKind::Damaged,
            Self::Poisoned(_) => FailureKind::Poisoned,
            Self::Cancelled(_) => FailureKind::Cancelled,
            Self::Untrusted(_) | Self::Member(_) => FailureKind::Refused,
            Self::Owner(failure) => failure.kind,
            Self::Medium(_)
            | Self::NotAPool(_)
            | Self::Version { .. }
            | Self::Truncated { .. }
            | Self::Restoring
            | Self::OwnerEnded
            | Self::Revoked(_) => FailureKind::Failed,
        }
    }
}
