//! The formats.

use std::str::FromStr;

use super::line_fields::ParsedRequest;
use super::{blkparse, disksim, iolog, msr, plain, spc};

/// How a trace is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockFormat {
    /// Lines of `W|R|T page count`: write, read, trim.
    Plain,
    /// DiskSim's and MQSim's ASCII: `time device sector sectors flags`; bit 0 of the flags is set for reads.
    DiskSim,
    /// The Storage Performance Council's: `unit,sector,bytes,R|W,seconds`.
    Spc,
    /// Microsoft Research Cambridge's: `filetime,host,disk,Read|Write,offset,bytes,response`.
    Msr,
    /// What `blkparse` prints, and a traced disk of ours.
    Blkparse,
    /// fio's iolog, versions 2 and 3, and a traced disk of ours.
    Iolog,
}

impl BlockFormat {
    /// All of them, by the names that people type.
    pub const ALL: [(&'static str, Self); 6] = [
        ("plain", Self::Plain),
        ("disksim", Self::DiskSim),
        ("spc", Self::Spc),
        ("msr", Self::Msr),
        ("blkparse", Self::Blkparse),
        ("iolog", Self::Iolog),
    ];

    /// The word for it.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, format)| *format == self).map_or("", |(name, _)| name)
    }
}

impl FromStr for BlockFormat {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|one| one.0 == name).map(|one| one.1);
        found.ok_or_else(|| format!("there is no format {name:?}; there are {}", Self::ALL.map(|one| one.0).join(", ")))
    }
}

/// What reads the lines of one trace, with what it has to remember between them.
pub(super) enum BlockLineParser {
    Plain(plain::Plain),
    DiskSim,
    Spc,
    Msr(msr::Msr),
    Blkparse(blkparse::Blkparse),
    Iolog(iolog::Iolog),
}

impl BlockLineParser {
    /// Returns what a line says. No format begins a line as a comment does.
    pub(super) fn line(&mut self, line: &[u8]) -> ParsedRequest {
        if line.trim_ascii_start().starts_with(b"#") {
            return Ok(None);
        }
        match self {
            Self::Plain(plain) => plain.line(line),
            Self::DiskSim => disksim::line(line),
            Self::Spc => spc::line(line),
            Self::Msr(msr) => msr.line(line),
            Self::Blkparse(blkparse) => blkparse.line(line),
            Self::Iolog(iolog) => iolog.line(line),
        }
    }

    /// What a device is chosen by.
    pub(super) fn device_number(&self, device: u32) -> String {
        match self {
            Self::Blkparse(_) => blkparse::name(device),
            _ => device.to_string(),
        }
    }

    /// What people know a device by.
    pub(super) fn device_name(&self, device: u32) -> String {
        match self {
            Self::Iolog(iolog) => iolog.name(device),
            _ => self.device_number(device),
        }
    }

    pub(super) fn format(&self) -> BlockFormat {
        match self {
            Self::Plain(_) => BlockFormat::Plain,
            Self::DiskSim => BlockFormat::DiskSim,
            Self::Spc => BlockFormat::Spc,
            Self::Msr(_) => BlockFormat::Msr,
            Self::Blkparse(_) => BlockFormat::Blkparse,
            Self::Iolog(_) => BlockFormat::Iolog,
        }
    }
}
