//! Finds where one JSON value ends, 64 bytes at a time: masks of quotes, backslashes and brackets, no
//! parsing.

/// Finds the end of one value, over as many reads of the window as necessary.
pub(super) struct Scan {
    pub(super) at: usize,
    begun: bool,
    scalar: bool,
    depth: usize,
    in_string: bool,
    /// Whether the next byte follows a backslash.
    escaped: bool,
}

impl Scan {
    pub(super) fn new(at: usize) -> Self {
        Self {
            at,
            begun: false,
            scalar: false,
            depth: 0,
            in_string: false,
            escaped: false,
        }
    }

    pub(super) fn is_scalar(&self) -> bool {
        self.scalar
    }

    /// Scans to the end of the bytes; the end of the value if it is in them.
    pub(super) fn run(&mut self, bytes: &[u8]) -> Option<usize> {
        if !self.begun {
            match bytes.get(self.at)? {
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth = 1,
                _ => self.scalar = true,
            }
            self.begun = true;
            self.at += usize::from(!self.scalar);
        }
        let rest = bytes.get(self.at..)?;
        if self.scalar {
            let end = rest.iter().position(|byte| b",]} \t\r\n:{[\"".contains(byte));
            self.at += end.unwrap_or(rest.len());
            return end.map(|_| self.at);
        }
        let (blocks, tail) = rest.as_chunks::<BLOCK_BYTES>();
        for block in blocks {
            if let Some(end) = self.block(&Marks::of(block), BLOCK_BYTES) {
                return Some(self.at + end);
            }
            self.at += BLOCK_BYTES;
        }
        if !tail.is_empty() {
            let mut block = [b' '; BLOCK_BYTES];
            block[..tail.len()].copy_from_slice(tail);
            if let Some(end) = self.block(&Marks::of(&block), tail.len()) {
                return Some(self.at + end);
            }
            self.at += tail.len();
        }
        None
    }

    /// Scans one block; the end of the value in it.
    fn block(&mut self, marks: &Marks, length: usize) -> Option<usize> {
        let escaped = self.escapes(marks.backslashes, length);
        let quotes = marks.quotes & !escaped;
        if self.depth == 0 {
            // A string alone: it ends at the first quote.
            return (quotes != 0).then(|| quotes.trailing_zeros() as usize + 1);
        }
        let mut strings = parity(quotes);
        if self.in_string {
            strings = !strings;
        }
        self.in_string = strings >> (length - 1) & 1 == 1;
        let (opens, closes) = (marks.opens & !strings, marks.closes & !strings);
        if (closes.count_ones() as usize) < self.depth {
            self.depth = self.depth + opens.count_ones() as usize - closes.count_ones() as usize;
            return None;
        }
        let mut both = opens | closes;
        while both != 0 {
            let lowest = both & both.wrapping_neg();
            both ^= lowest;
            if opens & lowest != 0 {
                self.depth += 1;
            } else {
                self.depth -= 1;
                if self.depth == 0 {
                    return Some(lowest.trailing_zeros() as usize + 1);
                }
            }
        }
        None
    }

    /// The bytes of the block that follow an active backslash.
    fn escapes(&mut self, backslashes: u64, length: usize) -> u64 {
        let mut escaped = u64::from(self.escaped);
        self.escaped = false;
        let mut backslashes = backslashes & !escaped;
        while backslashes != 0 {
            let at = backslashes.trailing_zeros() as usize;
            let next = if at + 1 < BLOCK_BYTES { 1 << (at + 1) } else { 0 };
            if at + 1 >= length {
                self.escaped = true;
            }
            escaped |= next;
            backslashes &= !(1 << at | next);
        }
        escaped
    }
}

/// Bytes that are scanned together: one for each bit of a mask.
const BLOCK_BYTES: usize = 64;

/// The positions of the significant bytes in a block.
struct Marks {
    quotes: u64,
    backslashes: u64,
    opens: u64,
    closes: u64,
}

impl Marks {
    fn of(block: &[u8; BLOCK_BYTES]) -> Self {
        // Braces are brackets with the bit 0x20 set; no other byte becomes one by it.
        let folded = block.map(|byte| byte | 0x20);
        Self {
            quotes: positions(block, b'"'),
            backslashes: positions(block, b'\\'),
            opens: positions(&folded, b'{'),
            closes: positions(&folded, b'}'),
        }
    }
}

/// A bit for each byte of the block that equals this one.
fn positions(block: &[u8; BLOCK_BYTES], byte: u8) -> u64 {
    // The compiler turns this into wide instructions.
    let equal = block.map(|other| u8::from(other == byte));
    let (words, _) = equal.as_chunks::<8>();
    words.iter().rev().fold(0, |found, word| {
        // Gathers the lowest bits of the bytes into the highest byte, the first of them lowest.
        let bits = u64::from_le_bytes(*word).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        found << 8 | bits
    })
}

/// A bit for each position with an odd number of bits up to it.
const fn parity(mut bits: u64) -> u64 {
    bits ^= bits << 1;
    bits ^= bits << 2;
    bits ^= bits << 4;
    bits ^= bits << 8;
    bits ^= bits << 16;
    bits ^ (bits << 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_mark_the_positions_of_bytes() {
        for byte in 0..=255 {
            for at in 0..BLOCK_BYTES {
                let mut block = [b'x'; BLOCK_BYTES];
                block[at] = byte;
                let marks = Marks::of(&block);
                let bit = |is: bool| u64::from(is) << at;
                assert_eq!(marks.quotes, bit(byte == b'"'), "{byte}");
                assert_eq!(marks.backslashes, bit(byte == b'\\'), "{byte}");
                assert_eq!(marks.opens, bit(byte == b'{' || byte == b'['), "{byte}");
                assert_eq!(marks.closes, bit(byte == b'}' || byte == b']'), "{byte}");
            }
        }
        let all = Marks::of(&[b'"'; BLOCK_BYTES]);
        assert_eq!((all.quotes, all.opens), (u64::MAX, 0));
    }

    #[test]
    fn ends_equal_those_of_a_plain_scan_at_every_block_offset() {
        fn plain(bytes: &[u8]) -> Option<usize> {
            let (mut depth, mut in_string, mut at) = (0_u32, false, 0);
            while at < bytes.len() {
                match (in_string, bytes[at]) {
                    (true, b'\\') => at += 1,
                    (_, b'"') => in_string = !in_string,
                    (false, b'{' | b'[') => depth += 1,
                    (false, b'}' | b']') => {
                        depth -= 1;
                        if depth == 0 {
                            return Some(at + 1);
                        }
                    }
                    _ => {}
                }
                at += 1;
            }
            None
        }
        // A generator of texts with many quotes, escapes and brackets, from a fixed seed.
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed
        };
        for _ in 0..20_000 {
            let words = [
                "{",
                "[",
                "}",
                "]",
                "\"a\"",
                "\"]}\\\"\"",
                "\"\\\\\"",
                " ",
                "1234567890123",
                "\"\\\\\\\"{\"",
            ];
            let mut text = b"{".to_vec();
            for _ in 0..next() % 60 {
                text.extend_from_slice(words[(next() % words.len() as u64) as usize].as_bytes());
            }
            text.extend_from_slice(b"\"[\"}}}}");
            let cut = (next() % text.len() as u64) as usize;
            let mut scan = Scan::new(0);
            let found = scan.run(&text[..cut]).or_else(|| scan.run(&text));
            assert_eq!(found, plain(&text), "{}", String::from_utf8_lossy(&text));
        }
    }
}
