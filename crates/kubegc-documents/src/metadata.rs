//! Stores the metadata of an object compactly, and reports its flaws.

use std::sync::Arc;

use kubegc_core::{
    OwnerReference, ResourceVersion, Timestamp, Uid,
    json::{OwnerFields, Soft, Text},
};

use crate::{
    details::{DetailFlaw, Flaw, Origin},
    item::Meta,
    store::{Extra, Record, Store},
};

/// The text that the redactors of troubleshoot.sh write. As a uid it would make different objects one.
const HIDDEN: &str = "***HIDDEN***";

fn unhidden<'t>(text: &'t Soft<Text<'_>>) -> &'t str {
    match text.as_str() {
        HIDDEN => "",
        text => text,
    }
}

fn is_hidden(text: &Soft<Text<'_>>) -> bool {
    text.as_str() == HIDDEN
}

/// The reason why a required text is missing.
fn missing(text: &Soft<Text<'_>>) -> String {
    let reason = if is_hidden(text) {
        "hidden by a redactor"
    } else {
        "missing"
    };
    reason.to_owned()
}

/// The source of an object of a dump: without uid and resourceVersion, the API server never stored it.
pub fn origin(meta: &Meta<'_>) -> Origin {
    match meta.uid.as_str().is_empty() && meta.resource_version.as_str().is_empty() {
        true => Origin::Manifest,
        false => Origin::Dump,
    }
}

impl Store {
    /// The record of an object's metadata, and its flaws. Missing uids of manifests are not flaws yet: they
    /// are assumed when all objects are known. The type, the place and the details are still to be set.
    pub fn record(
        &mut self,
        meta: &Meta<'_>,
        name: Arc<str>,
        origin: Origin,
        flaws: &mut Vec<DetailFlaw>,
    ) -> Record {
        let uid = Uid::new(unhidden(&meta.uid));
        if uid.is_empty() && origin != Origin::Manifest {
            let detail = missing(&meta.uid);
            flaws.push((Flaw::NoUid, "metadata.uid".to_owned(), detail));
        }
        let mut date = |text: &Soft<Text<'_>>, field: &str| {
            let text = text.get()?.as_str();
            let date = Timestamp::parse(text).ok();
            if date.is_none() {
                let field = format!("metadata.{field}");
                flaws.push((Flaw::BadField, field, format!("{text:?} is not a date")));
            }
            date
        };
        let created = date(&meta.creation_timestamp, "creationTimestamp");
        let extra = Extra {
            deletion_timestamp: date(&meta.deletion_timestamp, "deletionTimestamp"),
            deletion_grace_period_seconds: meta.deletion_grace_period_seconds.get().copied(),
            finalizers: self.finalizers(meta),
        };
        let extra = (extra != Extra::default()).then(|| extra.into());
        let owners = meta.owner_references.get().into_iter().flatten();
        let owners = owners.filter_map(Soft::get).enumerate();
        let owners: Vec<OwnerReference> = owners
            .map(|(index, owner)| self.owner(owner, index, origin, flaws))
            .collect();
        Record {
            name,
            uid,
            version: ResourceVersion::new(meta.resource_version.as_str()),
            generation: meta.generation.get().copied().unwrap_or(0),
            created,
            type_id: 0,
            namespace: self.texts.number(meta.namespace.as_str()),
            labels: self.labels(meta),
            owners: self.owner_lists.number(&*owners),
            extra,
            file: 0,
            document: 0,
            item: None,
            details: 0,
            ready_at: None,
            flawed: false,
            is_manifest: origin == Origin::Manifest,
            meta_flawed: false,
        }
    }

    fn finalizers(&mut self, meta: &Meta<'_>) -> Vec<Arc<str>> {
        let names = meta.finalizers.get().into_iter().flatten();
        let names = names.filter_map(Soft::get);
        names.map(|name| self.texts.share(name.as_str())).collect()
    }

    fn labels(&mut self, meta: &Meta<'_>) -> u32 {
        let mut labels = std::mem::take(&mut self.labels_scratch);
        labels.clear();
        for (key, value) in meta.labels.get().into_iter().flat_map(|labels| &labels.0) {
            if matches!(value, Soft::Wrong(_)) {
                continue;
            }
            let texts = &mut self.texts;
            labels.push((texts.number(key.as_str()), texts.number(value.as_str())));
        }
        // One order for equal sets, for any order in the document. Of equal keys the last one counts, as
        // in Go.
        labels.reverse();
        labels.sort_by_key(|&(key, _)| key);
        labels.dedup_by_key(|&mut (key, _)| key);
        let number = self.label_sets.number(&*labels);
        self.labels_scratch = labels;
        number
    }

    fn owner(
        &mut self,
        owner: &OwnerFields<'_>,
        index: usize,
        origin: Origin,
        flaws: &mut Vec<DetailFlaw>,
    ) -> OwnerReference {
        let fields = [
            ("apiVersion", &owner.api_version),
            ("kind", &owner.kind),
            ("name", &owner.name),
            ("uid", &owner.uid),
        ];
        for (field, text) in fields {
            let is_missing = unhidden(text).is_empty();
            let is_assumed_later = field == "uid" && origin != Origin::Whole && !is_hidden(text);
            if is_missing && !is_assumed_later {
                let field = format!("metadata.ownerReferences[{index}].{field}");
                flaws.push((Flaw::IncompleteOwner, field, missing(text)));
            }
        }
        let [api_version, kind, name, uid] = fields.map(|(_, text)| unhidden(text));
        let texts = &mut self.texts;
        OwnerReference {
            uid: Uid::new(uid),
            api_version: texts.share(api_version),
            kind: texts.share(kind),
            name: texts.share(name),
            controller: owner.controller.get().copied(),
            block_owner_deletion: owner.block_owner_deletion.get().copied(),
        }
    }
}
