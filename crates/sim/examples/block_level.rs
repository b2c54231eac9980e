//! A translation layer in forty lines: the block-level scheme. It keeps each page at its offset in a data block and
//! rewrites the whole block for every page that is written again. `cargo run -p ferrite-sim --example block_level`
//! compares it with the other schemes on random writes.

use ferrite_sim::ftl::{
    DriveSpec, Flash, FlashBlock, FlashDrive, FlashPage, FlashShape, FlashTiming, FtlScheme, HostPage, Translation,
    VictimChoice,
};

struct BlockLevel {
    /// The data block of each of the host's blocks.
    data: Vec<Option<FlashBlock>>,
    /// Pages that have content, one flag each.
    written: Vec<bool>,
    shape: FlashShape,
}

impl Translation for BlockLevel {
    fn write(&mut self, page: HostPage, flash: &mut Flash) {
        let (pages, owner) = (self.shape.block_pages, (page.0 / self.shape.block_pages) as usize);
        let slot = |block, offset| FlashPage(block * pages + offset);
        let old = self.data[owner];
        match old.filter(|old| flash.page_at(slot(old.0, page.0 % pages)).is_some()) {
            None => self.data[owner] = old.or_else(|| Some(flash.take_free())),
            Some(old) => {
                let new = flash.take_free();
                for offset in (0..pages).filter(|offset| *offset != page.0 % pages) {
                    if self.written[owner * pages as usize + offset as usize] {
                        flash.copy(slot(old.0, offset), slot(new.0, offset));
                    }
                }
                flash.erase(old);
                self.data[owner] = Some(new);
            }
        }
        self.written[page.0 as usize] = true;
        flash.program(page, self.locate(page).expect("it has a block and content now"));
    }

    fn trim(&mut self, page: HostPage, _: &mut Flash) {
        self.written[page.0 as usize] = false;
    }

    fn locate(&self, page: HostPage) -> Option<FlashPage> {
        let block = self.data[(page.0 / self.shape.block_pages) as usize]?;
        self.written[page.0 as usize]
            .then(|| FlashPage(block.0 * self.shape.block_pages + page.0 % self.shape.block_pages))
    }
}

/// Returns the erases for each thousand random writes.
fn run<T: Translation>(mut drive: FlashDrive<T>) -> ferrite_sim::Result<f64> {
    drive.prefill()?;
    let pages = u64::from(drive.shape().host_pages());
    for write in 0..50_000_u64 {
        drive.write(HostPage((write.wrapping_mul(0x9e37_79b9_7f4a_7c15) % pages) as u32))?;
    }
    Ok(drive.figures()?.erases as f64 / 50.0)
}

fn main() -> ferrite_sim::Result<()> {
    let shape = FlashShape { logical_blocks: 256, extra_blocks: 26, block_pages: 64, page_bytes: 4096 };
    let of = |scheme| DriveSpec { scheme, shape, timing: FlashTiming::default() }.build().and_then(run);
    let layer = BlockLevel { data: vec![None; 256], written: vec![false; 256 * 64], shape };
    println!("erases for each thousand writes:");
    println!("block level  {:8.1}", run(FlashDrive::new(shape, layer, FlashTiming::default())?)?);
    println!("FAST         {:8.1}", of(FtlScheme::Fast { log_blocks: None })?);
    println!("page level   {:8.1}", of(FtlScheme::Page(VictimChoice::Greedy))?);
    Ok(())
}
