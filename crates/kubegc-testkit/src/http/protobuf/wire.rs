//! The wire format of protobuf: tags, varints and lengths.
//!
//! # Upstream
//! [Encoding](https://protobuf.dev/programming-guides/encoding/). Field numbers that a message does not have
//! are skipped, as generated Go code does.

/// The value of a field, by its wire type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wire<'a> {
    Varint(u64),
    Fixed64([u8; 8]),
    Bytes(&'a [u8]),
    /// A type that no known field has.
    Other,
}

#[derive(Clone, Debug)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

const TRUNCATED: &str = "the message is truncated";

impl<'a> Reader<'a> {
    /// The next field with its number; `None` at the end.
    pub(super) fn field(&mut self) -> Result<Option<(u32, Wire<'a>)>, &'static str> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let (number, wire_type) = self.tag()?;
        if wire_type == 3 {
            self.skip_group()?;
            return Ok(Some((number, Wire::Other)));
        }
        Ok(Some((number, self.value(wire_type)?)))
    }

    /// The next of the numbers that are packed into one field; `None` at the end.
    pub(super) fn packed(&mut self) -> Result<Option<u64>, &'static str> {
        if self.0.is_empty() {
            return Ok(None);
        }
        self.varint().map(Some)
    }

    fn tag(&mut self) -> Result<(u32, u64), &'static str> {
        let tag = self.varint()?;
        match u32::try_from(tag >> 3) {
            Ok(number) if number > 0 => Ok((number, tag & 7)),
            _ => Err("a field number is out of range"),
        }
    }

    fn value(&mut self, wire_type: u64) -> Result<Wire<'a>, &'static str> {
        Ok(match wire_type {
            0 => Wire::Varint(self.varint()?),
            1 => {
                let (value, rest) = self.0.split_first_chunk::<8>().ok_or(TRUNCATED)?;
                self.0 = rest;
                Wire::Fixed64(*value)
            }
            2 => {
                let length = self.varint()?;
                let length = usize::try_from(length).map_err(|_| TRUNCATED)?;
                let (value, rest) = self.0.split_at_checked(length).ok_or(TRUNCATED)?;
                self.0 = rest;
                Wire::Bytes(value)
            }
            5 => {
                self.0 = self.0.get(4..).ok_or(TRUNCATED)?;
                Wire::Other
            }
            _ => return Err("a field has an unknown wire type"),
        })
    }

    /// Skips a group, which has begun, with the groups in it.
    fn skip_group(&mut self) -> Result<(), &'static str> {
        let mut depth = 1_usize;
        // Ends: each round reads at least one byte.
        while depth > 0 {
            match self.tag()?.1 {
                3 => depth += 1,
                4 => depth -= 1,
                wire_type => {
                    self.value(wire_type)?;
                }
            }
        }
        Ok(())
    }

    fn varint(&mut self) -> Result<u64, &'static str> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first().ok_or(TRUNCATED)?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err("a varint has more than 10 bytes")
    }
}

fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        // The low seven bits fit into a byte.
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn put_tag(out: &mut Vec<u8>, number: u32, wire_type: u64) {
    put(out, (u64::from(number) << 3) | wire_type);
}

/// Writes a number. Negative ones have ten bytes, of 32-bit types too.
pub(super) fn put_int(out: &mut Vec<u8>, number: u32, value: i64) {
    put_tag(out, number, 0);
    put(out, value as u64);
}

pub(super) fn put_double(out: &mut Vec<u8>, number: u32, value: f64) {
    put_tag(out, number, 1);
    out.extend(value.to_le_bytes());
}

/// Writes a string, bytes or a message.
pub(super) fn put_bytes(out: &mut Vec<u8>, number: u32, value: &[u8]) {
    put_tag(out, number, 2);
    put(out, value.len() as u64);
    out.extend(value);
}
