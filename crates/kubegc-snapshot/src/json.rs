//! Finds and reads the objects in a stream of JSON, so that no document needs to fit in memory.
//!
//! A document is one object, a list with `items`, or a bare array of objects. Where an item of a list begins
//! follows from the item before it. `serde_json` reads most items from there, and so finds their end. Of the
//! others, the end is found by their braces and quotes alone; `serde_json` then gets exactly those bytes and
//! says what is wrong with them.

use std::io::Read;

pub(crate) use kubegc_documents::object::{first_object, whole_object};

use crate::window::{Window, WindowError};

/// A reason why a document could not be split.
#[derive(Debug)]
pub(crate) enum SplitError {
    Window(WindowError),
    /// The input ends inside the document.
    Truncated,
    /// The byte at this position of the window is not allowed there.
    Unexpected {
        at: usize,
        expected: &'static str,
    },
}

impl From<WindowError> for SplitError {
    fn from(error: WindowError) -> Self {
        Self::Window(error)
    }
}

/// The next piece of a document.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// An item of a list: it begins at the first byte of the window, and ends at [`value_end`].
    Item,
    /// A document without `items`: the first `length` bytes of the window.
    Whole { length: usize },
    /// The end of a list; the members other than `items` are in [`Splitter::rest`].
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

#[derive(Debug)]
pub(crate) struct Splitter {
    state: State,
    /// Whether the list is under `Items`.
    is_internal: bool,
    /// The members other than `items`, as one JSON object.
    rest: Vec<u8>,
    limit_bytes: usize,
}

impl Splitter {
    /// Begins at the first byte of the window, which is `{` or `[`.
    pub(crate) fn new(limit_bytes: usize) -> Self {
        Self {
            state: State::Start,
            is_internal: false,
            rest: Vec::new(),
            limit_bytes,
        }
    }

    /// The members other than `items`, as one JSON object; empty for a bare array.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.rest
    }

    /// Whether the items are under `Items`, as internal types are written.
    pub(crate) fn is_internal(&self) -> bool {
        self.is_internal
    }

    /// Whether the pieces so far were items of a list.
    pub(crate) fn is_list(&self) -> bool {
        matches!(self.state, State::Items { .. } | State::Tail)
    }

    /// The next piece. The caller consumes the bytes of an item or a whole document before the next call.
    pub(crate) fn next<R: Read>(&mut self, window: &mut Window<R>) -> Result<Option<Piece>, SplitError> {
        // Every iteration consumes bytes or changes the state forward, so the loop ends with the input.
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

    /// One member before `items`; the length of the document if it ends here.
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
        if member.is_items && member.is_list {
            self.is_internal = member.is_internal;
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
        // The bytes before the element are no longer needed, and the limit counts from the element.
        window.consume(at);
        if window.byte(0)?.ok_or(SplitError::Truncated)? == b']' {
            return unexpected(0, "an object after `,`");
        }
        self.state = State::Items { first: false, bare };
        Ok(Some(Piece::Item))
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
        if member.is_items {
            // The last one would count, and the objects of the first one are already read.
            return unexpected(at, "`items` only once");
        }
        let end = value_end(window, member.value)?;
        if self.rest.len() + (end - at) > self.limit_bytes {
            return Err(SplitError::Window(window.full()));
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
    /// Whether it is `items`, or `Items`.
    is_items: bool,
    is_internal: bool,
    is_list: bool,
}

impl Member {
    fn read<R: Read>(window: &mut Window<R>, at: usize) -> Result<Self, SplitError> {
        match window.byte(at)? {
            None => return Err(SplitError::Truncated),
            Some(b'"') => {}
            Some(_) => return unexpected(at, "a name in quotes"),
        }
        let name_end = value_end(window, at)?;
        let name = &window.bytes()[at..name_end];
        let is_internal = name == b"\"Items\"";
        let is_items = is_internal || name == b"\"items\"";
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
                is_items,
                is_internal,
                is_list: first == b'[',
            }),
        }
    }
}

/// The position of the next byte that is not white space, or the end.
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

/// The end of the value that begins at `at`, valid or not.
pub(crate) fn value_end<R: Read>(window: &mut Window<R>, at: usize) -> Result<usize, SplitError> {
    let (mut end, mut depth, mut in_string) = (at, 0_usize, false);
    let first = window.byte(at)?;
    let is_scalar = !matches!(first, Some(b'"' | b'{' | b'['));
    // Every iteration moves towards the end of the input.
    while let Some(byte) = window.byte(end)? {
        if is_scalar && b",]} \t\r\n:{[\"".contains(&byte) {
            return Ok(end);
        }
        end += 1;
        match byte {
            b'\\' if in_string => end += 1,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => depth += 1,
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => continue,
        }
        if depth == 0 && !in_string && !is_scalar {
            return Ok(end);
        }
    }
    // A bare number or word may end with the input; the parser judges it.
    match is_scalar && end > at {
        true => Ok(end),
        false => Err(SplitError::Truncated),
    }
}
