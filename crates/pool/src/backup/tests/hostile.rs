//! Images that are not whole, and sinks that fail.

use std::io;

use super::*;
use crate::backup::image_format::{FRAME_BYTES, HEADER_BYTES, TRAILER_BYTES};

fn refused(image: &[u8]) -> bool {
    verify(&mut &*image, &mut quiet).is_err()
}

/// IM1: each byte of a small image, changed, is noticed.
#[test]
fn im1_every_changed_byte_is_noticed() {
    let (_, mut image) = small();
    for at in 0..image.len() {
        image[at] ^= 0x40;
        assert!(refused(&image), "byte {at} of {}", image.len());
        image[at] ^= 0x40;
    }
    assert!(!refused(&image));
}

/// IM3: cut anywhere at all near a boundary and by steps between, it is noticed; so is anything behind its end.
#[test]
fn im3_every_cut_is_noticed() {
    let (_, mut image) = small();
    let steps =
        (0..image.len()).step_by(97).chain(0..2 * HEADER_BYTES).chain(image.len() - 2 * TRAILER_BYTES..image.len());
    for len in steps {
        let error = verify(&mut &image[..len], &mut quiet).unwrap_err().to_string();
        assert!(error.contains("which is missing"), "{len}: {error}");
    }
    image.push(0);
    assert!(refused(&image));
}

/// The frames of an image: where each starts, and where the trailer does.
fn frames(image: &[u8]) -> Vec<usize> {
    let mut starts = vec![HEADER_BYTES];
    while &image[starts[starts.len() - 1]..][..4] == b"FRAM" {
        let start = starts[starts.len() - 1];
        let pages = u32::from_le_bytes(image[start + 16..start + 20].try_into().unwrap());
        starts.push(start + FRAME_BYTES + pages as usize * PAGE as usize);
    }
    starts
}

/// IM2: frames that are each whole do not make an image in another order, in another number, or from two images.
#[test]
fn im2_frames_are_where_they_belong() {
    let (pool, image) = small();
    let starts = frames(&image);
    let frame = |index: usize| &image[starts[index]..starts[index + 1]];
    let (head, tail) = (&image[..HEADER_BYTES], &image[*starts.last().unwrap()..]);
    assert_eq!(starts.len(), 4, "three frames");
    let rebuilt = |order: &[usize]| {
        let middle: Vec<u8> = order.iter().flat_map(|index| frame(*index)).copied().collect();
        [head, &middle, tail].concat()
    };
    assert!(!refused(&rebuilt(&[0, 1, 2])));
    for order in [&[0, 2, 1][..], &[1, 0, 2], &[0, 1, 1], &[0, 0, 1, 2], &[0, 1], &[0, 2], &[]] {
        assert!(refused(&rebuilt(order)), "{order:?}");
    }
    let mut other = Vec::new();
    backup(&pool, &mut other, [8; 16], &mut quiet).unwrap();
    assert_eq!(other.len(), image.len());
    let spliced = [&image[..starts[1]], &other[starts[1]..]].concat();
    assert!(refused(&spliced));
}

/// The image with its checksums made right again after `change`: what a liar would make.
fn forged(image: &[u8], change: impl Fn(&mut ImageHeader, &mut ImageFrame)) -> Vec<u8> {
    let mut input = image;
    let mut reader = image_format::ImageReader::open(&mut input).unwrap();
    let mut header = reader.header;
    let mut frames = Vec::new();
    while let Some(mut frame) = reader.next().unwrap() {
        change(&mut header, &mut frame);
        frames.push(frame);
    }
    let (mut bytes, mut tally) = ImageTally::start(&header);
    for frame in frames {
        bytes.extend(tally.frame(&frame));
        bytes.extend(&frame.content);
    }
    bytes.extend(tally.trailer());
    bytes
}

/// An image of version 1, which has no stamp, restores.
#[test]
fn an_image_of_version_1_restores() {
    let (pool, image) = small();
    let first = forged(&image, |header, _| header.stamp = None);
    assert_eq!((first[8], &first[72..128]), (1, &[0; 56][..]));
    let memory = blank(POOL_BYTES_MIN);
    restored(&first, &memory, false).unwrap();
    assert!(values(&open(&memory)) == values(&pool));
}

/// Checksums do not make a frame believed: chunks outside the pool, pages that are not used, the superblock itself.
#[test]
fn a_forged_frame_is_refused() {
    let (_, image) = small();
    assert!(!refused(&forged(&image, |_, _| ())));
    let changes: [fn(&mut ImageHeader, &mut ImageFrame); 8] = [
        |_, frame| frame.chunk += 2,
        |_, frame| frame.chunk = u64::MAX,
        |_, frame| frame.chunk = 0,
        |_, frame| frame.used = ChunkPages::default(),
        |_, frame| frame.used = ChunkPages::ALL,
        |header, _| header.frames = u64::MAX,
        |header, _| header.size = u64::MAX / CHUNK * CHUNK + 1,
        |header, _| header.generation = u64::MAX,
    ];
    for (index, change) in changes.into_iter().enumerate() {
        let forged = forged(&image, change);
        assert!(refused(&forged), "change {index}");
        let memory = blank(POOL_BYTES_MIN);
        assert!(restored(&forged, &memory, false).is_err());
    }
}

#[test]
fn an_image_of_a_newer_program_says_so() {
    let (_, mut image) = small();
    image[8] = 3;
    let crc = crc32fast::hash(&[&image[..12], &image[16..HEADER_BYTES]].concat());
    image[12..16].copy_from_slice(&crc.to_le_bytes());
    let error = verify(&mut &image[..], &mut quiet).unwrap_err().to_string();
    assert!(error.contains("format version 3") && error.contains("newer ferrite"), "{error}");
}

#[test]
fn what_is_no_image_says_so() {
    for bytes in [&[0; 300][..], b"", b"#!/bin/sh\n"] {
        let error = verify(&mut &*bytes, &mut quiet).unwrap_err().to_string();
        assert!(error.contains("not an image of a pool") || error.contains("which is missing"), "{error}");
    }
}

/// Takes some bytes, then fails.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = bytes.len().min(self.0);
        self.0 -= len;
        if len == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(len) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A sink that fails at any byte: an error, and the pool goes on.
#[test]
fn a_sink_that_fails_lets_the_pool_go_on() {
    let (pool, image) = small();
    for len in (0..image.len()).step_by(501).chain([image.len() - 1]) {
        let error = backup(&pool, &mut Full(len), IMAGE, &mut quiet).unwrap_err();
        assert!(matches!(error, Error::Medium(MediumError::NoSpace(_))), "{error}");
        put(&pool, "value", b"some bytes");
    }
    backup(&pool, &mut Full(image.len()), IMAGE, &mut quiet).unwrap();
}

/// The image has the bytes that docs/format.md says, field by field, read here by hand.
#[test]
fn the_image_is_as_documented() {
    let (pool, image) = small();
    let number =
        |at: usize, len: usize| image[at..at + len].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
    let crc = |salt: u32, parts: &[&[u8]]| {
        let mut hasher = crc32fast::Hasher::new_with_initial(salt);
        parts.iter().for_each(|part| hasher.update(part));
        hasher.finalize()
    };
    assert_eq!((&image[..8], number(8, 4)), (&b"FERRIMG\0"[..], 2));
    let salt = number(12, 4) as u32;
    assert_eq!(salt, crc(0, &[&image[..12], &image[16..128]]));
    assert_eq!((&image[16..32], &image[32..48]), (&IMAGE[..], &pool.superblock().uuid[..]));
    assert_eq!((number(48, 8), number(56, 8)), (POOL_BYTES_MIN, 3));
    assert_eq!(number(64, 8), pool.superblock().generation);
    assert_eq!((&image[72..80], number(80, 8) >> 16), (&pool.superblock().uuid[..8], 1));
    assert_eq!(number(88, 4) as u32, crc(0, &[b"FTIE", &2_u16.to_le_bytes(), &image[72..88]]));
    assert!(image[92..128].iter().all(|byte| *byte == 0));
    let (mut at, mut sums, mut pages) = (128, Vec::new(), 0);
    for chunk in 0..3 {
        assert_eq!((&image[at..at + 4], number(at + 8, 8)), (&b"FRAM"[..], chunk));
        let carried = number(at + 16, 4);
        let bits = |from: usize| image[from..from + 64].iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>();
        let used = [510, 512, 1][chunk as usize];
        assert_eq!((bits(at + 64), bits(at + 128)), (used, carried));
        let end = at + 192 + 4096 * carried as usize;
        assert_eq!(number(at + 4, 4) as u32, crc(salt, &[&image[at + 8..end]]));
        sums.extend_from_slice(&image[at + 4..at + 8]);
        (at, pages) = (end, pages + carried);
    }
    assert_eq!((&image[at..at + 4], image.len()), (&b"DONE"[..], at + 64));
    assert_eq!((number(at + 8, 8), number(at + 16, 8)), (3, pages));
    assert_eq!(number(at + 24, 4) as u32, crc(0, &[&sums]));
    assert_eq!(number(at + 4, 4) as u32, crc(salt, &[&image[at + 8..]]));
}
