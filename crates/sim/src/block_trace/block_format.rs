//! The formats of block traces.

use std::str::FromStr;

use super::line_fields::ParsedRequest;
use super::{blkparse, disksim, iolog, msr, plain, spc};

/// The format of a block trace.
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
    /// The output of `blkparse`, and of Ferrite's traced disk.
    Blkparse,
    /// fio's iolog, versions 2 and 3, and the output of Ferrite's traced disk.
    Iolog,
}

impl BlockFormat {
    /// All formats, by their names on the command line.
    pub const ALL: [(&'static str, Self); 6] = [
        ("plain", Self::Plain),
        ("disksim", Self::DiskSim),
        ("spc", Self::Spc),
        ("msr", Self::Msr),
        ("blkparse", Self::Blkparse),
        ("iolog", Self::Iolog),
    ];

    /// Returns the name on the command line.
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

/// The reader of one trace's lines, with the state that it keeps between lines.
pub(super) enum BlockLineParser {
    Plain(plain::Plain),
    DiskSim,
    Spc,
    Msr(msr::Msr),
    Blkparse(blkparse::Blkparse),
    Iolog(iolog::Iolog),
}

impl BlockLineParser {
    /// Returns the request of a line. No format begins a line as a comment does.
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

    /// Returns the word by which the user chooses a device.
    pub(super) fn device_number(&self, device: u32) -> String {
        match self {
            Self::Blkparse(_) => blkparse::name(device),
            _ => device.to_string(),
        }
    }

    /// Returns the name of a device for messages.
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
