//! Sets of completion indexes, in the form of `status.completedIndexes` of a Job.

use std::fmt;

/// A set of completion indexes in increasing, separate ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Indexes(Vec<(i32, i32)>);

impl Indexes {
    /// Reads a text such as `1,3-5`. Ranges from `completions` on are left out, as upstream does; so is what
    /// follows an error.
    pub(super) fn parse(text: &str, completions: i32) -> Self {
        let mut ranges: Vec<(i32, i32)> = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (Ok(first), Ok(last)) = (first.parse::<i32>(), last.parse::<i32>()) else {
                break;
            };
            if first >= completions {
                break;
            }
            ranges.push((first, last.min(completions.saturating_sub(1))));
        }
        Self(ranges)
    }

    pub(super) fn total(&self) -> i32 {
        let size = |(first, last): &(i32, i32)| last.saturating_sub(*first).saturating_add(1);
        self.0.iter().map(size).fold(0, i32::saturating_add)
    }

    pub(super) fn has(&self, index: i32) -> bool {
        let after = self.0.partition_point(|(_, last)| *last < index);
        self.0.get(after).is_some_and(|(first, _)| *first <= index)
    }

    pub(super) fn extend(&mut self, new: impl IntoIterator<Item = i32>) {
        self.0.extend(new.into_iter().map(|index| (index, index)));
        self.0.sort_unstable();
        let mut merged: Vec<(i32, i32)> = Vec::with_capacity(self.0.len());
        for (first, last) in self.0.drain(..) {
            match merged.last_mut() {
                Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
                _ => merged.push((first, last)),
            }
        }
        self.0 = merged;
    }
}

impl fmt::Display for Indexes {
    /// Two neighbors are written with a comma, three or more with a dash.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (first, last)) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str(",")?;
            }
            match last.saturating_sub(*first) {
                0 => write!(f, "{first}")?,
                1 => write!(f, "{first},{last}")?,
                _ => write!(f, "{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Indexes;

    #[test]
    fn indexes_are_read_extended_and_written_as_upstream_does() {
        for (text, completions, new, written, total) in [
            ("", 10, vec![], "", 0),
            ("1,3-5", 10, vec![], "1,3-5", 4),
            ("1,3-5", 5, vec![], "1,3,4", 3),
            ("1,3-5,8", 5, vec![], "1,3,4", 3),
            ("1,3-5", 10, vec![2], "1-5", 5),
            ("0", 10, vec![9, 1, 1], "0,1,9", 3),
            ("a,1", 10, vec![], "", 0),
        ] {
            let mut indexes = Indexes::parse(text, completions);
            indexes.extend(new);
            assert_eq!(
                (indexes.to_string().as_str(), indexes.total()),
                (written, total),
                "{text}"
            );
        }
        let indexes = Indexes::parse("1,3-5", 10);
        let has: Vec<i32> = (0..7).filter(|index| indexes.has(*index)).collect();
        assert_eq!(has, [1, 3, 4, 5]);
    }
}
