//! DELETE of one object, or of each of a collection: the finalizers of the garbage collector, and whether the
//! object is removed or only marked.

use std::{sync::Arc, time::Duration};

use kubegc_core::{
    Behavior, DefaultDeletion, DeleteOptions, KindId, KubernetesVersion, ObjectMeta, ResourceVersion,
    SharedMeta, Timestamp,
    deletion::{DeleteOptionsSpec, Propagation, finalizers_of_deletion, mark_terminating},
    version::behavior,
};

use super::{ApiServer, EventType, Key, Response, Special, crd, namespace, service};
use crate::{
    Filter, StoredObject,
    status::{self, RefusedBy, Result},
};

/// After a graceful update in the same request, the resourceVersion precondition is compared with the version
/// of this update.
const PRECONDITION_FOLLOWS_UPDATE: Behavior = Behavior::since(17, 0, "kubernetes #85516");
/// The object in the response to a finished deletion has the deletion's revision, not that of the last write.
const RESPONSES_SHOW_DELETION_REVISION: Behavior = Behavior::since(26, 0, "kubernetes #113369");
/// The `Status` in the response to a finished deletion has the deletion's revision too. Its place, the
/// metadata of the `Status`, is inferred from discussions of the change: no recording shows it.
const STATUSES_SHOW_DELETION_REVISION: Behavior = Behavior::since_about(38, "kubernetes #138724");

/// The deletion of a Job with the default policy returns a warning, because it orphans the pods.
const JOBS_WARN: Behavior = Behavior::since(23, 0, "kubernetes #104080");
const JOB_WARNING: &str = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background \
                           to remove them or set propagationPolicy=Orphan to suppress this warning";

/// The end of the grace period of a graceful deletion, its length in seconds, and whether the deletion
/// starts.
#[derive(Clone, Copy)]
struct Graceful(Timestamp, i64, bool);

/// A graceful deletion is in progress, and the request changes nothing.
struct Pending;

impl ApiServer {
    /// Deletes an object, with options as they were sent.
    ///
    /// # Upstream
    /// `Store.Delete` in `apiserver/pkg/registry/generic/registry/store.go`, 1.20.2.
    pub fn delete(
        &mut self,
        kind: KindId,
        namespace: &str,
        name: &str,
        options: &DeleteOptionsSpec,
    ) -> Response {
        self.kind(kind)
            .and_then(|_| valid(self.version, options))
            .map(|options| self.delete_with(kind, namespace, name, &options))
            .into()
    }

    /// Deletes an object, with validated options.
    pub fn delete_with(
        &mut self,
        kind: KindId,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Response {
        let mut response: Response = self.try_delete(Key::new(kind, namespace, name), options).into();
        let mut warnings = self.deletion_warnings(kind, options);
        warnings.append(&mut response.warnings);
        response.with(warnings)
    }

    /// The warnings of a DELETE of one object or a collection.
    pub(super) fn deletion_warnings(&self, kind: KindId, options: &DeleteOptions) -> Vec<String> {
        if self.shape.kinds.get(kind.index()).is_none() {
            return Vec::new();
        }
        let resource = self.resource(kind);
        let warns = options.propagation.is_none()
            && resource.default_deletion == DefaultDeletion::Orphan
            && (&*resource.group, &*resource.resource) == ("batch", "jobs")
            && self.version.has(JOBS_WARN);
        warns.then(|| JOB_WARNING.to_owned()).into_iter().collect()
    }

    pub(crate) fn try_delete(&mut self, key: Key<'_>, options: &DeleteOptions) -> Result<Response> {
        let special = self.kind(key.kind)?.special;
        if !self.resource(key.kind).verbs.delete {
            return Err(status::method_not_allowed(self.resource(key.kind), None));
        }
        let mut response = match special {
            Special::Namespace => namespace::delete(self, key, options)?,
            Special::CustomResourceDefinition => crd::delete(self, key, options)?,
            Special::Service => service::delete(self, key, options)?,
            Special::Pod | Special::None => self.delete_object(key, &mut options.clone())?,
        };
        // Only the legacy field gets status 202: clients that use policies do not expect it.
        if !response.is_removal
            && response.object().is_some()
            && options.propagation == Some(Propagation::OrphanDependents(false))
        {
            response.code = 202;
        }
        Ok(response)
    }

    /// Deletes one object of any kind. The options get the resulting grace period: a collection uses it for
    /// the next object.
    pub(super) fn delete_object(&mut self, key: Key<'_>, options: &mut DeleteOptions) -> Result<Response> {
        let (kind, existing) = (key.kind, self.existing(key)?);
        self.check_preconditions(kind, &existing.meta, options, false)?;
        let mut expected_version = self.expected_version(options).cloned();
        let Ok(graceful) = self.gracefulness(kind, &existing, &mut options.grace_period_seconds) else {
            return Ok(self.deleted(kind, existing));
        };
        let warnings = self.admit_deletion(kind, &existing, options.dry_run)?;
        let default = self.resource(kind).default_deletion;
        let finalizers = match self.settings.garbage_collection {
            true => finalizers_of_deletion(&existing.meta.finalizers, default, options.propagation),
            false => None,
        };
        let mut last = existing;
        if graceful.is_some() || finalizers.is_some() || !last.meta.finalizers.is_empty() {
            let mut meta = last.meta.clone();
            if let Some(finalizers) = finalizers {
                meta.finalizers = finalizers;
            }
            let stays = match graceful {
                Some(Graceful(deletion, seconds, is_first)) => {
                    meta.deletion_timestamp = Some(deletion);
                    meta.deletion_grace_period_seconds = Some(seconds);
                    if is_first && meta.generation > 0 {
                        meta.generation += 1;
                    }
                    last = self.store_meta(kind, last, meta, options.dry_run);
                    !last.meta.finalizers.is_empty() || seconds > 0
                }
                None if meta.finalizers.is_empty() => false,
                None => {
                    mark_terminating(&mut meta, self.now);
                    last = self.store_meta(kind, last, meta, options.dry_run);
                    true
                }
            };
            if stays {
                return Ok(Response::ok(last).with(warnings));
            }
            if let Some(version) = &mut expected_version
                && self.version.has(PRECONDITION_FOLLOWS_UPDATE)
            {
                // If nothing was stored in between, the server takes the version of an empty object here.
                let stored = graceful.map(|_| last.meta.resource_version.clone());
                *version = stored.unwrap_or_default();
            }
            if options.dry_run {
                return Ok(Response::ok(last).with(warnings).of_removal());
            }
        }
        if let Some(version) = expected_version
            && version != last.meta.resource_version
        {
            let why = format!(
                "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: \
                 Precondition failed: ResourceVersion in precondition: {version}, ResourceVersion in object meta: {}",
                self.storage_key(key),
                last.meta.resource_version
            );
            return Err(status::conflict(self.resource(kind), key.name, &why).by(RefusedBy::Conflict));
        }
        if !options.dry_run {
            let removed = self.remove(kind, &last);
            if self.version.has(RESPONSES_SHOW_DELETION_REVISION) {
                last = removed;
            }
        }
        Ok(self.deleted(kind, last).with(warnings).of_removal())
    }

    /// Checks the preconditions of a deletion. `is_marked`: whether the object is a namespace or definition
    /// that is only marked, whose errors have the wording of the storage layer.
    pub(super) fn check_preconditions(
        &self,
        kind: KindId,
        meta: &ObjectMeta,
        options: &DeleteOptions,
        is_marked: bool,
    ) -> Result<()> {
        let (expected, resource) = (&options.preconditions, self.resource(kind));
        let refuse = |what: &str, expected: &str, found: &str| {
            if is_marked {
                let why = format!(
                    "Precondition failed: {what} in precondition: {expected}, {what} in object meta: {found}"
                );
                return status::conflict(resource, &meta.name, &why);
            }
            let change = match what {
                "UID" => "deleted and then recreated",
                _ => "modified",
            };
            let why = format!(
                "the {what} in the precondition ({expected}) does not match the {what} in record ({found}). \
                 The object might have been {change}"
            );
            status::kind_conflict(self.version, resource, &meta.name, &why)
        };
        if let Some(uid) = expected.uid.as_ref().filter(|uid| **uid != meta.uid) {
            return Err(refuse("UID", &uid.text(), &meta.uid.text()));
        }
        match self.expected_version(options) {
            Some(version) if *version != meta.resource_version => {
                let (expected, found) = (version.as_str(), meta.resource_version.as_str());
                Err(refuse("ResourceVersion", expected, found).by(RefusedBy::Conflict))
            }
            _ => Ok(()),
        }
    }

    /// The resourceVersion that a deletion expects, in releases that compare it.
    fn expected_version<'o>(&self, options: &'o DeleteOptions) -> Option<&'o ResourceVersion> {
        let is_compared = self.version.has(behavior::RESOURCE_VERSION_PRECONDITION);
        options
            .preconditions
            .resource_version
            .as_ref()
            .filter(|_| is_compared)
    }

    /// The graceful deletion that a request starts or changes; `None` for a deletion that is not graceful.
    ///
    /// # Upstream
    /// `BeforeDelete` in `apiserver/pkg/registry/rest/delete.go`; `CheckGracefulDelete` in
    /// `pkg/registry/core/pod/strategy.go`, 1.20.2.
    fn gracefulness(
        &self,
        kind: KindId,
        object: &StoredObject,
        grace: &mut Option<i64>,
    ) -> Result<Option<Graceful>, Pending> {
        let negative_is_one = self.version.has(behavior::NEGATIVE_GRACE_IS_ONE);
        let settled = |seconds: i64| match negative_is_one && seconds < 0 {
            true => 1,
            false => seconds,
        };
        *grace = grace.map(settled);
        if self.special(kind) != Special::Pod {
            return Ok(None);
        }
        let meta = &object.meta;
        if let Some(end) = meta.deletion_timestamp {
            let stored = match meta.deletion_grace_period_seconds.map(settled) {
                None | Some(0) => return Ok(None),
                Some(stored) => stored,
            };
            let seconds = *grace.get_or_insert(stored);
            if seconds >= stored {
                return Err(Pending);
            }
            let deletion = later(later(end, stored.saturating_neg()), seconds);
            return Ok(Some(Graceful(deletion, seconds, false)));
        }
        let mut seconds = grace
            .or_else(|| object.at(&["spec", "terminationGracePeriodSeconds"])?.as_i64())
            .unwrap_or(0);
        let unscheduled = object.text_at(&["spec", "nodeName"]).is_empty();
        if unscheduled || matches!(object.text_at(&["status", "phase"]), "Succeeded" | "Failed") {
            seconds = 0;
        }
        let seconds = *grace.insert(settled(seconds));
        let deletion = later(self.now.truncate_to_secs(), seconds);
        Ok(Some(Graceful(deletion, seconds, true)))
    }

    /// Stores metadata if it changed.
    pub(super) fn store_meta(
        &mut self,
        kind: KindId,
        existing: Arc<StoredObject>,
        meta: SharedMeta,
        dry_run: bool,
    ) -> Arc<StoredObject> {
        if meta == existing.meta {
            return existing;
        }
        let object = StoredObject {
            meta,
            has_nil_bytes: false,
            ..StoredObject::clone(&existing)
        };
        self.store_marked(kind, object, dry_run)
    }

    fn store_marked(&mut self, kind: KindId, object: StoredObject, dry_run: bool) -> Arc<StoredObject> {
        match dry_run {
            true => Arc::new(object),
            false => self.commit(kind, object, EventType::Modified),
        }
    }

    /// Marks a namespace or a definition for deletion. `change` sets the fields of its kind.
    pub(super) fn mark(
        &mut self,
        kind: KindId,
        existing: &StoredObject,
        options: &DeleteOptions,
        change: impl FnOnce(&mut StoredObject),
    ) -> Result<Response> {
        let warnings = self.admit_deletion(kind, existing, options.dry_run)?;
        let mut object = existing.clone();
        object.meta.deletion_timestamp = Some(self.now.truncate_to_secs());
        change(&mut object);
        let object = self.store_marked(kind, object, options.dry_run);
        Ok(Response::ok(object).with(warnings))
    }

    /// The response to a deletion that is finished or in progress.
    fn deleted(&self, kind: KindId, object: Arc<StoredObject>) -> Response {
        let resource = self.resource(kind);
        if resource.delete_returns_object {
            return Response::ok(object);
        }
        let mut status = status::deleted(resource, &object.meta.name, &object.meta.uid);
        if self.version.has(STATUSES_SHOW_DELETION_REVISION) {
            status.resource_version = Some(object.meta.resource_version.clone());
        }
        status.into()
    }

    /// Deletes the objects of a resource in a namespace (in all of them without one) that match a filter.
    ///
    /// Preconditions apply to each object. The first refusal other than *not found* ends the deletion and is
    /// the response; the objects before it stay deleted. The response to a success is the list as it was
    /// read.
    ///
    /// # Upstream
    /// `Store.DeleteCollection` in `apiserver/pkg/registry/generic/registry/store.go`, 1.20.2, with one
    /// worker.
    pub fn delete_collection_with(
        &mut self,
        kind: KindId,
        namespace: Option<&str>,
        filter: &Filter,
        options: &DeleteOptions,
    ) -> Response {
        self.deletes_collections(kind)
            .and_then(|()| self.listed(kind, namespace, filter))
            .and_then(|list| self.delete_listed(kind, list, options))
            .into()
    }

    /// Deletes these objects of a kind, such as those of one page of a list, as
    /// [`delete_collection_with`](Self::delete_collection_with) does.
    pub fn delete_objects(
        &mut self,
        kind: KindId,
        objects: Vec<Arc<StoredObject>>,
        options: &DeleteOptionsSpec,
    ) -> Response {
        let list = Response::list(objects, self.revision);
        valid(self.version, options)
            .and_then(|options| self.delete_listed(kind, list, &options))
            .into()
    }

    fn deletes_collections(&self, kind: KindId) -> Result<()> {
        self.kind(kind)?;
        if self.resource(kind).verbs.delete_collection {
            return Ok(());
        }
        Err(status::method_not_allowed(self.resource(kind), None))
    }

    /// Deletes the objects of a list, and responds with it.
    fn delete_listed(&mut self, kind: KindId, list: Response, options: &DeleteOptions) -> Result<Response> {
        self.deletes_collections(kind)?;
        let each_its_own = self.version.has(behavior::COLLECTION_OPTIONS_ARE_COPIED);
        let mut warnings = self.deletion_warnings(kind, options);
        let mut each = options.clone();
        for object in list.items() {
            if each_its_own {
                each.grace_period_seconds = options.grace_period_seconds;
            }
            let key = Key::new(kind, &object.meta.namespace, &object.meta.name);
            match self.delete_object(key, &mut each) {
                Err(refusal) if refusal.code != 404 => return Err(refusal),
                Ok(response) => {
                    let mut new = response.warnings;
                    new.retain(|warning| !warnings.contains(warning));
                    warnings.append(&mut new);
                }
                // Deleted since the list was read.
                Err(_) => {}
            }
        }
        Ok(list.with(warnings))
    }
}

/// The options, if they are consistent.
pub(super) fn valid(version: KubernetesVersion, options: &DeleteOptionsSpec) -> Result<DeleteOptions> {
    options
        .validate()
        .map_err(|errors| status::invalid_delete_options(version, &errors))
}

fn later(time: Timestamp, seconds: i64) -> Timestamp {
    match u64::try_from(seconds) {
        Ok(seconds) => time.saturating_add(Duration::from_secs(seconds)),
        Err(_) => time.saturating_sub(Duration::from_secs(seconds.unsigned_abs())),
    }
}
