//! Builds the recording plugin, whose bytes `record` contains.

use std::path::Path;
use std::process::Command;

fn main() {
    let source = Path::new("plugin/src/lib.rs");
    println!("cargo::rerun-if-changed=plugin/src");
    println!("cargo::rerun-if-changed=src/cache/l1.rs");
    println!("cargo::rerun-if-changed=src/record/shared_ring.rs");
    let variable = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"));
    let made = Path::new(&variable("OUT_DIR")).join("plugin.so");
    let mut rustc = Command::new(variable("RUSTC"));
    rustc.args(["--edition", "2024", "--crate-name", "ferrite_sim_plugin", "--crate-type", "cdylib"]);
    rustc.args(["--target", &variable("TARGET"), "-C", "opt-level=3", "-C", "codegen-units=1", "-C", "panic=abort"]);
    rustc.args(["-C", "strip=symbols", "-o"]).arg(&made).arg(source);
    // The program's linker links this too: a package is linked for an old glibc.
    println!("cargo::rerun-if-env-changed=CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER");
    if let Ok(linker) = std::env::var("RUSTC_LINKER") {
        rustc.args(["-C", &format!("linker={linker}")]);
    }
    let status = rustc.status().expect("rustc can be run");
    assert!(status.success(), "the recording plugin was not built: {status}");
}
