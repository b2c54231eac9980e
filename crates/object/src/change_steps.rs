//! The bytes of changes: lengths, and the bytes of those lengths.

/// Returns the length of `bytes` as a change stores it.
pub(crate) fn len_of(bytes: &[u8]) -> [u8; 4] {
    (bytes.len() as u32).to_le_bytes()
}

/// The unread rest of a change.
pub(crate) struct ChangeSteps<'a>(pub &'a [u8]);

impl<'a> ChangeSteps<'a> {
    /// Reads the next byte.
    pub fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn len(&mut self) -> Option<usize> {
        let (len, rest) = self.0.split_first_chunk::<4>()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*len) as usize)
    }

    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    /// Reads a length, then bytes.
    pub fn sized(&mut self) -> Option<&'a [u8]> {
        let len = self.len()?;
        self.take(len)
    }

    /// Reads two lengths, then the bytes of both.
    pub fn put(&mut self) -> Option<(&'a [u8], &'a [u8])> {
        let (key, value) = (self.len()?, self.len()?);
        Some((self.take(key)?, self.take(value)?))
    }
}
