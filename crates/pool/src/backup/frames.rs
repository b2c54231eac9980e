//! The frames of an image of any format version.

use super::image_format::{ImageFrame, ImageHeader, ImageReader};
use crate::Result;

/// An image that is read from its start, frame by frame.
pub(super) trait FrameSource {
    /// Returns the header.
    fn header(&self) -> &ImageHeader;

    /// Returns the next frame, verified. Returns `None` after the last one, if the image is whole.
    ///
    /// # Errors
    /// [`crate::Error::BadImage`] if the image is damaged, [`crate::Error::Medium`] if it cannot be read.
    fn next(&mut self) -> Result<Option<ImageFrame>>;

    /// Returns the bytes of the image, when all of it was read.
    fn bytes(&self) -> u64;

    /// Keeps the memory of `frames` for later ones: new memory costs as much as to read into it.
    fn reuse(&mut self, _frames: Vec<ImageFrame>) {}
}

impl FrameSource for ImageReader<'_> {
    fn header(&self) -> &ImageHeader {
        &self.header
    }

    fn next(&mut self) -> Result<Option<ImageFrame>> {
        self.next()
    }

    fn bytes(&self) -> u64 {
        self.at
    }

    fn reuse(&mut self, frames: Vec<ImageFrame>) {
        self.spare.extend(frames.into_iter().map(|frame| frame.content));
    }
}
