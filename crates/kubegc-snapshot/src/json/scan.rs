//! Finds where one JSON value ends, by its quotes and brackets alone.

use super::plain::skip_to_stop;

/// Finds the end of one value, over as many reads of the window as necessary.
pub(super) struct Scan {
    pub(super) at: usize,
    begun: bool,
    scalar: bool,
    depth: usize,
    in_text: bool,
}

impl Scan {
    pub(super) fn new(at: usize) -> Self {
        Self {
            at,
            begun: false,
            scalar: false,
            depth: 0,
            in_text: false,
        }
    }

    pub(super) fn is_scalar(&self) -> bool {
        self.scalar
    }

    /// Scans to the end of the bytes; the end of the value if it is in them.
    pub(super) fn run(&mut self, bytes: &[u8]) -> Option<usize> {
        if !self.begun {
            match bytes.get(self.at)? {
                b'"' => self.in_text = true,
                b'{' | b'[' => self.depth = 1,
                _ => self.scalar = true,
            }
            self.begun = true;
            self.at += usize::from(!self.scalar);
        }
        if self.scalar {
            let rest = bytes.get(self.at..)?;
            let end = rest.iter().position(|byte| b",]} \t\r\n:{[\"".contains(byte));
            self.at += end.unwrap_or(rest.len());
            return end.map(|_| self.at);
        }
        loop {
            if self.in_text {
                let rest = bytes.get(self.at..)?;
                self.at = bytes.len() - skip_to_stop(rest).map_or(0, <[u8]>::len);
            }
            let byte = bytes.get(self.at)?;
            self.at += 1;
            match (byte, self.in_text) {
                (b'"', _) => self.in_text = !self.in_text,
                // The escaped byte may be in the next read.
                (b'\\', true) => self.at += 1,
                (b'{' | b'[', false) => self.depth += 1,
                (b'}' | b']', false) => self.depth -= 1,
                _ => {}
            }
            if self.depth == 0 && !self.in_text {
                return Some(self.at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_equal_those_of_a_plain_scan_wherever_the_bytes_are_cut() {
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
