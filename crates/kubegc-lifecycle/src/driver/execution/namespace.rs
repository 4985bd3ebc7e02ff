//! Carries a visit to a deleted namespace out: asks what is served, reads, lists, deletes, and writes the namespace back.

use std::{collections::BTreeMap, sync::Arc};

use kubegc_core::{
    ApiResource, Catalog, DeleteOptions, ObjectMeta, Preconditions, StoreError, Timestamp, Uid,
    store::{Address, Discovered},
};

use super::{super::DocumentError, Deed, Hands, Progress, Request};
use crate::{
    controller::{Ended, Reason},
    namespace::{
        Action, Answer, Discovery, DiscoveryFailure, Ending, GroupVersionResource, Item, ListPurpose,
        Outcome, Pass, Settings, Step,
    },
    object::{Object, Resource, Wire},
};

/// A visit to one namespace.
#[derive(Clone, Debug)]
pub(super) struct Visiting {
    settings: Settings,
    failures: u32,
    began: Timestamp,
    /// The namespace; its uid is empty until it was read.
    object: Object,
    /// Begun once it is known what is served.
    pass: Option<Pass>,
    /// What is served, where that was asked for.
    discovered: Option<Arc<Discovered>>,
    /// The namespace as it was read last.
    document: Vec<u8>,
    /// The answer to the last step.
    answer: Option<Answer>,
}

impl Visiting {
    pub(super) fn new(settings: Settings, name: Arc<str>, failures: u32, began: Timestamp) -> Self {
        Self {
            settings,
            failures,
            began,
            object: Object {
                resource: Resource::Namespaces,
                namespace: "".into(),
                name,
                uid: Uid::new(""),
            },
            pass: None,
            discovered: None,
            document: Vec::new(),
            answer: None,
        }
    }

    /// Each turn takes one step of the visit.
    pub(super) async fn step(&mut self, hands: &Hands<'_>) -> Progress {
        loop {
            let mut pass = match self.pass.take() {
                Some(pass) => pass,
                None => self.begin(hands).await,
            };
            let step = pass.next(self.answer.take());
            self.pass = Some(pass);
            match step {
                Step::GetNamespace => self.answer = Some(self.read(hands).await),
                Step::List { resource, purpose } => {
                    let listed = self.list(hands, &resource, purpose).await;
                    self.answer = Some(listed.map_or_else(Answer::Failed, Answer::Items));
                }
                Step::Perform(action) => {
                    let result = self.perform(hands, &action).await;
                    self.answer = Some(match &result {
                        Ok(()) if matches!(action, Action::SetPhaseTerminating { .. }) => {
                            self.read(hands).await
                        }
                        Ok(()) => Answer::Done,
                        Err(error) => Answer::Failed(error.clone()),
                    });
                    return Progress::Made(Box::new(Deed {
                        request: Request::Namespace(action),
                        object: self.object.clone(),
                        reason: Reason::NamespaceTerminating,
                        result,
                    }));
                }
                Step::Done(outcome) => return Progress::over(ended(&outcome)),
            }
        }
    }

    /// Finds out what is served. A kind that came up since the last visit has to be emptied too.
    async fn begin(&mut self, hands: &Hands<'_>) -> Pass {
        let discovery = if hands.verifies {
            match hands.store.discover().await {
                Ok(discovered) => {
                    let discovery = discovery(&discovered);
                    self.discovered = Some(Arc::new(discovered));
                    discovery
                }
                Err(error) => Discovery {
                    failure: Some(DiscoveryFailure::Other(error.to_string())),
                    ..Discovery::default()
                },
            }
        } else {
            discovery(hands.discovered)
        };
        let name = &self.object.name;
        Pass::new(self.settings.clone(), name, discovery, self.failures, self.began)
    }

    async fn read(&mut self, hands: &Hands<'_>) -> Answer {
        let document = match self.address(hands) {
            Ok(address) => hands.store.get_object(address).await,
            Err(error) => Err(error),
        };
        let read = document.and_then(|document| {
            let namespace = hands.documents.read_namespace(&document);
            namespace
                .map(|namespace| (document, namespace))
                .map_err(unreadable)
        });
        match read {
            Ok((document, namespace)) => {
                self.object.uid = namespace.uid.clone();
                self.document = document;
                Answer::Namespace(namespace)
            }
            Err(error) => Answer::Failed(error),
        }
    }

    fn address<'a>(&'a self, hands: &Hands<'a>) -> Result<Address<'a>, StoreError> {
        Ok(Address {
            resource: hands.resources.find(Resource::Namespaces)?,
            namespace: "",
            name: &self.object.name,
        })
    }

    /// How a resource of the content is addressed.
    fn resource<'a>(
        &'a self,
        hands: &Hands<'a>,
        resource: &GroupVersionResource,
    ) -> Result<&'a ApiResource, StoreError> {
        let discovered = self.discovered.as_deref().unwrap_or(hands.discovered);
        let catalog: &Catalog = &discovered.catalog;
        let kind = catalog.by_resource(&resource.group, &resource.version, &resource.resource);
        // Not taken for "not served": the content would pass for gone.
        let kind = kind.ok_or_else(|| StoreError::Unknown {
            message: format!("{resource} was not discovered"),
        })?;
        Ok(&catalog[kind])
    }

    /// Lists metadata where that is enough, as upstream does.
    async fn list(
        &self,
        hands: &Hands<'_>,
        resource: &GroupVersionResource,
        purpose: ListPurpose,
    ) -> Result<Vec<Item>, StoreError> {
        let resource = self.resource(hands, resource)?;
        let namespace = Some(&*self.object.name);
        match purpose {
            ListPurpose::Estimate => {
                let documents = hands.store.list_objects(resource, namespace).await?;
                let items = documents
                    .items
                    .iter()
                    .map(|document| hands.documents.read_pod_item(document));
                items.collect::<Result<_, _>>().map_err(unreadable)
            }
            ListPurpose::DeleteEach | ListPurpose::Remainder => {
                let list = hands.store.list(resource, namespace).await?;
                Ok(list.items.into_iter().map(item).collect())
            }
        }
    }

    async fn perform(&self, hands: &Hands<'_>, action: &Action) -> Result<(), StoreError> {
        let options = action.delete_options().unwrap_or_default();
        match action {
            Action::SetPhaseTerminating { .. } | Action::UpdateConditions { .. } => {
                self.write(hands, action, "status").await
            }
            Action::Finalize { .. } => self.write(hands, action, "finalize").await,
            Action::DeleteCollection {
                resource, namespace, ..
            } => {
                let resource = self.resource(hands, resource)?;
                hands.store.delete_collection(resource, namespace, &options).await
            }
            Action::Delete {
                resource,
                namespace,
                name,
                expect,
                ..
            } => {
                let address = Address {
                    resource: self.resource(hands, resource)?,
                    namespace,
                    name,
                };
                let preconditions = match hands.wire {
                    Wire::AsUpstream => Preconditions::default(),
                    Wire::Strict => expect.clone(),
                };
                let options = DeleteOptions {
                    preconditions,
                    ..options
                };
                hands.store.delete(address, &options).await.map(|_| ())
            }
        }
    }

    async fn write(&self, hands: &Hands<'_>, action: &Action, subresource: &str) -> Result<(), StoreError> {
        let body = hands.documents.write_namespace(action, &self.document);
        let body = body.map_err(unreadable)?;
        let address = self.address(hands)?;
        let written = hands.store.replace_subresource(address, subresource, &body);
        written.await.map(|_| ())
    }
}

fn discovery(discovered: &Discovered) -> Discovery {
    let failed = &discovered.failed;
    let groups: BTreeMap<Arc<str>, String> = failed
        .iter()
        .map(|(group_version, message)| (group_version.as_str().into(), message.clone()))
        .collect();
    Discovery {
        failure: (!groups.is_empty()).then_some(DiscoveryFailure::Groups(groups)),
        ..Discovery::from(&discovered.catalog)
    }
}

fn item(meta: ObjectMeta) -> Item {
    Item {
        name: meta.name,
        uid: meta.uid,
        finalizers: meta.finalizers,
        pod: None,
    }
}

fn unreadable(error: DocumentError) -> StoreError {
    StoreError::Invalid {
        message: error.message,
    }
}

fn ended(outcome: &Outcome) -> Ended {
    match (outcome.ending, outcome.requeue_after) {
        (Ending::Failed, _) => Ended::Failed(StoreError::Unknown {
            message: outcome.error_text().unwrap_or_default(),
        }),
        (_, Some(after)) => Ended::Again(after),
        (_, None) => Ended::Done,
    }
}
