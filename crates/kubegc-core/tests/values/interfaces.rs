//! Default methods of the interfaces.

use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use async_trait::async_trait;

use kubegc_core::{
    ApiResource, Catalog, DeleteOptions, ObjectMeta, ObjectStore, PatchType, ResourceVersion, Runtime,
    RuntimeError, Scope, StoreError, WatchStream,
    deletion::Deleted,
    node_facts::{Container, ContainerStatus, FileSystem, Image, Sandbox},
    store::{Address, Discovered, MetaList},
};

/// Polls a future that never waits.
fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("nothing has to wait"),
    }
}

/// A store with one Pod that can only be listed.
struct OnlyLists;

#[async_trait]
impl ObjectStore for OnlyLists {
    async fn discover(&self) -> Result<Discovered, StoreError> {
        Ok(Catalog::new().into())
    }

    async fn get(&self, _: Address<'_>) -> Result<ObjectMeta, StoreError> {
        Err(StoreError::NotFound)
    }

    async fn list(&self, _: &ApiResource, namespace: Option<&str>) -> Result<MetaList, StoreError> {
        Ok(MetaList {
            items: vec![ObjectMeta::new(namespace.unwrap_or("all"), "web", "u1")],
            resource_version: "7".into(),
        })
    }

    async fn watch(&self, _: &ApiResource, _: &ResourceVersion) -> Result<Box<dyn WatchStream>, StoreError> {
        Err(StoreError::Expired)
    }

    async fn delete(&self, _: Address<'_>, _: &DeleteOptions) -> Result<Deleted, StoreError> {
        Err(StoreError::NotFound)
    }

    async fn patch(&self, _: Address<'_>, _: PatchType, _: &[u8]) -> Result<ObjectMeta, StoreError> {
        Err(StoreError::NotFound)
    }
}

#[test]
fn a_store_refuses_what_it_does_not_implement() {
    let store: &dyn ObjectStore = &OnlyLists;
    let pods = ApiResource::new("v1", "Pod", "pods", Scope::Namespaced);
    let version = ResourceVersion::from("7");
    let address = Address {
        resource: &pods,
        namespace: "shop",
        name: "web",
    };
    let listed = MetaList {
        items: vec![ObjectMeta::new("all", "web", "u1")],
        resource_version: version.clone(),
    };
    assert_eq!(ready(store.list_for_watch(&pods, &version)), Ok(listed));
    let json = PatchType::Json;
    for (error, operation) in [
        (
            ready(store.replace_finalizers(address, &version, &[])).err(),
            "replacing an object",
        ),
        (ready(store.get_object(address)).err(), "reading whole objects"),
        (
            ready(store.list_objects(&pods, None)).err(),
            "listing whole objects",
        ),
        (
            ready(store.watch_objects(&pods, &version)).err(),
            "watching whole objects",
        ),
        (
            ready(store.patch_subresource(address, "status", json, b"[]")).err(),
            "patching subresources",
        ),
        (
            ready(store.replace_subresource(address, "finalize", b"{}")).err(),
            "replacing subresources",
        ),
        (
            ready(store.delete_collection(&pods, "shop", &DeleteOptions::default())).err(),
            "deleting collections",
        ),
    ] {
        let error = error.expect(operation);
        assert_eq!(error, StoreError::NotSupported { operation });
        assert_eq!(
            error.to_string(),
            format!("{operation} is not supported by this store")
        );
    }
}

/// A runtime without containers.
struct Idle;

#[async_trait]
impl Runtime for Idle {
    async fn containers(&self) -> Result<Vec<Arc<Container>>, RuntimeError> {
        Ok(Vec::new())
    }

    async fn sandboxes(&self) -> Result<Vec<Arc<Sandbox>>, RuntimeError> {
        Ok(Vec::new())
    }

    async fn images(&self) -> Result<Vec<Arc<Image>>, RuntimeError> {
        Ok(Vec::new())
    }

    async fn image_file_system(&self) -> Result<FileSystem, RuntimeError> {
        Ok(FileSystem::default())
    }

    async fn container_status(&self, _: &str) -> Result<Option<ContainerStatus>, RuntimeError> {
        Ok(None)
    }

    async fn stop_container(&self, _: &str, _: u32) -> Result<(), RuntimeError> {
        Ok(())
    }

    async fn remove_container(&self, _: &str) -> Result<(), RuntimeError> {
        Ok(())
    }

    async fn stop_sandbox(&self, _: &str) -> Result<(), RuntimeError> {
        Ok(())
    }

    async fn remove_sandbox(&self, _: &str) -> Result<(), RuntimeError> {
        Ok(())
    }

    async fn remove_image(&self, _: &str, _: &str) -> Result<(), RuntimeError> {
        Ok(())
    }
}

#[test]
fn a_runtime_does_not_resolve_images_unless_it_implements_that() {
    let runtime: &dyn Runtime = &Idle;
    let error = ready(runtime.image_id("web:1")).expect_err("it is not implemented");
    assert_eq!(error.to_string(), "image_id is not supported by this runtime");
    let message = || "why".to_owned();
    assert_eq!(
        [RuntimeError::refused("why"), RuntimeError::unknown("why")],
        [
            RuntimeError::Refused { message: message() },
            RuntimeError::Unknown { message: message() }
        ]
    );
}
