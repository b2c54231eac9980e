//! Builds the library that `run` loads into programs, and embeds it in the `ferrite` program.
//!
//! Cargo builds the library in a folder of its own that all profiles share. The library runs inside other programs, so
//! it is always optimised, and no code of it may unwind.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    for part in ["preload", "fs-client", "guest", "fs", "owner", "pool", "disk", "memory"] {
        println!("cargo::rerun-if-changed=../{part}/src");
        println!("cargo::rerun-if-changed=../{part}/Cargo.toml");
    }
    println!("cargo::rerun-if-changed=../../Cargo.toml");
    println!("cargo::rerun-if-changed=../../Cargo.lock");
    println!("cargo::rerun-if-env-changed=CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER");
    let variable = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"));
    let out = PathBuf::from(variable("OUT_DIR"));
    // For other targets there is no library, and `run` prints that.
    let target = variable("TARGET");
    let library =
        if target == "x86_64-unknown-linux-gnu" { built(&out, &variable("CARGO"), &target) } else { Vec::new() };
    let mut hasher = DefaultHasher::new();
    library.hash(&mut hasher);
    println!("cargo::rustc-env=FERRITE_PRELOAD_HASH={:016x}", hasher.finish());
    std::fs::write(out.join("preload.so"), library).expect("the folder for what is built can be written to");
}

/// Returns the library. It is built for a named target, so that a linker for that target (`cargo zigbuild` sets one)
/// links it, as it links the program.
fn built(out: &Path, cargo: &str, target: &str) -> Vec<u8> {
    // target/PROFILE/build/ferrite-HASH/out
    let folder = out.ancestors().nth(4).expect("cargo's folders are four deep").join("preload");
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--locked", "--profile", "preload", "--package", "ferrite-preload", "--lib"]);
    command.args(["--target", target, "--target-dir"]).arg(&folder).current_dir("../..");
    // Tools that only check the sources, such as clippy, must not replace the compiler of this build.
    command.env_remove("RUSTC_WORKSPACE_WRAPPER").env_remove("CARGO_BUILD_TARGET");
    let status = command.status().expect("cargo can be run");
    assert!(status.success(), "the library for `ferrite run` was not built: {status}");
    let library = folder.join(target).join("preload/libferrite_preload.so");
    std::fs::read(&library).unwrap_or_else(|error| panic!("{}: {error}", library.display()))
}
