//! What is under way for a resource, and what comes of it.

use std::{sync::Arc, task::Poll};

use futures_util::{future::BoxFuture, poll};
use kubegc_core::{
    ApiResource, Clock, ObjectMeta, ObjectStore, ResourceVersion, StoreError, Timestamp, WatchStream,
    store::WatchItem,
};

use super::{
    super::{Documents, Outside, Report},
    Key,
};
use crate::{
    controller::Input,
    object::{Resource, Wire},
};

/// How many changes are taken from a watch at once.
const ITEMS_AT_ONCE: usize = 256;

/// What is used by everything that is under way at the same time.
pub(in crate::driver) struct Tools {
    pub(in crate::driver) store: Arc<dyn ObjectStore>,
    pub(in crate::driver) clock: Arc<dyn Clock>,
    pub(in crate::driver) documents: Arc<dyn Documents>,
    pub(in crate::driver) outside: Arc<dyn Outside>,
    pub(in crate::driver) wire: Wire,
}

impl Tools {
    /// Waits where there is something to wait for.
    pub(in crate::driver) async fn wait(&self, at: Option<Timestamp>) {
        if let Some(at) = at {
            self.clock.sleep_until(at).await;
        }
    }
}

/// What came of something that was under way.
pub(in crate::driver) struct Step {
    pub(in crate::driver) resource: Resource,
    pub(super) epoch: u64,
    pub(super) kind: Kind,
}

pub(super) enum Kind {
    Opened(Result<Box<Opened>, StoreError>),
    Reopened(Result<Box<dyn WatchStream>, StoreError>),
    Items {
        items: Vec<WatchItem>,
        /// How the watch ended, if it did.
        ended: Option<Option<StoreError>>,
        stream: Box<dyn WatchStream>,
    },
    Read(Key, Result<Vec<u8>, StoreError>),
    Refreshed(Result<Vec<Vec<u8>>, StoreError>),
    /// It is time to go on, for an object that could not be read or for all.
    Retry(Option<Key>),
}

/// A resource that was listed and is watched.
pub(super) struct Opened {
    pub(super) metas: Vec<ObjectMeta>,
    pub(super) version: ResourceVersion,
    pub(super) stream: Box<dyn WatchStream>,
    /// The whole objects, where they matter.
    pub(super) documents: Option<Vec<Vec<u8>>>,
}

/// What is to be handed on, and what is to be begun.
#[derive(Default)]
pub(in crate::driver) struct Told {
    pub(in crate::driver) inputs: Vec<Input>,
    pub(in crate::driver) reports: Vec<Report>,
    pub(in crate::driver) work: Vec<BoxFuture<'static, Step>>,
    /// What is served must be asked for again.
    pub(in crate::driver) rediscovers: bool,
}

/// Lists and watches, in the order that misses nothing.
pub(super) async fn open(
    store: &dyn ObjectStore,
    api: &ApiResource,
    wants_documents: bool,
) -> Result<Opened, StoreError> {
    let list = store.list(api, None).await?;
    let stream = store.watch(api, &list.resource_version).await?;
    let documents = if wants_documents {
        Some(store.list_objects(api, None).await?.items)
    } else {
        None
    };
    Ok(Opened {
        metas: list.items,
        version: list.resource_version,
        stream,
        documents,
    })
}

/// Waits for a change, and takes those along that are there already.
pub(super) async fn read_some(mut stream: Box<dyn WatchStream>) -> Kind {
    let mut items = Vec::new();
    let mut next = stream.next().await;
    let ended = loop {
        match next {
            Some(Ok(item)) => items.push(item),
            Some(Err(error)) => break Some(Some(error)),
            None => break Some(None),
        }
        if items.len() >= ITEMS_AT_ONCE {
            break None;
        }
        next = match poll!(stream.next()) {
            Poll::Ready(next) => next,
            Poll::Pending => break None,
        };
    };
    Kind::Items { items, ended, stream }
}
