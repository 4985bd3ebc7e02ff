//! Decides which images a collector never sees as removable, for runtimes that do not pin what they need themselves.

use std::{collections::BTreeSet, sync::Arc};

use async_trait::async_trait;
use kubegc_core::{
    Runtime, RuntimeError,
    node_facts::{Container, ContainerStatus, FileSystem, Image, Sandbox},
};

/// What stands between the name of a repository and its digest.
const DIGEST_MARK: &str = "@sha256:";
/// What an id may begin with.
const ID_MARK: &str = "sha256:";

/// A runtime in which images with given references are pinned.
///
/// Kubelets from 1.29 on protect the image of sandboxes only where the runtime pins it, and some runtimes do not (containerd 1.6): no container uses it, so a
/// collector that does as upstream does removes it, and the next sandbox waits for a pull. On a node without a network it waits forever.
///
/// A reference stands for an image if it is
/// - its id in full, `sha256:e6f1…` or `e6f1…`: some runtimes list ids with the one (containerd), some with the other (CRI-O);
/// - one of its tags or digests, letter by letter as the runtime lists them: `registry.k8s.io/pause:3.9`. Nothing is completed: `pause` is not
///   `docker.io/library/pause:latest`;
/// - the repository of one of its digests, ended by `@sha256:` and nothing more: `registry.k8s.io/pause@sha256:` is every image of that repository.
///
/// An image that is listed more than once, for several runtime handlers, is kept as a whole.
///
/// # Guarantees
/// [`images`](Runtime::images) lists such images as pinned, and changes nothing else. [`remove_image`](Runtime::remove_image) refuses them, by a listing
/// of its own: also where the collector's version knows no pinned images (before 1.23), or where a tag has moved to the image since the plan was made. It may be asked
/// for an image by its id, the beginning of its id, a name as listed, or any text that the runtime itself [resolves](Runtime::image_id) to the image; where a runtime
/// resolves none, other texts pass. Where the image that is meant cannot be told, nothing is removed. What stands for no image is told by
/// [`unmatched`](Self::unmatched).
///
/// # Complexity
/// Of `n` names of images and `k` references, `O(n log n + n log k)` for a listing. A removal takes a listing more, and a status where it does not name a listed id.
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
    /// Keeps the images that these references stand for.
    #[must_use]
    pub fn new<T: Into<Arc<str>>>(runtime: R, references: impl IntoIterator<Item = T>) -> Self {
        Self {
            runtime,
            references: references.into_iter().map(Into::into).collect(),
        }
    }

    /// The runtime itself, which pins what it pins.
    #[must_use]
    pub const fn runtime(&self) -> &R {
        &self.runtime
    }

    /// The references, in the order of their texts.
    pub fn references(&self) -> impl Iterator<Item = &str> {
        self.references.iter().map(|reference| &**reference)
    }

    /// The references that stand for an image.
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
    /// The references that stand for no image now: misspelled, or not pulled yet. They protect an image as soon as it is there.
    ///
    /// # Errors
    /// The runtime does not list its images.
    pub async fn unmatched(&self) -> Result<Vec<Arc<str>>, RuntimeError> {
        let images = self.runtime.images().await?;
        let matched: BTreeSet<&Arc<str>> = images.iter().flat_map(|image| self.of(image)).collect();
        let unmatched = self.references.iter().filter(|one| !matched.contains(one));
        Ok(unmatched.cloned().collect())
    }

    /// Refuses an id that means a kept image.
    async fn let_go(&self, id: &str) -> Result<(), RuntimeError> {
        if self.references.is_empty() {
            return Ok(());
        }
        let unknown = |error: RuntimeError| {
            RuntimeError::refused(format!(
                "image {id}: whether it is to be kept is not known: {error}"
            ))
        };
        let images = self.runtime.images().await.map_err(unknown)?;
        self.none_kept(id, &images, |image| means(id, image))?;
        if images.iter().any(|image| *image.id == *id) {
            return Ok(());
        }
        match self.runtime.image_id(id).await {
            Ok(None) | Err(RuntimeError::NotFound | RuntimeError::NotSupported { .. }) => Ok(()),
            Ok(Some(resolved)) => self.none_kept(id, &images, |image| bare(&image.id) == bare(&resolved)),
            Err(error) => Err(unknown(error)),
        }
    }

    /// Refuses an id that means these images, if one of them is to be kept.
    fn none_kept(
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
                "image {id} is to be kept, as {reference}"
            ))),
        }
    }
}

/// Whether a runtime may take this text for the image: one of its names, its id, or the beginning of its id.
fn means(text: &str, image: &Image) -> bool {
    let mut names = image.tags.iter().chain(&image.digests);
    image.id.starts_with(text) || bare(&image.id).starts_with(bare(text)) || names.any(|name| **name == *text)
}

/// An id without its mark.
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

    /// All images, those to be kept as pinned.
    async fn images(&self) -> Result<Vec<Arc<Image>>, RuntimeError> {
        let mut images = self.runtime.images().await?;
        // An id may be listed once for each runtime handler: it is removed as one.
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

    /// Removes an image, unless it is to be kept. An id may be cut short, and a name may stand for it: what the runtime lists or resolves as a kept image is refused.
    async fn remove_image(&self, id: &str, runtime_handler: &str) -> Result<(), RuntimeError> {
        self.let_go(id).await?;
        self.runtime.remove_image(id, runtime_handler).await
    }
}
