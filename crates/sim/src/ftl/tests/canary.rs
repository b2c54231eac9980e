//! Layers with one planted fault each: the drive must detect it (TL1, TL2).

use super::super::{
    Flash, FlashDrive, FlashPage, FlashTiming, HostPage, LayerFault, PageLevel, Translation, VictimChoice,
};
use super::shape;
use crate::Error;

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// Returns the place of the previous version, as after a merge that copied an older version.
    Stale,
    /// Forgets that a page was written.
    Forgets,
    /// Returns the place of a trimmed page.
    Spurious,
    /// Programs a page twice.
    Overwrites,
}

/// A page-level layer whose fault shows at page 3.
struct Faulty {
    layer: PageLevel,
    fault: Fault,
    before: Option<FlashPage>,
}

const PAGE: HostPage = HostPage(3);

impl Translation for Faulty {
    fn write(&mut self, page: HostPage, flash: &mut Flash) {
        if page == PAGE {
            self.before = self.layer.locate(page);
        }
        self.layer.write(page, flash);
        if page == PAGE && self.fault == Fault::Overwrites {
            flash.program(page, self.layer.locate(page).expect("just written"));
        }
    }

    fn trim(&mut self, page: HostPage, flash: &mut Flash) {
        if page == PAGE {
            self.before = self.layer.locate(page);
        }
        self.layer.trim(page, flash);
    }

    fn locate(&self, page: HostPage) -> Option<FlashPage> {
        match self.fault {
            Fault::Stale | Fault::Spurious if page == PAGE => self.before,
            Fault::Forgets if page == PAGE => None,
            _ => self.layer.locate(page),
        }
    }
}

fn run(fault: Fault, trims: bool) -> Result<(), Error> {
    let shape = shape(4, 4, 4);
    let layer = Faulty { layer: PageLevel::new(shape, VictimChoice::Greedy)?, fault, before: None };
    let mut drive = FlashDrive::new(shape, layer, FlashTiming::default())?;
    for page in [1, 3, 2, 3] {
        drive.write(HostPage(page))?;
    }
    if trims {
        drive.trim(PAGE)?;
    }
    drive.verify()
}

#[test]
fn canary_a_layer_that_loses_a_page_is_caught() {
    assert!(run(Fault::None, false).is_ok() && run(Fault::None, true).is_ok());
    let lost = |fault, trims| match run(fault, trims) {
        Err(Error::Lost(loss)) => loss,
        other => panic!("it was not caught: {other:?}"),
    };
    assert_eq!(lost(Fault::Stale, false), LayerFault::Stale(PAGE, FlashPage(1)));
    assert_eq!(lost(Fault::Forgets, false), LayerFault::Missing(PAGE));
    assert_eq!(lost(Fault::Spurious, true), LayerFault::Spurious(PAGE, FlashPage(3)));
    assert_eq!(lost(Fault::Overwrites, false), LayerFault::Overwritten(FlashPage(1)));
}
