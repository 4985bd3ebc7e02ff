//! One sync over one namespace, in the order of upstream's `Delete`.

use kubegc_core::{ApiResource, PropagationPolicy, store::Discovered};

use super::{
    FINALIZER_KUBERNETES, NamespaceController, Remaining,
    content::{Content, refused},
    not_deleted,
};
use crate::{Request, prelude::*, sequence::done};

const FINALIZER_ESTIMATE_SECONDS: i64 = 15;

pub(super) struct Deleter {
    pub(super) settings: NamespaceController,
    pub(super) name: Arc<str>,
    pub(super) wire: Wire,
    pub(super) now: Timestamp,
    pub(super) port: Port,
}

/// A namespace as it was read, with every field that its deletion depends on.
struct Live {
    id: ObjectId,
    meta: SharedMeta,
    is_terminating: bool,
    finalizers: Vec<Arc<str>>,
    conditions: Vec<Condition>,
}

impl Live {
    fn new(record: Record) -> Result<Self, Missing> {
        let id = whole(Resource::Namespaces, &record)?;
        let namespace = id.body(&record, Record::namespace)?;
        Ok(Self {
            is_terminating: **id.read(&namespace.phase, "status.phase")? == *"Terminating",
            finalizers: id.read(&namespace.finalizers, "spec.finalizers")?.clone(),
            conditions: id.read(&namespace.conditions, "status.conditions")?.clone(),
            meta: record.meta,
            id,
        })
    }
}

impl Deleter {
    pub(super) async fn delete(self) -> Result<End, End> {
        let namespace = self.get().await?;
        let (namespace, deleted_at) = self.mark_terminating(namespace).await?;
        if namespace.finalizers.is_empty() {
            return Ok(End::Done);
        }
        let content = self.delete_all_content(deleted_at).await?;
        self.update_conditions(&namespace, &content).await;
        match content.end() {
            Some(end) => Ok(end),
            None => self.finalize(namespace).await,
        }
    }

    async fn get(&self) -> Result<Live, End> {
        let key = Key::cluster(Arc::clone(&self.name));
        let record = self.port.get(Resource::Namespaces, key).await.map_err(ended_by)?;
        Ok(Live::new(record)?)
    }

    /// Sets the phase if it is not `Terminating` yet. Returns the namespace and when its deletion was
    /// requested.
    async fn mark_terminating(&self, mut namespace: Live) -> Result<(Live, Timestamp), End> {
        let reason = Reason::new("NamespaceDeleted", "its deletion was requested");
        loop {
            let Some(deleted_at) = namespace.meta.deletion_timestamp else {
                return Err(End::Kept(not_deleted()));
            };
            if namespace.is_terminating {
                return Ok((namespace, deleted_at));
            }
            let phase = FieldChange::Phase("Terminating".into());
            match self.write(&namespace, "status", phase, reason.clone()).await {
                Ok(written) => {
                    // Without the new version, the writes that follow expect none.
                    namespace.meta.resource_version = "".into();
                    namespace.meta = written.unwrap_or(namespace.meta);
                    namespace.is_terminating = true;
                }
                Err(error) => namespace = self.reread(&namespace, error).await?,
            }
        }
    }

    /// Removes the finalizer. After the conditions were written, the first attempt fails with a conflict, as
    /// upstream's does.
    async fn finalize(&self, mut namespace: Live) -> Result<End, End> {
        let reason = Reason::new("ContentRemoved", "no content is left in the namespace");
        loop {
            let mut others = namespace.finalizers.clone();
            others.retain(|name| **name != *FINALIZER_KUBERNETES);
            others.sort_unstable();
            others.dedup();
            let finalizers = FieldChange::SpecFinalizers(others.clone());
            let written = self.write(&namespace, "finalize", finalizers, reason.clone());
            match written.await {
                Ok(_) if others.is_empty() => return Ok(End::Done),
                Ok(_) => {
                    let message = format!("waiting for finalizers {} in spec.finalizers", others.join(", "));
                    return Ok(End::Kept(Reason::new("OtherFinalizers", message)));
                }
                Err(error) => namespace = self.reread(&namespace, error).await?,
            }
        }
    }

    async fn write(
        &self,
        namespace: &Live,
        subresource: &'static str,
        change: FieldChange,
        reason: Reason,
    ) -> Result<Option<SharedMeta>, StoreError> {
        self.port.set_reason(reason);
        let precondition = self.wire.preconditions(&namespace.meta, Sent::ResourceVersion);
        let write = Write::update(&namespace.id, subresource, precondition, vec![change]);
        self.port.write(write).await
    }

    /// The namespace after a write that failed with a conflict. Every other error ends the sync.
    async fn reread(&self, before: &Live, error: StoreError) -> Result<Live, End> {
        if !matches!(error, StoreError::Conflict { .. }) {
            return Err(ended_by(error));
        }
        let after = self.get().await?;
        if after.id.uid != before.id.uid {
            let message = "namespace uid has changed across retries".to_owned();
            return Err(End::failed_by(message, true));
        }
        Ok(after)
    }

    /// Writes the conditions if they have changed. A failure has no effect.
    async fn update_conditions(&self, namespace: &Live, content: &Content) {
        if let Some(conditions) = content.conditions(&namespace.conditions, self.settings.version, self.now) {
            let reason = Reason::new("ConditionsChanged", "the progress of its deletion has changed");
            let conditions = FieldChange::Conditions(conditions);
            let _is_only_logged_upstream = self.write(namespace, "status", conditions, reason).await;
        }
    }

    async fn delete_all_content(&self, deleted_at: Timestamp) -> Result<Content, End> {
        let mut content = Content::default();
        let mut resources = match self.port.request::<Arc<Discovered>>(Request::Discover).await {
            Ok(discovered) => content.discovered(&discovered),
            Err(StoreError::Unlisted) => {
                return Err(Missing::outside("which resources are served").into());
            }
            Err(error) => {
                content.discovery_failed(refused(error), None);
                Vec::new()
            }
        };
        if !self.settings.follows_discovery_order {
            resources.sort_by(|a, b| {
                (&a.group, &a.version, &a.resource).cmp(&(&b.group, &b.version, &b.resource))
            });
        }
        let reason = Reason::new("NamespaceTerminating", "its namespace is terminating");
        self.port.set_reason(reason);
        let is_first = |resource: &Arc<ApiResource>| {
            self.settings.deletes_pods_first && is_pods(resource) && *resource.version == *"v1"
        };
        resources.sort_by_key(|resource| !is_first(resource));
        for resource in &resources {
            let mut remaining = Remaining::default();
            let result = self.delete_resource(resource, deleted_at, &mut remaining).await;
            if !is_first(resource) {
                content.add(remaining, result);
                continue;
            }
            content.add_first_pods(&self.name, remaining, result);
            if content.waits_for_pods || content.missing.is_some() {
                break;
            }
        }
        match content.missing.take() {
            Some(missing) => Err(missing.into()),
            None => Ok(content),
        }
    }

    /// Deletes the content of one resource and finds out what remains of it.
    async fn delete_resource(
        &self,
        resource: &Arc<ApiResource>,
        deleted_at: Timestamp,
        remaining: &mut Remaining,
    ) -> Result<(), End> {
        if is_pods(resource) {
            remaining.estimate_seconds = self.estimate_seconds(deleted_at).await?;
        }
        if !self.delete_collection(resource).await? {
            self.delete_each(resource).await?;
        }
        let Some(items) = self.list(resource).await? else {
            return Ok(());
        };
        if items.is_empty() {
            remaining.estimate_seconds = 0;
            return Ok(());
        }
        remaining
            .resources
            .push((Arc::clone(resource), items.len() as u64));
        for finalizer in items.iter().flat_map(|item| &item.finalizers) {
            *remaining.finalizers.entry(Arc::clone(finalizer)).or_default() += 1;
        }
        if remaining.estimate_seconds != 0 {
            return Ok(());
        }
        if remaining.finalizers.is_empty() {
            let name = &self.name;
            let gvr = format!(
                "{}/{}, Resource={}",
                resource.group, resource.version, resource.resource
            );
            let message = format!("unexpected items still remain in namespace: {name} for gvr: {gvr}");
            return Err(End::failed_by(message, true));
        }
        remaining.estimate_seconds = FINALIZER_ESTIMATE_SECONDS;
        Ok(())
    }

    /// The longest grace period of a pod that has not finished; 0 once it has passed since the deletion of
    /// the namespace.
    async fn estimate_seconds(&self, deleted_at: Timestamp) -> Result<i64, End> {
        let pods = self.port.list(Resource::Pods, &self.name).await;
        let pods = pods.map_err(|error| match error {
            // The API server's message for a list.
            StoreError::NotFound => End::failed_with(r#"pods "" not found"#.to_owned(), error, true),
            error => self.problem("pods", error),
        })?;
        let mut longest = 0;
        for pod in &pods {
            let (id, body) = read_as(Resource::Pods, pod, Record::pod)?;
            let phase = id.read(&body.phase, "status.phase")?;
            if !matches!(&**phase, "Succeeded" | "Failed") {
                let path = "spec.terminationGracePeriodSeconds";
                let grace = id.read(&body.termination_grace_period_seconds, path)?;
                longest = longest.max(grace.unwrap_or(0));
            }
        }
        let allowed = Duration::from_secs(u64::try_from(longest).unwrap_or(0));
        let has_passed = self.now.since(deleted_at) >= allowed;
        Ok(if has_passed { 0 } else { longest })
    }

    /// Deletes all objects of a resource at once. Returns whether that is supported.
    async fn delete_collection(&self, resource: &Arc<ApiResource>) -> Result<bool, End> {
        if !resource.verbs.delete_collection {
            return Ok(false);
        }
        let request = Request::DeleteCollection {
            resource: Arc::clone(resource),
            namespace: Arc::clone(&self.name),
            options: DeleteOptions::policy(PropagationPolicy::Background),
        };
        match done(self.port.send(request).await) {
            Err(StoreError::NotSupported { .. }) => Ok(false),
            result => Ok(self.supported(resource, result)?.is_some()),
        }
    }

    /// Deletes the objects of a resource one by one, up to the first error.
    async fn delete_each(&self, resource: &Arc<ApiResource>) -> Result<(), End> {
        for item in self.list(resource).await?.unwrap_or_default() {
            let options = DeleteOptions::policy(PropagationPolicy::Background);
            let options = self.wire.options(options, &item, Sent::Nothing);
            let request = Request::DeleteContent {
                resource: Arc::clone(resource),
                key: Key::new(Arc::clone(&self.name), Arc::clone(&item.name)),
                options,
            };
            self.supported(resource, done(self.port.send(request).await))?;
        }
        Ok(())
    }

    /// The metadata of the objects of a resource; `None` if lists are not supported.
    async fn list(&self, resource: &Arc<ApiResource>) -> Result<Option<Vec<SharedMeta>>, End> {
        if !resource.verbs.list {
            return Ok(None);
        }
        let request = Request::ListContent {
            resource: Arc::clone(resource),
            namespace: Arc::clone(&self.name),
        };
        self.supported(resource, self.port.request(request).await)
    }

    /// The result of a request; `None` if the server does not offer it.
    fn supported<T>(&self, resource: &ApiResource, result: Result<T, StoreError>) -> Result<Option<T>, End> {
        match result {
            Err(error) if is_unsupported(&error) => Ok(None),
            Err(error) => Err(self.problem(&resource.qualified_resource(), error)),
            Ok(content) => Ok(Some(content)),
        }
    }

    fn problem(&self, resource: &str, error: StoreError) -> End {
        match error {
            StoreError::Unlisted => End::Unknown(Missing::Outside {
                question: format!("which {resource} are in namespace {}", self.name).into(),
                message: "not listed".into(),
            }),
            error => refused(error),
        }
    }
}

/// The end of a sync after a request about the namespace itself failed.
fn ended_by(error: StoreError) -> End {
    match error {
        StoreError::NotFound => End::Done,
        error => refused(error),
    }
}

/// Returns whether the resource is that of pods, in any version: only they take time to terminate by
/// themselves.
fn is_pods(resource: &ApiResource) -> bool {
    resource.group.is_empty() && *resource.resource == *"pods"
}

/// Returns whether the server does not offer the request: 405, or 404 if the request names no object
/// (kubernetes
/// #22413). For an object, both count as deleted.
const fn is_unsupported(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::NotFound | StoreError::NoMapping { .. } | StoreError::Refused { code: 404 | 405, .. }
    )
}
