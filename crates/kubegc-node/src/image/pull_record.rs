//! Prunes pull records after images were removed to free space ([N3.48](crate::rules#n3-48),
//! [N3.49](crate::rules#n3-49)).
//!
//! From 1.33 a kubelet can record which images it pulled with which secrets. After it freed space, it deletes
//! the older records of all images except those that the run *considered and kept*. A run does not consider
//! images in use, so their records are deleted too. The next pod with such an image must verify its access
//! again. [`Pruning::Strict`] keeps those records.
//!
//! # Upstream
//! `PruneUnknownRecords` in
//! [`pkg/kubelet/images/pullmanager/image_pull_manager.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/kubelet/images/pullmanager/image_pull_manager.go),
//! which runs if the feature gate `KubeletEnsureSecretPulledImages` is on.

use std::{collections::BTreeSet, sync::Arc};

use kubegc_core::{Kept, Timestamp};

use super::{Hook, Record, Records};

/// A record that an image was pulled.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PullRecord {
    /// The id of the image, as listed by the runtime.
    pub image_ref: Arc<str>,
    /// The time at which the record was last written.
    pub last_updated: Timestamp,
}

/// The pull records that are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Pruning {
    /// Those of images that the run considered and kept.
    AsUpstream,
    /// Those of all images that still exist.
    #[default]
    Strict,
}

kubegc_core::reasons! {
    /// The reason why a record is kept.
    #[derive(Copy)]
    pub enum PullRecordKept {
        WrittenSince = "written since the run started";
        ConsideredAndKept = "its image was considered and kept";
        /// Upstream deletes the record.
        ImageExists = "its image still exists";
    }
}

impl Hook {
    /// Returns the pull records to delete, and the kept ones with their reasons, each in the given order.
    /// `images` are the image records after the run.
    ///
    /// # Complexity
    /// `O(r log n)` for `r` records and `n` images.
    #[must_use]
    pub fn prune(
        &self,
        records: &[PullRecord],
        images: &Records,
        pruning: Pruning,
    ) -> (Vec<PullRecord>, Vec<Kept<PullRecord, PullRecordKept>>) {
        let remaining: BTreeSet<&str> = self.remaining.iter().map(|id| &**id).collect();
        let existing: BTreeSet<&str> = images.iter().map(Record::id).collect();
        let (mut deleted, mut kept) = (Vec::new(), Vec::new());
        for record in records {
            let reason = if record.last_updated >= self.began_at {
                PullRecordKept::WrittenSince
            } else if remaining.contains(&*record.image_ref) {
                PullRecordKept::ConsideredAndKept
            } else if pruning == Pruning::Strict && existing.contains(&*record.image_ref) {
                PullRecordKept::ImageExists
            } else {
                deleted.push(record.clone());
                continue;
            };
            kept.push(Kept {
                object: record.clone(),
                reason,
            });
        }
        (deleted, kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n3_49_records_are_deleted_unless_they_are_new_or_their_image_was_kept() {
        let hook = Hook {
            remaining: vec!["left".into()],
            began_at: Timestamp::from_secs(100),
        };
        let existing = ["left", "used"].map(|key| Record {
            key: key.into(),
            first_detected: None,
            last_used: None,
            size_bytes: 1,
            pinned: false,
            runtime_handler: Arc::default(),
        });
        let images = Records::from_iter(existing);
        for (image_ref, seconds, upstream, strict) in [
            ("removed", 99, None, None),
            (
                "removed",
                100,
                Some(PullRecordKept::WrittenSince),
                Some(PullRecordKept::WrittenSince),
            ),
            (
                "left",
                99,
                Some(PullRecordKept::ConsideredAndKept),
                Some(PullRecordKept::ConsideredAndKept),
            ),
            ("used", 99, None, Some(PullRecordKept::ImageExists)),
            (
                "used",
                101,
                Some(PullRecordKept::WrittenSince),
                Some(PullRecordKept::WrittenSince),
            ),
        ] {
            let record = PullRecord {
                image_ref: image_ref.into(),
                last_updated: Timestamp::from_secs(seconds),
            };
            for (pruning, expected) in [(Pruning::AsUpstream, upstream), (Pruning::Strict, strict)] {
                let (deleted, kept) = hook.prune(std::slice::from_ref(&record), &images, pruning);
                assert_eq!(
                    kept.first().map(|kept| kept.reason),
                    expected,
                    "{image_ref} {seconds} {pruning:?}"
                );
                assert_eq!(deleted.len() + kept.len(), 1);
            }
        }
    }
}
