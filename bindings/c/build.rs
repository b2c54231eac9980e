//! Names the shared library for the loader.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libferrite.so.0");
    println!("cargo:rerun-if-changed=build.rs");
}
