//! Texts in one line.

/// The bytes of a text with the escapes `\n`, `\r`, `\0`, `\\` and `\xff`. Others, such as those of JSON, stay.
pub(crate) fn unescaped(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        let escaped = if letter == '\\' { letters.next() } else { None };
        match escaped {
            None => bytes.extend(letter.encode_utf8(&mut [0; 4]).bytes()),
            Some('n') => bytes.push(b'\n'),
            Some('r') => bytes.push(b'\r'),
            Some('0') => bytes.push(0),
            Some('x') => {
                let digits: String = letters.by_ref().take(2).collect();
                bytes.push(u8::from_str_radix(&digits, 16).expect("two digits"));
            }
            Some('\\') => bytes.push(b'\\'),
            Some(other) => bytes.extend(format!("\\{other}").bytes()),
        }
    }
    bytes
}
