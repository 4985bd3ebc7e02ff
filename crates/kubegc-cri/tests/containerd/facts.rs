//! A runtime removes running containers and used images on request, so planners must protect them.

use std::{fs, path::Path};

use kubegc_core::{Runtime, RuntimeError};

use crate::{
    collector::client,
    daemon::PAUSE,
    host::{Host, RUNS, pod, until},
    oci::ImageSpec,
    raw::cri,
};

const WEB: &str = "registry.invalid/web:1";
const JOB: &str = "registry.invalid/job:1";

/// Number of processes that run this test's sleeping container.
fn sleepers() -> usize {
    let processes = fs::read_dir("/proc").expect("it is mounted").flatten();
    let command = |process: &Path| fs::read_to_string(process.join("cmdline")).unwrap_or_default();
    processes
        .filter(|process| command(&process.path()) == RUNS.join("\0") + "\0")
        .count()
}

/// Removals of containers, sandboxes and images that are in use.
pub(crate) async fn containers_and_images_in_use_are_removed_on_request(host: &Host) {
    let image = |names| ImageSpec {
        names,
        filling_bytes: 0,
    };
    host.import(&[image(&[WEB]), image(&[JOB])]).await;
    let sandbox = host.sandbox(&pod("web"), 0).await;
    let app = host.run(&sandbox, "app", 0, WEB, &RUNS).await;
    let job = host.ended(&sandbox, "job", 0, JOB).await;
    let runtime = client().await;
    let image_of = async |id: &str| {
        let listed = runtime.containers().await.expect("it responds");
        let container = listed
            .iter()
            .find(|container| *container.id == *id)
            .expect("it is listed");
        container.image.clone()
    };

    // The image of a dead container is removed by a prefix of its id; the container stays, and
    // still names it.
    let used = image_of(&job).await.reference;
    assert_eq!(
        runtime.image_id(JOB).await,
        Ok(Some(used.clone())),
        "the reference of a container is the image's id"
    );
    assert_eq!(runtime.remove_image(&used[..20], "").await, Ok(()));
    assert_eq!(runtime.image_id(JOB).await, Ok(None));
    assert_eq!(image_of(&job).await.reference, used);
    // So is the image of a running container.
    let used = image_of(&app).await.reference;
    assert_eq!(runtime.remove_image(&used, "").await, Ok(()));
    assert_eq!(host.image_names().await, [PAUSE]);
    assert_eq!(host.left().await, ["web/app#0 running", "web/job#0 exited"]);

    // A running container is killed and removed. A prefix of its id is enough.
    assert_eq!(sleepers(), 2, "the container, and the one that holds the sandbox");
    assert_eq!(runtime.remove_container(&app[..8]).await, Ok(()));
    assert_eq!(runtime.container_status(&app).await, Err(RuntimeError::NotFound));
    until("its process has ended", async || (sleepers() == 1).then_some(())).await;

    // A sandbox that is ready is removed, with the containers in it.
    host.run(&sandbox, "app", 1, PAUSE, &RUNS).await;
    assert_eq!(runtime.remove_sandbox(&sandbox.id).await, Ok(()));
    assert_eq!((host.left().await, host.sandboxes_left().await), (vec![], vec![]));
    until("its processes have ended", async || {
        (sleepers() == 0).then_some(())
    })
    .await;
}

/// An empty id. It means no container and no sandbox, but any image: if there is only
/// one, that one is removed.
pub(crate) async fn an_empty_id_is_a_prefix_of_every_image_id(host: &Host) {
    let sandbox = host.sandbox(&pod("web"), 0).await;
    host.create(&sandbox, "app", 0, PAUSE, &RUNS).await;
    host.import(&[ImageSpec {
        names: &[WEB],
        filling_bytes: 0,
    }])
    .await;
    let runtime = client().await;
    let responses = [
        runtime.stop_container("", 0).await,
        runtime.remove_container("").await,
        runtime.stop_sandbox("").await,
        runtime.remove_sandbox("").await,
        runtime.remove_image("", "").await,
    ];
    assert!(responses.iter().all(Result::is_err), "{responses:?}");
    assert_eq!(host.left().await, ["web/app#0 created"]);
    assert_eq!(host.sandboxes_left().await, ["web#0 ready"]);
    assert_eq!(host.image_names().await, [PAUSE, WEB]);

    // Directly, without the client, which refuses an empty id.
    let remove_any = async || {
        let request = cri::RemoveImageRequest {
            image: Some(cri::ImageSpec::default()),
        };
        let response: Result<cri::RemoveImageResponse, _> =
            host.raw.call("ImageService", "RemoveImage", request).await;
        response.map_err(|status| status.message().to_owned())
    };
    let of_two = remove_any().await.expect_err("two images have the name");
    assert!(of_two.ends_with("ambiguous digest string"), "{of_two}");
    let web = runtime
        .image_id(WEB)
        .await
        .expect("it responds")
        .expect("it is there");
    assert_eq!(runtime.remove_image(&web, "").await, Ok(()));
    assert_eq!(remove_any().await, Ok(cri::RemoveImageResponse {}));
    assert_eq!(host.image_names().await, [""; 0]);
}
