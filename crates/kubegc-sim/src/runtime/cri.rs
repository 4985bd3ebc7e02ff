//! CRI calls to a simulated node, with containerd's behaviour.

use std::sync::Arc;

use async_trait::async_trait;
use kubegc_core::{
    LogDirectory, PodSource, Runtime, RuntimeError,
    node_facts::{Container, ContainerStatus, FileSystem, Image, LogLink, Pods, Sandbox},
};

use super::{
    SimNode,
    call::{CallRecord, Operation},
};

/// Implements a trait by calls to a node: each method with its arguments, its result, its operation and
/// target, what is recorded with them, and its effect on the world.
macro_rules! calls {
    ($trait:ident for SimNode: $(
        $(#[$doc:meta])*
        $method:ident($($arg:ident: $ty:ty),*) -> $result:ty
            = $operation:ident($target:expr) $(with $field:ident $value:expr)? => |$world:ident| $effect:expr;
    )*) => {
        #[async_trait]
        impl $trait for SimNode {
            $(
                $(#[$doc])*
                async fn $method(&self, $($arg: $ty),*) -> Result<$result, RuntimeError> {
                    let call = CallRecord::new(Operation::$operation, $target);
                    $(let call = {
                        let mut call = call;
                        call.$field = $value;
                        call
                    };)?
                    self.perform(call, |$world| $effect)
                }
            )*
        }
    };
}

calls! {
    Runtime for SimNode:
    containers() -> Vec<Arc<Container>> = Containers("") => |world| Ok(world.listing(world.all_containers()));
    sandboxes() -> Vec<Arc<Sandbox>> = Sandboxes("") => |world| Ok(world.listing(world.sandboxes.clone()));
    images() -> Vec<Arc<Image>> = Images("") => |world| Ok(world.listing(world.all_images()));
    image_file_system() -> FileSystem = ImageFileSystem("") => |world| Ok(world.file_system());
    container_status(id: &str) -> Option<ContainerStatus> = ContainerStatus(id) => |world| {
        let row = world.container(id).ok_or(RuntimeError::NotFound)?;
        Ok(Some(ContainerStatus {
            state: row.facts.state,
            log_path: Arc::clone(&row.log_path),
            image_volumes: row.image_volumes.clone(),
        }))
    };
    image_id(reference: &str) -> Option<Arc<str>> = ImageId(reference) => |world| {
        Ok(world.any_image(reference).map(|row| Arc::clone(&row.facts.id)))
    };
    stop_container(id: &str, grace_seconds: u32) -> ()
        = StopContainer(id) with grace_seconds grace_seconds => |world| {
            world.stop_container(id);
            Ok(())
        };
    remove_container(id: &str) -> () = RemoveContainer(id) => |world| {
        world.containers.retain(|row| *row.facts.id != *id);
        Ok(())
    };
    stop_sandbox(id: &str) -> () = StopSandbox(id) => |world| {
        world.stop_sandbox(id);
        Ok(())
    };
    remove_sandbox(id: &str) -> () = RemoveSandbox(id) => |world| {
        world.sandboxes.retain(|sandbox| *sandbox.id != *id);
        world.containers.retain(|row| *row.facts.sandbox_id != *id);
        Ok(())
    };
    /// `id` may also be a tag or a digest: the image is removed with all its names.
    remove_image(id: &str, runtime_handler: &str) -> ()
        = RemoveImage(id) with runtime_handler runtime_handler.into() => |world| {
            if let Some(at) = world.image_place(id, runtime_handler) {
                world.images.remove(at);
            }
            Ok(())
        };
}

calls! {
    LogDirectory for SimNode:
    pod_entries() -> Vec<Arc<str>> = PodEntries("") => |world| {
        Ok(world.logs.entries.iter().cloned().collect())
    };
    container_links() -> Vec<LogLink> = ContainerLinks("") => |world| Ok(world.logs.listed_links());
    /// A missing entry is not an error. A name that leads out of the directory is refused.
    remove_pod_entry(entry: &str) -> () = RemovePodEntry(entry) => |world| {
        if entry.contains('/') || matches!(entry, "" | "." | "..") {
            return Err(RuntimeError::refused(format!("{entry:?} is not a name")));
        }
        world.logs.remove_entry(entry);
        Ok(())
    };
    /// A missing link is [`RuntimeError::NotFound`], as in a file system.
    remove_container_link(path: &str) -> () = RemoveContainerLink(path) => |world| {
        let removed = world.logs.links.remove(path);
        removed.map(drop).ok_or(RuntimeError::NotFound)
    };
    remove_container_logs(log_path: &str) -> () = RemoveContainerLogs(log_path) => |world| {
        world.logs.remove_files(log_path);
        Ok(())
    };
}

calls! {
    PodSource for SimNode:
    pods() -> Pods = Pods("") => |world| Ok(world.pods.clone());
}
