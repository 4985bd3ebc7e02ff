//! Unpacks zstd: all frames of a stream, each compared with its checksum.

use std::io::{self, Read};

use ruzstd::decoding::{
    BlockDecodingStrategy, FrameDecoder,
    errors::{FrameDecoderError, ReadFrameHeaderError},
};

use crate::error::invalid;

/// A reader of the unpacked bytes. The window of a frame may have at most 128 MiB.
pub(crate) struct ZstdReader<R> {
    input: R,
    /// `None` between frames.
    frame: Option<FrameDecoder>,
}

impl<R: Read> ZstdReader<R> {
    pub(crate) fn new(input: R) -> Self {
        Self { input, frame: None }
    }

    /// Begins the next frame; `None` at the end of the input.
    fn next_frame(&mut self) -> io::Result<Option<&mut FrameDecoder>> {
        // Every iteration consumes a skippable frame or ends.
        loop {
            let mut first = Vec::new();
            if (&mut self.input).take(1).read_to_end(&mut first)? == 0 {
                return Ok(None);
            }
            let mut frame = FrameDecoder::new();
            match frame.init(first.as_slice().chain(&mut self.input)) {
                Ok(()) => return Ok(Some(self.frame.insert(frame))),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let mut skipped = (&mut self.input).take(length.into());
                    if io::copy(&mut skipped, &mut io::sink())? < u64::from(length) {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(corrupt(error)),
            }
        }
    }
}

impl<R: Read> Read for ZstdReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // Every iteration decodes a block or consumes a frame.
        loop {
            if self.frame.is_none() && self.next_frame()?.is_none() {
                return Ok(0);
            }
            let Some(frame) = &mut self.frame else { continue };
            if frame.can_collect() > 0 {
                return frame.read(buffer);
            }
            if !frame.is_finished() {
                let one = BlockDecodingStrategy::UptoBlocks(1);
                frame.decode_blocks(&mut self.input, one).map_err(corrupt)?;
                continue;
            }
            let expected = frame.get_checksum_from_data();
            if expected.is_some() && expected != frame.get_calculated_checksum() {
                return Err(corrupt("its checksum does not match"));
            }
            self.frame = None;
        }
    }
}

fn corrupt(error: impl ToString) -> io::Error {
    invalid(&format!("corrupt zstd stream: {}", error.to_string()))
}
