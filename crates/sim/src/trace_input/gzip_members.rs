//! The members of a gzip file, one after another. Zeros may follow them, as `gzip` itself accepts: tapes and disk
//! images round up the size of a file.

use std::io::{self, BufRead, Read};

use flate2::bufread::GzDecoder;

/// Decompresses all members.
pub struct GzipMembers<R> {
    /// `None` after the last member and its padding.
    member: Option<GzDecoder<R>>,
}

impl<R: BufRead> GzipMembers<R> {
    /// Decompresses `packed`, which begins with a member.
    pub fn of(packed: R) -> Self {
        Self { member: Some(GzDecoder::new(packed)) }
    }
}

impl<R: BufRead> Read for GzipMembers<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            let read = member.read(into)?;
            if read > 0 || into.is_empty() {
                return Ok(read);
            }
            let mut rest = self.member.take().expect("it was there").into_inner();
            if skip_zeros(&mut rest)? {
                self.member = Some(GzDecoder::new(rest));
            }
        }
        Ok(0)
    }
}

/// Consumes zeros from `packed`. Returns true if other bytes follow.
fn skip_zeros(packed: &mut impl BufRead) -> io::Result<bool> {
    loop {
        let bytes = packed.fill_buf()?;
        if bytes.is_empty() {
            return Ok(false);
        }
        let zeros = bytes.iter().position(|byte| *byte != 0);
        let skipped = zeros.unwrap_or(bytes.len());
        packed.consume(skipped);
        if zeros.is_some() {
            return Ok(true);
        }
    }
}
