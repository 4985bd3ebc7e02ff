//! UTF-16, as `>` of Windows PowerShell writes it, read as UTF-8.

use std::io::{self, Read};

/// The order of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Utf16 {
    LittleEndian,
    BigEndian,
}

impl Utf16 {
    /// The encoding of a text that begins so: by its byte order mark, or without one by the zero bytes of its
    /// first two characters, which are ASCII in JSON and YAML.
    pub(crate) fn of(head: &[u8]) -> Option<Self> {
        match head {
            [0xff, 0xfe, ..] => Some(Self::LittleEndian),
            [0xfe, 0xff, ..] => Some(Self::BigEndian),
            [1..=0x7f, 0, 1..=0x7f, 0, ..] => Some(Self::LittleEndian),
            [0, 1..=0x7f, 0, 1..=0x7f, ..] => Some(Self::BigEndian),
            _ => None,
        }
    }

    /// The text in UTF-8, the mark included.
    pub(crate) fn decode<R: Read>(self, input: R) -> Decoder<R> {
        Decoder {
            input,
            order: self,
            bytes: Vec::new(),
            text: Vec::new(),
            given: 0,
        }
    }
}

/// The bytes of one read.
const CHUNK_BYTES: u64 = 64 * 1024;

/// Transcodes a chunk at a time.
pub(crate) struct Decoder<R> {
    input: R,
    order: Utf16,
    /// Read and not yet decoded: half a unit or half a pair at most, between chunks.
    bytes: Vec<u8>,
    text: Vec<u8>,
    /// Bytes of the text that were handed on.
    given: usize,
}

impl<R: Read> Decoder<R> {
    /// Decodes the next chunk; `false` at the end.
    fn fill(&mut self) -> io::Result<bool> {
        let is_end = self
            .input
            .by_ref()
            .take(CHUNK_BYTES)
            .read_to_end(&mut self.bytes)?
            == 0;
        if is_end && self.bytes.is_empty() {
            return Ok(false);
        }
        let (units, _) = self.bytes.as_chunks::<2>();
        let mut units: Vec<u16> = units
            .iter()
            .map(|&unit| match self.order {
                Utf16::LittleEndian => u16::from_le_bytes(unit),
                Utf16::BigEndian => u16::from_be_bytes(unit),
            })
            .collect();
        // The other half of a pair may come with the next chunk.
        if !is_end && units.last().is_some_and(|unit| (0xd800..0xdc00).contains(unit)) {
            units.pop();
        }
        if is_end && units.len() * 2 < self.bytes.len() {
            return Err(invalid("UTF-16 text that ends within a character"));
        }
        self.text.clear();
        self.given = 0;
        let mut buffer = [0; 4];
        for character in char::decode_utf16(units.iter().copied()) {
            let character = character.map_err(|_| invalid("not UTF-16"))?;
            self.text
                .extend_from_slice(character.encode_utf8(&mut buffer).as_bytes());
        }
        self.bytes.drain(..units.len() * 2);
        Ok(true)
    }
}

impl<R: Read> Read for Decoder<R> {
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

fn invalid(problem: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_of_any_size_give_the_same_text() {
        let text = "\u{feff}{\"name\": \"Käse 🧀\"}\r\n".repeat(5_000);
        for order in [Utf16::LittleEndian, Utf16::BigEndian] {
            let bytes: Vec<u8> = text
                .encode_utf16()
                .flat_map(|unit| match order {
                    Utf16::LittleEndian => unit.to_le_bytes(),
                    Utf16::BigEndian => unit.to_be_bytes(),
                })
                .collect();
            assert_eq!(Utf16::of(&bytes), Some(order));
            let mut decoded = String::new();
            order
                .decode(&bytes[..])
                .read_to_string(&mut decoded)
                .expect("it is UTF-16");
            assert!(decoded == text);
            let mut cut = order.decode(&bytes[..bytes.len() - 1]);
            let error = cut.read_to_string(&mut decoded).expect_err("half a unit");
            assert_eq!(error.to_string(), "UTF-16 text that ends within a character");
        }
        let mut lone = Utf16::LittleEndian.decode(&[0xff, 0xfe, 0x00, 0xd8, 0x41, 0x00][..]);
        let error = lone.read_to_string(&mut String::new()).expect_err("half a pair");
        assert_eq!(error.to_string(), "not UTF-16");
    }
}
