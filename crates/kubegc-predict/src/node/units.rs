//! Times and names as people read them: short, and of a width that tables can count on.

use std::time::Duration;

use kubegc_core::{Timestamp, node_facts::Image};

/// A length of time in its largest unit.
pub(super) fn length(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3_600 => format!("{} min", seconds / 60),
        seconds @ 3_600..172_800 => format!("{} h", seconds / 3_600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

/// A time before the present; `None` is never.
pub(super) fn ago(at: Option<Timestamp>, now: Timestamp) -> String {
    match at {
        None => "never".to_owned(),
        Some(at) if at > now => "in the future".to_owned(),
        Some(at) => format!("{} ago", length(now.since(at))),
    }
}

/// The first twelve characters of an id, without the name of its digest.
pub(super) fn short(id: &str) -> &str {
    let id = id.strip_prefix("sha256:").unwrap_or(id);
    id.char_indices().nth(12).map_or(id, |(end, _)| &id[..end])
}

/// The name of an image; where it is known by a digest or its id alone, a short one.
pub(super) fn image_name(image: &Image) -> String {
    let name = image.name();
    match name.split_once("@sha256:") {
        Some((repository, digest)) => format!("{repository}@{}", short(digest)),
        None if name == &*image.id => short(name).to_owned(),
        None => name.to_owned(),
    }
}

/// A text of at most this many characters. A longer text is shortened in the middle, because its ends are
/// more distinctive.
pub(super) fn fit(text: &str, width: usize) -> String {
    let count = text.chars().count();
    if count <= width {
        return text.to_owned();
    }
    let kept = width.saturating_sub(1);
    let head: String = text.chars().take(kept / 2).collect();
    let tail: String = text.chars().skip(count - (kept - kept / 2)).collect();
    format!("{head}…{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_in_their_largest_unit() {
        let now = Timestamp::from_secs(1_000_000);
        let before = |seconds: i64| ago(Some(Timestamp::from_secs(1_000_000 - seconds)), now);
        let texts = ["0 s ago", "1 min ago", "2 h ago", "2 d ago", "in the future"];
        assert_eq!([0, 61, 7_200, 172_800, -1].map(before), texts);
        assert_eq!(ago(None, now), "never");
    }

    #[test]
    fn long_names_keep_their_ends() {
        assert_eq!(fit("abcdefgh", 8), "abcdefgh");
        assert_eq!(fit("abcdefghi", 8), "abc…fghi");
        assert_eq!(fit("äöüäöü", 4), "ä…öü");
        assert_eq!(fit("abc", 0), "…");
        assert_eq!(short("sha256:0123456789abcdef"), "0123456789ab");
    }
}
