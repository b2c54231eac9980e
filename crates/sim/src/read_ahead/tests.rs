use super::*;

#[test]
fn a_reader_that_panics_is_no_end_of_the_trace() {
    let gather = |count: &mut u32, into: &mut Vec<u32>| {
        *count += 1;
        assert!(*count < 3, "it is broken");
        into.push(*count);
        Ok(true)
    };
    let mut ahead = ReadAhead::of(|| Ok(0), gather, |_| false).expect("a thread");
    let mut given = 0;
    let end = loop {
        match ahead.batch(&mut || true) {
            Ok(NextPart::Part(part)) => given += part.len(),
            end => break end.map(drop),
        }
    };
    assert!(matches!((given, end), (2, Err(Error::Reader))));
}
