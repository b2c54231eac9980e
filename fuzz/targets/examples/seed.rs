//! Writes each target's valid input to fuzz/corpus, where `cargo fuzz` starts from.

use std::path::Path;

fn main() -> std::io::Result<()> {
    for target in &ferrite_fuzz::TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus").join(target.name);
        std::fs::create_dir_all(&folder)?;
        for (which, bytes) in (target.seeds)().iter().enumerate() {
            std::fs::write(folder.join(format!("valid-{which}")), bytes)?;
        }
    }
    Ok(())
}
