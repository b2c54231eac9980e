use super::*;
use crate::{Fletcher, StreamWidth};

/// M1: the lines that are flushed are those with a byte of the store in them, and no other.
#[test]
fn every_line_that_was_stored_to_is_flushed() {
    for at in 4096..4096 + 2 * LINE_BYTES {
        for len in 1..=4 * LINE_BYTES {
            let (first, count) = lines(at, len);
            let flushed = first / LINE_BYTES..first / LINE_BYTES + count;
            assert!(first.is_multiple_of(LINE_BYTES) && flushed.start == at / LINE_BYTES, "{at} {len}");
            assert_eq!(flushed.end, (at + len - 1) / LINE_BYTES + 1, "{at} {len}");
        }
    }
}

/// Loads bring every byte and touch none beside, whichever instruction copies them.
#[test]
fn a_load_is_a_copy_at_every_length_and_place() {
    let from: Vec<u8> = (0..8192_u32).map(|i| (i % 251) as u8).collect();
    let lengths = [0, 1, 63, 1023, 1024, 1025, 1151, 4096, 5000];
    let places = lengths.iter().flat_map(|len| [(*len, 0, 0), (*len, 1, 0), (*len, 0, 8), (*len, 63, 31)]);
    for ((len, at, to), string_bytes_min) in places.flat_map(|place| [(place, 0), (place, usize::MAX)]) {
        let mut cpu = Cpu::get();
        cpu.string_bytes_min = string_bytes_min;
        let mut into = vec![0xff; 8192];
        let shift = from.as_ptr().align_offset(LINE_BYTES) + at;
        let place = into.as_ptr().align_offset(LINE_BYTES) + LINE_BYTES + to;
        // SAFETY: both lie within their vectors of 8192 bytes: 5000, and four lines, are less.
        unsafe { load(&cpu, into.as_mut_ptr().add(place), from.as_ptr().add(shift), len) };
        assert_eq!(into[place..place + len], from[shift..shift + len], "{len} bytes from {at} to {to}");
        let beside = into[..place].iter().chain(&into[place + len..]);
        assert!(beside.into_iter().all(|byte| *byte == 0xff), "{len} bytes from {at} to {to}");
    }
}

/// What is summed is what was stored, at every width that this processor has.
#[test]
fn the_sum_of_a_stream_is_that_of_its_bytes() {
    let from: Vec<u8> = (0..4097_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let mut into = vec![0; 4096 + LINE_BYTES];
    let place = into.as_ptr().align_offset(LINE_BYTES);
    let widest = Cpu::get().stream_width;
    let widths = [StreamWidth::Avx512, StreamWidth::Avx2, StreamWidth::Sse2];
    for (width, len) in widths.into_iter().skip_while(|width| *width != widest).zip([4096, 64, 192].into_iter().cycle())
    {
        into.fill(0);
        // SAFETY: `into` has 4096 bytes behind `place`, and `from` behind its first.
        let sum = unsafe { stream_summed(width, into.as_mut_ptr().add(place), from.as_ptr().add(1), len) };
        fence();
        let mut expected = Fletcher::default();
        expected.add(&from[1..=len]);
        assert_eq!((sum, &into[place..place + len]), (expected, &from[1..=len]), "{len} bytes by {width:?}");
    }
}

/// M3 for `writethrough`: what is flushed and fenced by itself is an aligned word, or the part of one at an end.
#[test]
fn words_are_aligned_and_cover_everything() {
    let found = |at: usize, len| words(at as *const u8, len).collect::<Vec<_>>();
    assert_eq!(found(4096, 24), [(0, 8), (8, 8), (16, 8)]);
    assert_eq!(found(4099, 16), [(0, 5), (5, 8), (13, 3)]);
    assert_eq!(found(4099, 3), [(0, 3)]);
    assert_eq!(found(4099, 0), []);
}
