//! A runtime wrapper that pins images, for runtimes that do not pin the images that they need.

use std::{collections::BTreeSet, sync::Arc};

use async_trait::async_trait;
use kubegc_core::{
    Runtime, RuntimeError,
    node_facts::{Container, ContainerStatus, FileSystem, Image, Sandbox},
};

/// The separator between the name of a repository and its digest.
const DIGEST_MARK: &str = "@sha256:";
/// The prefix of some ids.
const ID_MARK: &str = "sha256:";

/// A runtime in which images with given references are pinned.
///
/// Kubelets from 1.29 protect the image of sandboxes only if the runtime pins it ([N3.8](crate::rules#n3-8)),
/// and some runtimes do not (containerd 1.6). No container uses it, so the collector removes it, and the next
/// sandbox waits for a pull. On a node without a network it waits forever.
///
/// A reference matches an image if it is
/// - its full id, `sha256:e6f1…` or `e6f1…`: some runtimes list ids with the prefix (containerd), some
///   without (CRI-O);
/// - one of its tags or digests, exactly as the runtime lists them: `registry.k8s.io/pause:3.9`. Nothing is
///   completed: `pause` is not `docker.io/library/pause:latest`;
/// - the repository of one of its digests, followed by `@sha256:` alone: `registry.k8s.io/pause@sha256:` is
///   every image of that repository.
///
/// An image that is listed more than once, for several runtime handlers, is kept as a whole.
///
/// # Guarantees
/// [`images`](Runtime::images) lists such images as pinned, and changes nothing else.
/// [`remove_image`](Runtime::remove_image) refuses them, with its own listing: also if the collector's
/// version knows no pinned images (before 1.23), or if a tag has moved to the image since the plan. The image
/// can be requested by its id, the start of its id, a name as listed, or any text that the runtime
/// [resolves](Runtime::image_id) to the image; if a runtime resolves none, other texts pass. If the requested
/// image cannot be determined, nothing is removed. [`unmatched`](Self::unmatched) returns references that
/// match no image.
///
/// # Complexity
/// With `n` names of images and `k` references, `O(n log n + n log k)` for a listing. A removal costs one
/// more listing, and a status if it does not name a listed id.
///
/// # Examples
/// ```
/// use kubegc_node::driver::KeepImages;
/// let kept = KeepImages::new((), ["registry.k8s.io/pause:3.9", "registry.example/base@sha256:"]);
/// assert_eq!(kept.references().collect::<Vec<_>>(), ["registry.example/base@sha256:", "registry.k8s.io/pause:3.9"]);
/// ```
#[derive(Clone, Debug)]
pub struct KeepImages<R> {
    runtime: R,
    references: BTreeSet<Arc<str>>,
}

impl<R> KeepImages<R> {
    /// Keeps the images that match these references.
    #[must_use]
    pub fn new<T: Into<Arc<str>>>(runtime: R, references: impl IntoIterator<Item = T>) -> Self {
        Self {
            runtime,
            references: references.into_iter().map(Into::into).collect(),
        }
    }

    /// The wrapped runtime.
    #[must_use]
    pub const fn runtime(&self) -> &R {
        &self.runtime
    }

    /// The references, in the order of their texts.
    pub fn references(&self) -> impl Iterator<Item = &str> {
        self.references.iter().map(|reference| &**reference)
    }

    /// The references that match an image.
    fn of<'s>(&'s self, image: &'s Image) -> impl Iterator<Item = &'s Arc<str>> {
        let repositories = image.digests.iter().filter_map(|digest| {
            let end = digest.find(DIGEST_MARK)? + DIGEST_MARK.len();
            digest.get(..end)
        });
        let names = image.tags.iter().chain(&image.digests).map(|name| &**name);
        let bare = bare(&image.id);
        let marked = (!bare.is_empty()).then(|| self.references.get(&*format!("{ID_MARK}{bare}")));
        [bare]
            .into_iter()
            .chain(names)
            .chain(repositories)
            .filter_map(|name| self.references.get(name))
            .chain(marked.flatten())
    }
}

impl<R: Runtime> KeepImages<R> {
    /// The references that match no image now: misspelled, or not pulled yet. They protect an image as soon
    /// as it exists.
    ///
    /// # Errors
    /// The runtime does not list its images.
    pub async fn unmatched(&self) -> Result<Vec<Arc<str>>, RuntimeError> {
        let images = self.runtime.images().await?;
        let matched: BTreeSet<&Arc<str>> = images.iter().flat_map(|image| self.of(image)).collect();
        let unmatched = self.references.iter().filter(|one| !matched.contains(one));
        Ok(unmatched.cloned().collect())
    }

    /// Refuses an id that identifies a kept image.
    async fn check_removal(&self, id: &str) -> Result<(), RuntimeError> {
        if self.references.is_empty() {
            return Ok(());
        }
        let unknown = |error: RuntimeError| {
            RuntimeError::refused(format!(
                "image {id}: cannot determine whether it is kept: {error}"
            ))
        };
        let images = self.runtime.images().await.map_err(unknown)?;
        self.check_kept(id, &images, |image| means(id, image))?;
        if images.iter().any(|image| *image.id == *id) {
            return Ok(());
        }
        match self.runtime.image_id(id).await {
            Ok(None) | Err(RuntimeError::NotFound | RuntimeError::NotSupported { .. }) => Ok(()),
            Ok(Some(resolved)) => self.check_kept(id, &images, |image| bare(&image.id) == bare(&resolved)),
            Err(error) => Err(unknown(error)),
        }
    }

    /// Refuses an id that identifies one of these images, if one of them is kept.
    fn check_kept(
        &self,
        id: &str,
        images: &[Arc<Image>],
        is_meant: impl Fn(&Image) -> bool,
    ) -> Result<(), RuntimeError> {
        let meant: BTreeSet<&Arc<str>> = images
            .iter()
            .filter(|image| is_meant(image))
            .map(|image| &image.id)
            .collect();
        let of_meant = images.iter().filter(|image| meant.contains(&image.id));
        match of_meant.flat_map(|image| self.of(image)).next() {
            None => Ok(()),
            Some(reference) => Err(RuntimeError::refused(format!(
                "image {id} is kept by the reference {reference}"
            ))),
        }
    }
}

/// Returns whether a runtime may resolve this text to the image: one of its names, its id, or the start of
/// its id.
fn means(text: &str, image: &Image) -> bool {
    let mut names = image.tags.iter().chain(&image.digests);
    image.id.starts_with(text) || bare(&image.id).starts_with(bare(text)) || names.any(|name| **name == *text)
}

/// An id without its prefix.
fn bare(id: &str) -> &str {
    id.strip_prefix(ID_MARK).unwrap_or(id)
}

#[async_trait]
impl<R: Runtime> Runtime for KeepImages<R> {
    async fn containers(&self) -> Result<Vec<Arc<Container>>, RuntimeError> {
        self.runtime.containers().await
    }

    async fn sandboxes(&self) -> Result<Vec<Arc<Sandbox>>, RuntimeError> {
        self.runtime.sandboxes().await
    }

    /// All images, kept ones as pinned.
    async fn images(&self) -> Result<Vec<Arc<Image>>, RuntimeError> {
        let mut images = self.runtime.images().await?;
        // An id can be listed once for each runtime handler: it is removed as one.
        let is_kept = |image: &&Arc<Image>| self.of(image).next().is_some();
        let kept: BTreeSet<Arc<str>> = images
            .iter()
            .filter(is_kept)
            .map(|image| Arc::clone(&image.id))
            .collect();
        for image in images.iter_mut().filter(|image| kept.contains(&image.id)) {
            if !image.pinned {
                Arc::make_mut(image).pinned = true;
            }
        }
        Ok(images)
    }

    async fn image_file_system(&self) -> Result<FileSystem, RuntimeError> {
        self.runtime.image_file_system().await
    }

    async fn container_status(&self, id: &str) -> Result<Option<ContainerStatus>, RuntimeError> {
        self.runtime.container_status(id).await
    }

    async fn image_id(&self, reference: &str) -> Result<Option<Arc<str>>, RuntimeError> {
        self.runtime.image_id(reference).await
    }

    async fn stop_container(&self, id: &str, grace_seconds: u32) -> Result<(), RuntimeError> {
        self.runtime.stop_container(id, grace_seconds).await
    }

    async fn remove_container(&self, id: &str) -> Result<(), RuntimeError> {
        self.runtime.remove_container(id).await
    }

    async fn stop_sandbox(&self, id: &str) -> Result<(), RuntimeError> {
        self.runtime.stop_sandbox(id).await
    }

    async fn remove_sandbox(&self, id: &str) -> Result<(), RuntimeError> {
        self.runtime.remove_sandbox(id).await
    }

    /// Removes an image, unless it is kept. An id can be shortened, and a name can identify it: an image that
    /// the runtime lists or resolves as a kept image is refused.
    async fn remove_image(&self, id: &str, runtime_handler: &str) -> Result<(), RuntimeError> {
        self.check_removal(id).await?;
        self.runtime.remove_image(id, runtime_handler).await
    }
}
