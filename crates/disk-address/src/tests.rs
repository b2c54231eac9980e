//! The files that the tests of addresses need.

use std::fs::File;
use std::path::Path;

use ferrite_memory::{Guard, MapOptions, Mapped};
use ferrite_pool::layout::{CHUNK, POOL_BYTES_MIN};
use ferrite_pool::{Format, Pool};

/// Makes an empty pool at `path`.
pub fn make_pool(path: &Path) {
    let file = File::options().read(true).write(true).create_new(true).open(path).expect("a new file");
    file.set_len(POOL_BYTES_MIN + CHUNK).expect("a length");
    let memory = Mapped::map(file, &MapOptions { guard: Guard::None, ..MapOptions::default() }).expect("mapped");
    Pool::create(&memory, &Format { uuid: [7; 16], boot_id: [1; 16] }).expect("a pool");
}
