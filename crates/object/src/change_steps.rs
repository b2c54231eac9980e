//! The bytes of changes: lengths and what they are the lengths of.

/// The length of `bytes` as a change has it.
pub(crate) fn len_of(bytes: &[u8]) -> [u8; 4] {
    (bytes.len() as u32).to_le_bytes()
}

/// What is left of a change.
pub(crate) struct ChangeSteps<'a>(pub &'a [u8]);

impl<'a> ChangeSteps<'a> {
    /// The next byte.
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

    /// A length, then bytes.
    pub fn sized(&mut self) -> Option<&'a [u8]> {
        let len = self.len()?;
        self.take(len)
    }

    /// Two lengths, then the bytes of both.
    pub fn put(&mut self) -> Option<(&'a [u8], &'a [u8])> {
        let (key, value) = (self.len()?, self.len()?);
        Some((self.take(key)?, self.take(value)?))
    }
}
