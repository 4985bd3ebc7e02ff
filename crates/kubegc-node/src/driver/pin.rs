//! A runtime wrapper that pins images, for runtimes that do not pin the sandbox image.

use std::{collections::BTreeSet, sync::Arc};

use async_trait::async_trait;
use kubegc_core::{
    Runtime, RuntimeError,
    node_facts::{Container, ContainerStatus, FileSystem, Image, Sandbox},
};

/// The separator between the name of a repository and its digest.
const DIGEST_SEPARATOR: &str = "@sha256:";
/// The prefix of image ids in the listings of some runtimes.
const ID_PREFIX: &str = "sha256:";

/// A runtime in which the images that match given references are pinned.
///
/// From 1.29, kubelets protect the sandbox image only if the runtime pins it ([N3.8](crate::rules#n3-8)), and
/// some runtimes do not (containerd 1.6). No container uses the image, so image collection removes it. The
/// next sandbox needs to pull it again, which fails without access to the registry.
///
/// A reference matches an image if it is
/// - its full id, `sha256:e6f1…` or `e6f1…`: containerd lists ids with the prefix, CRI-O without;
/// - one of its tags or digests, exactly as listed by the runtime: `registry.k8s.io/pause:3.9`. References
///   are not normalized: `pause` does not match `docker.io/library/pause:latest`;
/// - the repository of one of its digests, followed by `@sha256:`: `registry.k8s.io/pause@sha256:` matches
///   all images of that repository.
///
/// If an image id is listed more than once, for several runtime handlers, one match pins all its entries.
///
/// # Guarantees
/// [`images`](Runtime::images) lists matching images as pinned and changes nothing else.
/// [`remove_image`](Runtime::remove_image) lists the images again and refuses to remove matching ones. So
/// they are kept even if the planner's version ignores pins (before 1.23), or if a tag was moved to the image
/// after the plan. The check recognizes an id, the start of an id, a listed name, and every text that the
/// runtime [resolves](Runtime::image_id) to an image. If the runtime does not support that, other texts are
/// not checked. If the image cannot be determined because a request fails, nothing is removed.
/// [`unmatched`](Self::unmatched) returns the references that match no image.
///
/// # Complexity
/// With `n` image names and `k` references, `O(n log n + n log k)` for a listing. A removal needs one more
/// listing, and an image status request if its id is not a listed one.
///
/// # Examples
/// ```
/// use kubegc_node::driver::PinImages;
/// let kept = PinImages::new((), ["registry.k8s.io/pause:3.9", "registry.example/base@sha256:"]);
/// assert_eq!(kept.references().collect::<Vec<_>>(), ["registry.example/base@sha256:", "registry.k8s.io/pause:3.9"]);
/// ```
#[derive(Clone, Debug)]
pub struct PinImages<R> {
    runtime: R,
    references: BTreeSet<Arc<str>>,
}

impl<R> PinImages<R> {
    /// Wraps a runtime, and pins the images that match these references.
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

    /// The references, sorted.
    pub fn references(&self) -> impl Iterator<Item = &str> {
        self.references.iter().map(|reference| &**reference)
    }

    /// The references that match an image.
    fn matches<'s>(&'s self, image: &'s Image) -> impl Iterator<Item = &'s Arc<str>> {
        let repositories = image.digests.iter().filter_map(|digest| {
            let end = digest.find(DIGEST_SEPARATOR)? + DIGEST_SEPARATOR.len();
            digest.get(..end)
        });
        let names = image.tags.iter().chain(&image.digests).map(|name| &**name);
        let id = without_prefix(&image.id);
        let with_prefix = (!id.is_empty()).then(|| self.references.get(&*format!("{ID_PREFIX}{id}")));
        [id].into_iter()
            .chain(names)
            .chain(repositories)
            .filter_map(|name| self.references.get(name))
            .chain(with_prefix.flatten())
    }
}

impl<R: Runtime> PinImages<R> {
    /// The references that currently match no image: misspelled, or not pulled yet. They pin an image as soon
    /// as it is pulled.
    ///
    /// # Errors
    /// Listing the images failed.
    pub async fn unmatched(&self) -> Result<Vec<Arc<str>>, RuntimeError> {
        let images = self.runtime.images().await?;
        let matched: BTreeSet<&Arc<str>> = images.iter().flat_map(|image| self.matches(image)).collect();
        let unmatched = self.references.iter().filter(|one| !matched.contains(one));
        Ok(unmatched.cloned().collect())
    }

    /// Returns an error if the id identifies a pinned image, or if that cannot be determined.
    async fn check_removal(&self, id: &str) -> Result<(), RuntimeError> {
        if self.references.is_empty() {
            return Ok(());
        }
        let unknown = |error: RuntimeError| {
            RuntimeError::refused(format!(
                "image {id}: cannot determine whether it is pinned: {error}"
            ))
        };
        let images = self.runtime.images().await.map_err(unknown)?;
        self.check_pinned(id, &images, |image| may_identify(id, image))?;
        if images.iter().any(|image| *image.id == *id) {
            return Ok(());
        }
        match self.runtime.image_id(id).await {
            Ok(None) | Err(RuntimeError::NotFound | RuntimeError::NotSupported { .. }) => Ok(()),
            Ok(Some(resolved)) => self.check_pinned(id, &images, |image| {
                without_prefix(&image.id) == without_prefix(&resolved)
            }),
            Err(error) => Err(unknown(error)),
        }
    }

    /// Returns an error if one of the images that the id identifies is pinned.
    fn check_pinned(
        &self,
        id: &str,
        images: &[Arc<Image>],
        is_identified: impl Fn(&Image) -> bool,
    ) -> Result<(), RuntimeError> {
        let ids: BTreeSet<&Arc<str>> = images
            .iter()
            .filter(|image| is_identified(image))
            .map(|image| &image.id)
            .collect();
        let identified = images.iter().filter(|image| ids.contains(&image.id));
        match identified.flat_map(|image| self.matches(image)).next() {
            None => Ok(()),
            Some(reference) => Err(RuntimeError::refused(format!(
                "image {id} is pinned by the reference {reference}"
            ))),
        }
    }
}

/// Returns whether a runtime may resolve this text to the image: one of its names, its id, or the start of
/// its id.
fn may_identify(text: &str, image: &Image) -> bool {
    let mut names = image.tags.iter().chain(&image.digests);
    image.id.starts_with(text)
        || without_prefix(&image.id).starts_with(without_prefix(text))
        || names.any(|name| **name == *text)
}

/// An image id without its prefix.
fn without_prefix(id: &str) -> &str {
    id.strip_prefix(ID_PREFIX).unwrap_or(id)
}

#[async_trait]
impl<R: Runtime> Runtime for PinImages<R> {
    async fn containers(&self) -> Result<Vec<Arc<Container>>, RuntimeError> {
        self.runtime.containers().await
    }

    async fn sandboxes(&self) -> Result<Vec<Arc<Sandbox>>, RuntimeError> {
        self.runtime.sandboxes().await
    }

    /// All images; those that match a reference are pinned.
    async fn images(&self) -> Result<Vec<Arc<Image>>, RuntimeError> {
        let mut images = self.runtime.images().await?;
        // An id can be listed once for each runtime handler, and a removal can remove all entries.
        let is_pinned = |image: &&Arc<Image>| self.matches(image).next().is_some();
        let pinned: BTreeSet<Arc<str>> = images
            .iter()
            .filter(is_pinned)
            .map(|image| Arc::clone(&image.id))
            .collect();
        for image in images.iter_mut().filter(|image| pinned.contains(&image.id)) {
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

    /// Removes an image, or returns an error if it is pinned. The check also recognizes shortened ids and
    /// names.
    async fn remove_image(&self, id: &str, runtime_handler: &str) -> Result<(), RuntimeError> {
        self.check_removal(id).await?;
        self.runtime.remove_image(id, runtime_handler).await
    }
}
