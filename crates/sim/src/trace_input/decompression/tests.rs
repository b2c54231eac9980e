use super::*;

/// Returns a byte, and then panics.
struct Broken(u8);

impl Read for Broken {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0 += 1;
        assert!(self.0 < 2, "it is broken");
        into[0] = self.0;
        Ok(1)
    }
}

#[test]
fn what_panics_is_no_end_of_what_is_unpacked() {
    let mut got = Vec::new();
    let read = DecompressedReader::of(Broken(0)).expect("a thread").read_to_end(&mut got);
    assert_eq!((got, read.map_err(|why| why.kind())), (vec![1], Err(ErrorKind::Other)));
}
