//! Finds the objects in a stream of JSON by their braces and quotes alone, so that no document needs to fit in memory.
//!
//! Only the extent of each value is decided here; whether it is valid JSON is decided by the parser that then gets exactly
//! those bytes. A document is one object, a list with `items`, or a bare array of objects.

use std::io::Read;

use crate::window::{Window, WindowError};

/// Why a document could not be split.
#[derive(Debug)]
pub(crate) enum SplitError {
    /// The window failed.
    Window(WindowError),
    /// The input ends inside the document.
    Truncated,
    /// The byte at this position of the window cannot stand there.
    Unexpected { at: usize, expected: &'static str },
}

impl From<WindowError> for SplitError {
    fn from(error: WindowError) -> Self {
        Self::Window(error)
    }
}

/// What comes next of a document.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// An item of a list: the first `length` bytes of the window.
    Item { length: usize },
    /// A document without `items`: the first `length` bytes of the window.
    Whole { length: usize },
    /// The end of a list; what stood beside `items` is in [`Splitter::rest`].
    ListEnd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before the document.
    Start,
    /// Among the members, before `items` was seen: the window still holds the whole document.
    Head { at: usize, members: bool },
    /// Inside `items`, before an element.
    Items { first: bool, bare: bool },
    /// Among the members after `items`.
    Tail,
    /// Behind the document.
    End,
}

/// Splits one document.
#[derive(Debug)]
pub(crate) struct Splitter {
    state: State,
    /// The members beside `items`, as one JSON object.
    rest: Vec<u8>,
    limit_bytes: usize,
}

impl Splitter {
    /// Begins at the first byte of the window, which is `{` or `[`.
    pub(crate) fn new(limit_bytes: usize) -> Self {
        Self {
            state: State::Start,
            rest: Vec::new(),
            limit_bytes,
        }
    }

    /// The members beside `items`, as one JSON object; empty for a bare array.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.rest
    }

    /// Whether the pieces so far were items of a list.
    pub(crate) fn is_list(&self) -> bool {
        matches!(self.state, State::Items { .. } | State::Tail)
    }

    /// The next piece. The caller consumes the bytes of an item or a whole document before it asks again.
    pub(crate) fn next<R: Read>(&mut self, window: &mut Window<R>) -> Result<Option<Piece>, SplitError> {
        // Every turn consumes bytes or changes the state forward, so the loop ends with the input.
        loop {
            match self.state {
                State::Start => {
                    self.state = if window.byte(0)? == Some(b'[') {
                        window.consume(1);
                        State::Items {
                            first: true,
                            bare: true,
                        }
                    } else {
                        State::Head {
                            at: 1,
                            members: false,
                        }
                    };
                }
                State::Head { at, members } => {
                    if let Some(length) = self.head(window, at, members)? {
                        self.state = State::End;
                        return Ok(Some(Piece::Whole { length }));
                    }
                }
                State::Items { first, bare } => {
                    if let Some(piece) = self.element(window, first, bare)? {
                        return Ok(Some(piece));
                    }
                }
                State::Tail => {
                    self.tail(window)?;
                    if self.state == State::End {
                        return Ok(Some(Piece::ListEnd));
                    }
                }
                State::End => return Ok(None),
            }
        }
    }

    /// One member before `items`; the length of the document where it ends here.
    fn head<R: Read>(
        &mut self,
        window: &mut Window<R>,
        at: usize,
        members: bool,
    ) -> Result<Option<usize>, SplitError> {
        let mut at = skip_space(window, at)?;
        match window.byte(at)?.ok_or(SplitError::Truncated)? {
            b'}' => return Ok(Some(at + 1)),
            b',' if members => at = skip_space(window, at + 1)?,
            _ if members => return unexpected(at, "`,` or `}`"),
            _ => {}
        }
        let member = Member::read(window, at)?;
        if member.is_items {
            let head = &window.bytes()[1..at];
            let head = head.trim_ascii_end();
            self.rest.push(b'{');
            self.rest
                .extend_from_slice(head.strip_suffix(b",").unwrap_or(head));
            window.consume(member.value + 1);
            self.state = State::Items {
                first: true,
                bare: false,
            };
            return Ok(None);
        }
        self.state = State::Head {
            at: value_end(window, member.value)?,
            members: true,
        };
        Ok(None)
    }

    /// One element of `items`, or its end.
    fn element<R: Read>(
        &mut self,
        window: &mut Window<R>,
        first: bool,
        bare: bool,
    ) -> Result<Option<Piece>, SplitError> {
        let mut at = skip_space(window, 0)?;
        match window.byte(at)?.ok_or(SplitError::Truncated)? {
            b']' => {
                window.consume(at + 1);
                self.state = if bare { State::End } else { State::Tail };
                return Ok(bare.then_some(Piece::ListEnd));
            }
            b',' if !first => at = skip_space(window, at + 1)?,
            _ if !first => return unexpected(at, "`,` or `]`"),
            _ => {}
        }
        // What stands before the element is of no more use, and the limit counts from the element.
        window.consume(at);
        if window.byte(0)?.ok_or(SplitError::Truncated)? == b']' {
            return unexpected(0, "an object after `,`");
        }
        let length = value_end(window, 0)?;
        self.state = State::Items { first: false, bare };
        Ok(Some(Piece::Item { length }))
    }

    /// One member after `items`, or the end of the document.
    fn tail<R: Read>(&mut self, window: &mut Window<R>) -> Result<(), SplitError> {
        let mut at = skip_space(window, 0)?;
        match window.byte(at)?.ok_or(SplitError::Truncated)? {
            b'}' => {
                window.consume(at + 1);
                self.rest.push(b'}');
                self.state = State::End;
                return Ok(());
            }
            b',' => at = skip_space(window, at + 1)?,
            _ => return unexpected(at, "`,` or `}`"),
        }
        let member = Member::read(window, at)?;
        let end = value_end(window, member.value)?;
        if self.rest.len() + (end - at) > self.limit_bytes {
            return Err(SplitError::Window(WindowError::Full));
        }
        if self.rest.len() > 1 {
            self.rest.push(b',');
        }
        self.rest.extend_from_slice(&window.bytes()[at..end]);
        window.consume(end);
        Ok(())
    }
}

fn unexpected<T>(at: usize, expected: &'static str) -> Result<T, SplitError> {
    Err(SplitError::Unexpected { at, expected })
}

/// The name of a member, and where its value begins.
struct Member {
    value: usize,
    /// Whether it is `items` with a list in it.
    is_items: bool,
}

impl Member {
    fn read<R: Read>(window: &mut Window<R>, at: usize) -> Result<Self, SplitError> {
        match window.byte(at)? {
            None => return Err(SplitError::Truncated),
            Some(b'"') => {}
            Some(_) => return unexpected(at, "a name in quotes"),
        }
        let name_end = value_end(window, at)?;
        let is_items = &window.bytes()[at..name_end] == b"\"items\"";
        let colon = skip_space(window, name_end)?;
        match window.byte(colon)? {
            None => return Err(SplitError::Truncated),
            Some(b':') => {}
            Some(_) => return unexpected(colon, "`:`"),
        }
        let value = skip_space(window, colon + 1)?;
        match window.byte(value)? {
            None => Err(SplitError::Truncated),
            Some(b',' | b'}' | b']' | b':') => unexpected(value, "a value"),
            Some(first) => Ok(Self {
                value,
                is_items: is_items && first == b'[',
            }),
        }
    }
}

/// The position of the next byte that is no white space, or the end.
pub(crate) fn skip_space<R: Read>(window: &mut Window<R>, mut at: usize) -> Result<usize, WindowError> {
    loop {
        let bytes = window.bytes();
        if let Some(found) = bytes
            .get(at..)
            .and_then(|rest| rest.iter().position(|byte| !b" \t\r\n".contains(byte)))
        {
            return Ok(at + found);
        }
        at = bytes.len().max(at);
        if !window.fill()? {
            return Ok(at);
        }
    }
}

/// Where the value that begins at `at` ends.
fn value_end<R: Read>(window: &mut Window<R>, at: usize) -> Result<usize, SplitError> {
    let mut scan = Scan::new(at);
    loop {
        if let Some(end) = scan.run(window.bytes()) {
            return Ok(end);
        }
        if !window.fill()? {
            // A bare number or word may end with the input; the parser judges it.
            return if scan.is_scalar() && scan.at > at {
                Ok(scan.at)
            } else {
                Err(SplitError::Truncated)
            };
        }
    }
}

/// Finds the end of one value, over as many looks at the window as it takes.
struct Scan {
    at: usize,
    begun: bool,
    scalar: bool,
    depth: usize,
    in_string: bool,
    /// Whether the next byte stands behind a backslash.
    escaped: bool,
}

impl Scan {
    fn new(at: usize) -> Self {
        Self {
            at,
            begun: false,
            scalar: false,
            depth: 0,
            in_string: false,
            escaped: false,
        }
    }

    fn is_scalar(&self) -> bool {
        self.scalar
    }

    /// Goes on to the end of the bytes; the end of the value where it is there.
    fn run(&mut self, bytes: &[u8]) -> Option<usize> {
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

    /// Goes over one block; where in it the value ends.
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

    /// Which bytes of the block stand behind a backslash that counts.
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

/// Bytes that are looked at together: one for each bit of a mask.
const BLOCK_BYTES: usize = 64;

/// Where in a block the bytes stand that matter.
struct Marks {
    quotes: u64,
    backslashes: u64,
    opens: u64,
    closes: u64,
}

impl Marks {
    fn of(block: &[u8; BLOCK_BYTES]) -> Self {
        let mut marks = Self {
            quotes: 0,
            backslashes: 0,
            opens: 0,
            closes: 0,
        };
        let (words, _) = block.as_chunks::<8>();
        for (index, word) in words.iter().enumerate() {
            let word = u64::from_le_bytes(*word);
            // Braces are brackets with the bit 0x20 set; no other byte becomes one by it.
            let folded = word | (LOW * 0x20);
            let shift = index * 8;
            marks.quotes |= equal(word, b'"') << shift;
            marks.backslashes |= equal(word, b'\\') << shift;
            marks.opens |= equal(folded, b'{') << shift;
            marks.closes |= equal(folded, b'}') << shift;
        }
        marks
    }
}

const LOW: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// A bit for each byte of the word that equals this one.
const fn equal(word: u64, byte: u8) -> u64 {
    let differences = word ^ (LOW * byte as u64);
    // The highest bit of each byte is clear where all eight bits are: seven by the sum, which never carries over, one directly.
    let zeros = !(((differences & !HIGH) + !HIGH) | differences) & HIGH;
    // Gathers the highest bits of the bytes into the highest byte, the first of them lowest.
    (zeros >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
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

    fn pieces(text: &str, step: usize) -> Vec<String> {
        struct Steps<'a>(&'a [u8], usize);
        impl Read for Steps<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
                let count = self.1.min(self.0.len()).min(buffer.len());
                buffer[..count].copy_from_slice(&self.0[..count]);
                self.0 = &self.0[count..];
                Ok(count)
            }
        }
        let mut window = Window::new(Steps(text.as_bytes(), step), 1 << 20);
        let mut splitter = Splitter::new(1 << 20);
        let mut got = Vec::new();
        loop {
            match splitter.next(&mut window) {
                Ok(None) => return got,
                Ok(Some(Piece::Item { length } | Piece::Whole { length })) => {
                    got.push(String::from_utf8_lossy(&window.bytes()[..length]).into_owned());
                    window.consume(length);
                }
                Ok(Some(Piece::ListEnd)) => {
                    got.push(format!("rest {}", String::from_utf8_lossy(splitter.rest())));
                }
                Err(error) => {
                    got.push(format!("{error:?}"));
                    return got;
                }
            }
        }
    }

    #[test]
    fn documents_are_split_the_same_however_the_bytes_arrive() {
        let cases: &[(&str, &[&str])] = &[
            (r#"{"a":1}"#, &[r#"{"a":1}"#]),
            (r#"{}"#, &["{}"]),
            (r#"{"items":[]}"#, &["rest {}"]),
            (
                r#"{ "apiVersion": "v1", "items": [ {"a":"]}\"\\"} , {"b":[{}]} ], "kind": "List" }"#,
                &[
                    r#"{"a":"]}\"\\"}"#,
                    r#"{"b":[{}]}"#,
                    r#"rest { "apiVersion": "v1","kind": "List"}"#,
                ],
            ),
            (r#"[{"a":1},2 ,"x"]"#, &[r#"{"a":1}"#, "2", r#""x""#, "rest "]),
            (r#"{"items":{"a":1}}"#, &[r#"{"items":{"a":1}}"#]),
            (r#"{"items":[{}"#, &["{}", "Truncated"]),
            (
                r#"{"items":[{]}"#,
                &["{]", "Unexpected { at: 0, expected: \"`,` or `]`\" }"],
            ),
            (
                r#"{"a":1 "b":2}"#,
                &["Unexpected { at: 7, expected: \"`,` or `}`\" }"],
            ),
            (r#"{"a":}"#, &["Unexpected { at: 5, expected: \"a value\" }"]),
            (r#"{"a" 1}"#, &["Unexpected { at: 5, expected: \"`:`\" }"]),
            (
                r#"{a:1}"#,
                &["Unexpected { at: 1, expected: \"a name in quotes\" }"],
            ),
            (r#"{"a":"\"#, &["Truncated"]),
            (
                r#"{"items":[{},]}"#,
                &["{}", "Unexpected { at: 0, expected: \"an object after `,`\" }"],
            ),
        ];
        for (text, expected) in cases {
            for step in [1, 2, 3, 7, 1000] {
                assert_eq!(pieces(text, step), *expected, "{text} by {step}");
            }
        }
    }

    #[test]
    fn marks_stand_where_the_bytes_do() {
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
    fn ends_are_those_of_a_plain_scan_wherever_the_blocks_lie() {
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
