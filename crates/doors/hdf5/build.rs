//! Keeps the library in memory when HDF5 closes it, because the engine's threads run on.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
