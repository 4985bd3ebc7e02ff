//! UTF-16, as `>` of Windows PowerShell writes it, read as UTF-8.

use std::io::{self, Read};

use encoding_rs::{Decoder, DecoderResult, Encoding, UTF_16BE, UTF_16LE};

use crate::error::invalid;

/// The encoding of a text that begins so: by its byte order mark, or without one by the zero bytes of its
/// first two characters, which are ASCII in JSON and YAML.
pub(crate) fn encoding(head: &[u8]) -> Option<&'static Encoding> {
    match head {
        [0xff, 0xfe, ..] | [1..=0x7f, 0, 1..=0x7f, 0, ..] => Some(UTF_16LE),
        [0xfe, 0xff, ..] | [0, 1..=0x7f, 0, 1..=0x7f, ..] => Some(UTF_16BE),
        _ => None,
    }
}

/// The bytes of one read.
const CHUNK_BYTES: u64 = 64 * 1024;

/// Transcodes a chunk at a time, the byte order mark included.
///
/// The adapter of `encoding_rs_io` replaces malformed text; here it is an error, because a name with
/// replacement characters is another name.
pub(crate) struct Utf8Reader<R> {
    input: R,
    /// `None` after the end of the input.
    decoder: Option<Decoder>,
    bytes: Vec<u8>,
    text: Vec<u8>,
    /// Bytes of the text that were handed on.
    given: usize,
}

impl<R: Read> Utf8Reader<R> {
    pub(crate) fn new(input: R, encoding: &'static Encoding) -> Self {
        Self {
            input,
            decoder: Some(encoding.new_decoder_without_bom_handling()),
            bytes: Vec::new(),
            text: Vec::new(),
            given: 0,
        }
    }

    /// Decodes the next chunk; `false` at the end.
    fn fill(&mut self) -> io::Result<bool> {
        let Some(decoder) = &mut self.decoder else {
            return Ok(false);
        };
        self.bytes.clear();
        let mut chunk = self.input.by_ref().take(CHUNK_BYTES);
        let is_end = chunk.read_to_end(&mut self.bytes)? == 0;
        let room = decoder.max_utf8_buffer_length_without_replacement(self.bytes.len());
        self.text.resize(room.unwrap_or_default(), 0);
        let (result, _, written) =
            decoder.decode_to_utf8_without_replacement(&self.bytes, &mut self.text, is_end);
        self.text.truncate(written);
        self.given = 0;
        let problem = match result {
            DecoderResult::InputEmpty => {
                if is_end {
                    self.decoder = None;
                }
                return Ok(!is_end || written > 0);
            }
            // Only the end can leave half a unit of two bytes.
            DecoderResult::Malformed(bytes, _) if bytes % 2 == 1 => {
                "UTF-16 text that ends within a character"
            }
            DecoderResult::Malformed(..) | DecoderResult::OutputFull => "not UTF-16",
        };
        Err(invalid(problem))
    }
}

impl<R: Read> Read for Utf8Reader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // A chunk may hold only half a character, and then yields no text.
        while self.given == self.text.len() {
            if !self.fill()? {
                return Ok(0);
            }
        }
        let count = (&self.text[self.given..]).read(buffer)?;
        self.given += count;
        Ok(count)
    }
}
