//! A machine whose persistent memory is a guest of a pool.

use super::Stage::{Afterwards, Working};
use super::machine::Machine;
use super::report::report;

/// The machine works on its NVDIMM as on any other, and after a kill of QEMU and of the pool's owner all is there that was
/// durable. A soak boots it.
#[test]
fn kill_of_a_machine_on_a_region_loses_nothing_durable() {
    if std::env::var_os("FERRITE_GUEST").is_some() || std::env::var_os("FERRITE_ROUNDS").is_none() {
        return println!("skipped: `cargo xtask soak` boots the machine");
    }
    let machine = match Machine::build() {
        Ok(machine) => machine.on_region(),
        Err(lacking) => return println!("skipped: {lacking}"),
    };
    let report = report(&machine);
    report.assert_passed(Working, "a_pool_on_a_dax_file_system_survives_power_loss_and_says_so");
    report.assert_passed(Afterwards, "fsynced_files_on_dax_outlive_the_power");
}
