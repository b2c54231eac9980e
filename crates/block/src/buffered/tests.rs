//! Buffers against a model, over lying disks.

use std::sync::Arc;

use ferrite_crash::LyingDisk;
use ferrite_disk::{Access, Disk, Geometry, Zeroing};
use ferrite_memory::planted::plant;
use ferrite_memory::{Error, Span};
use proptest::prelude::*;

use super::*;
use crate::shape::BLOCK;
use crate::tests::{BLOCKS, Op, content, op, read_all};

mod frozen;
mod model;
mod rules;
mod threads;

fn geometry() -> Geometry {
    Geometry {
        size: BLOCKS * BLOCK,
        sector_bytes: 512,
        atomic_bytes: 4096,
        preferred_bytes: 4096,
        volatile_cache: true,
        read_only: false,
        trim: true,
        identity: [0; 16],
    }
}

/// Buffers so small that every case occurs.
fn small(batch: bool) -> BufferOptions {
    BufferOptions { buffers: 3, buffer_bytes: 5 * BLOCK, stride_bytes: 2 * BLOCK, batch, ..BufferOptions::default() }
}

fn over_lies(options: BufferOptions) -> Buffered<LyingDisk> {
    Buffered::new(LyingDisk::new(geometry()), options).expect("good options")
}

impl<D> Buffered<D> {
    /// Returns the disk behind the buffers.
    fn inner(&self) -> &D {
        &self.disk
    }
}
