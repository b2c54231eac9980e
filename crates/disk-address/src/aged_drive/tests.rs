use std::time::Instant;

use ferrite_disk::{Access, RamDisk};

use super::*;
use crate::{DiskAddress, DriveModel, ModeledDisk};

fn drive(address: &str) -> AgedDrive {
    match DiskAddress::parse(address).expect(address).models.as_slice() {
        [DriveModel::Aged(drive)] => drive.clone(),
        models => panic!("{address}: {models:?}"),
    }
}

#[test]
fn settings_change_an_aged_drive_one_by_one() {
    let usual = drive("ssd-x25e@filled=100:image");
    assert_eq!(
        (usual.name, usual.spare_percent, usual.scheme),
        ("ssd-x25e", 10, FtlScheme::Page(VictimChoice::Greedy))
    );
    assert_eq!((usual.profile.clone(), usual.fill.order), (SsdProfile::x25e(), FillOrder::Random));
    let other = drive("ssd-nvme@filled=70,order=sequential,spare=28,ftl=fast:image");
    let fill = FlashFill { percent: 70, order: FillOrder::Sequential };
    assert_eq!((other.name, other.fill, other.spare_percent), ("ssd-nvme", fill, 28));
    assert_eq!(other.scheme, FtlScheme::Fast { log_blocks: None });
    assert_eq!(
        drive("ssd-sata@order=random:image"),
        AgedDrive { fill: usual.fill, ..drive("ssd-sata@spare=10:image") }
    );
}

#[test]
fn a_wrong_setting_is_refused_with_the_possible_ones() {
    for (settings, named) in [
        ("filled=101", "\"filled=101\""),
        ("filled=90,", "\"\""),
        ("", "\"\""),
        ("filled", "\"filled\""),
        ("order=up", "\"order=up\""),
        ("spare=-1", "\"spare=-1\""),
        ("filled=5,ftl=block", "\"ftl=block\""),
    ] {
        let error = DiskAddress::parse(&format!("ssd-sata@{settings}:image")).expect_err(settings).to_string();
        assert!(error.starts_with(&format!("ssd-sata@ has no setting {named}")), "{error}");
        assert!(error.contains("filled=PERCENT") && error.contains("ftl=page|fast"), "{error}");
    }
    let empty = DiskAddress::parse("ssd-sata@filled=5:").expect_err("no disk").to_string();
    assert!(empty.contains("ssd-sata: has no disk behind it"), "{empty}");
    let hard_disk = DiskAddress::parse("hdd-7200@filled=5:image").expect_err("no flash").to_string();
    assert!(hard_disk.contains("no simulated drive is called \"hdd-7200@filled=5\""), "{hard_disk}");
}

/// Users compare drives by what they print at the end: an aged drive counts beside drives that take no time.
#[test]
fn an_aged_drive_keeps_its_bytes_takes_its_time_and_counts() {
    let address = DiskAddress::parse("ssd-nvme-plp@filled=100:ftl-fast:image").expect("parsed");
    let below: Arc<dyn Disk> = Arc::new(RamDisk::new(4 << 20));
    let ModeledDisk { disk, flash } = address.with_models(Arc::clone(&below)).expect("modeled");
    let begun = Instant::now();
    for page in 0..100_u64 {
        disk.write(page * 37 % 1024 * 4096, &[page as u8 + 1; 4096], Access::Cached).expect("written");
    }
    disk.read(37 * 4096, &mut [0; 4096]).expect("read");
    assert!(begun.elapsed().as_micros() >= 66, "a read takes its time");
    let mut bytes = [0; 4096];
    below.read(37 * 4096, &mut bytes).expect("read");
    assert_eq!(bytes, [2; 4096]);
    let names: Vec<_> = flash.iter().map(|drive| drive.name).collect();
    assert_eq!(names, ["ftl-fast", "ssd-nvme-plp"], "from the disk outwards");
    let figures = flash[1].figures().expect("sound");
    assert!(figures.host_writes == 100 && figures.copied_pages > 0, "{figures:?}");
    assert_eq!(flash[1].shape.extra_blocks, EXTRA_BLOCKS_MIN);
    assert_eq!(flash[0].figures().expect("sound").host_writes, 100);
}
