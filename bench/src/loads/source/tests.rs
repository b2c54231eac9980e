//! Parts of a source tree.

use super::*;

/// A tree that is cut in the middle of a file fails to unpack, and the load with it.
#[test]
fn a_part_of_a_tree_unpacks() {
    let folder = tempfile::tempdir().expect("a folder");
    let long = folder.path().join("a".repeat(150));
    fs::create_dir(&long).expect("made");
    (0..20).for_each(|number| fs::write(long.join(format!("{number}")), vec![7; 3000]).expect("written"));
    for budget in [1, 600, 5000, 20_000, 1 << 20] {
        let mut pack = Command::new("tar");
        pack.args(["-cf", "-", "-C"]).arg(folder.path()).arg("a".repeat(150)).stdout(Stdio::piped());
        let mut part = Vec::new();
        let taken = take(&mut pack, &mut part, budget).expect("it is an archive");
        assert!(taken == part.len() as u64 && taken < budget + 8000, "{taken} of {budget}");
        part.extend([0; 2 * UNIT]);
        let archive = folder.path().join("part.tar");
        fs::write(&archive, &part).expect("written");
        let listed = program::output(Command::new("tar").arg("-tf").arg(&archive)).expect("it unpacks");
        assert!(!listed.is_empty() && listed.lines().all(|line| line.starts_with("aaa")), "{budget}: {listed}");
    }
}
