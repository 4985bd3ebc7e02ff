//! Images: their names, the layers that they share, and the bytes that a removal frees.

use std::sync::Arc;

use kubegc_core::Runtime;
use kubegc_sim::{ContainerSpec, ImageSpec, PodSpec, SimNode};

use crate::node::{JOB, WEB, free, node, now, run, texts};

#[test]
fn an_image_has_the_id_of_its_content_and_the_size_of_its_layers() {
    let node = node();
    let web = node.image(WEB).unwrap();
    let hex = web.id.strip_prefix("sha256:").unwrap();
    assert!(
        hex.len() == 64 && hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')),
        "{hex}"
    );
    assert_eq!((web.size_bytes, node.image(JOB).unwrap().size_bytes), (500, 400));
    assert_eq!(free(&node), 400, "the base counts once");
    assert_eq!(texts(&web.tags), [WEB]);
    assert!(
        web.digests[0].starts_with("shop/web@sha256:"),
        "{}",
        web.digests[0]
    );
    assert_eq!(web.name(), WEB);
    // A digest that is named twice in an image counts once.
    let twice = ImageSpec::new("shop/twice:1")
        .layer("twice", 10)
        .layer("twice", 10);
    let twice = node.pull(&twice).unwrap();
    assert_eq!((node.image(&twice).unwrap().size_bytes, free(&node)), (10, 390));
}

#[test]
fn the_same_content_is_one_image_under_all_its_tags() {
    let node = node();
    let web = node.image(WEB).unwrap().id.clone();
    for tag in ["mirror:5000/shop/web", "shop/web:stable"] {
        let spec = ImageSpec::new(tag).layer("base", 300).layer("web", 200);
        assert_eq!(node.pull(&spec), Ok(web.clone()));
        assert_eq!(now(node.image_id(tag)), Ok(Some(web.clone())));
    }
    let image = node.image(&web).unwrap();
    assert_eq!(
        texts(&image.tags),
        [WEB, "mirror:5000/shop/web", "shop/web:stable"]
    );
    assert_eq!(image.digests.len(), 2, "one for each repository");
    assert!(image.digests[1].starts_with("mirror:5000/shop/web@sha256:"));
    assert_eq!((node.all_images().len(), free(&node)), (2, 400));
    // It also has that id when it comes back.
    now(node.remove_image("shop/web:stable", "")).unwrap();
    assert_eq!(
        node.pull(&ImageSpec::new(WEB).layer("base", 300).layer("web", 200)),
        Ok(web)
    );
}

#[test]
fn an_image_is_removed_with_all_its_names_by_any_of_them() {
    for by in 0..3 {
        let node = node();
        node.pull(
            &ImageSpec::new("shop/web:stable")
                .layer("base", 300)
                .layer("web", 200),
        )
        .unwrap();
        let image = node.image(WEB).unwrap();
        let reference = [&image.id, &image.tags[1], &image.digests[0]][by];
        assert_eq!(now(node.remove_image(reference, "")), Ok(()));
        for name in image.tags.iter().chain(&image.digests).chain([&image.id]) {
            assert_eq!(now(node.image_id(name)), Ok(None), "{name}");
        }
        assert_eq!(now(node.images()).unwrap(), [node.image(JOB).unwrap()]);
        assert_eq!(free(&node), 600, "500 bytes that free 200");
    }
}

#[test]
fn a_tag_leaves_the_image_that_had_it() {
    let node = node();
    let before = node.image(WEB).unwrap();
    let next = node
        .pull(&ImageSpec::new(WEB).layer("base", 300).layer("web 2", 50))
        .unwrap();
    let old = node.image(&before.id).unwrap();
    assert!(old.tags.is_empty());
    assert_eq!((&old.digests, old.name()), (&before.digests, &*before.digests[0]));
    assert_eq!(now(node.image_id(WEB)), Ok(Some(next.clone())));
    // Removing the old one leaves the tag to the new one.
    now(node.remove_image(&old.id, "")).unwrap();
    assert_eq!(now(node.image_id(WEB)), Ok(Some(next)));
}

#[test]
fn a_container_holds_the_layers_of_an_image_that_was_removed() {
    let node = node();
    let pod = run(&node, "web", WEB);
    node.exit_container(&pod.container_ids[0]).unwrap();
    assert_eq!(
        now(node.remove_image(WEB, "")),
        Ok(()),
        "the runtime does not protect it"
    );
    assert!(node.image(WEB).is_none());
    assert_eq!(free(&node), 400, "nothing became free");
    now(node.remove_image(JOB, "")).unwrap();
    assert_eq!(free(&node), 500, "the base is held as well");
    now(node.remove_container(&pod.container_ids[0])).unwrap();
    assert_eq!(free(&node), 1_000);
}

#[test]
fn the_same_image_exists_once_for_each_handler() {
    let node = node();
    let sandboxed = ImageSpec {
        runtime_handler: "kata".into(),
        ..ImageSpec::new(WEB)
    };
    let sandboxed = sandboxed.layer("base", 300).layer("web", 200);
    let id = node.pull(&sandboxed).unwrap();
    let handlers = |node: &SimNode| {
        let images = node.all_images();
        let same = images.iter().filter(|image| image.id == id);
        same.map(|image| image.runtime_handler.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(handlers(&node), ["", "kata"]);
    assert_eq!(free(&node), 400, "on the same layers");
    now(node.remove_image(&id, "")).unwrap();
    assert_eq!(handlers(&node), ["kata"]);
    assert_eq!(
        now(node.image_id(WEB)),
        Ok(Some(id.clone())),
        "still there for the other"
    );
    let container = ContainerSpec {
        runtime_handler: "kata".into(),
        ..ContainerSpec::new("app", WEB)
    };
    let pod = node
        .run_pod(&PodSpec::new("shop", "web").container(container))
        .unwrap();
    assert_eq!(
        &*node
            .container(&pod.container_ids[0])
            .unwrap()
            .image
            .runtime_handler,
        "kata"
    );
    let plain = PodSpec::new("shop", "plain").container(ContainerSpec::new("app", WEB));
    assert!(node.run_pod(&plain).is_err(), "not there for the default");
    now(node.remove_image(&id, "kata")).unwrap();
    assert_eq!(handlers(&node), Vec::<String>::new());
}

#[test]
fn pulls_that_do_not_fit_change_nothing() {
    let node = node();
    let fits = ImageSpec::new("shop/big:1").layer("base", 300).layer("big", 401);
    let refusals = [
        (
            fits.clone(),
            "no space left on device: 401 bytes wanted, 400 available",
        ),
        (
            ImageSpec::new("x:1").layer("x", u64::MAX).layer("y", u64::MAX),
            "no space left on device: 18446744073709551615 bytes wanted, 400 available",
        ),
    ];
    let before = node.all_images();
    for (spec, expected) in refusals {
        let error = node.pull(&spec).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
        assert_eq!((node.all_images(), free(&node)), (before.clone(), 400), "{error}");
    }
    now(node.remove_image(JOB, "")).unwrap();
    assert!(node.pull(&fits).is_ok(), "after something was freed");
}

#[test]
fn image_volumes_are_part_of_the_status() {
    let node = node();
    let spec = ContainerSpec {
        image_volumes: vec![JOB.into()],
        ..ContainerSpec::new("app", WEB)
    };
    let pod = node
        .run_pod(&PodSpec::new("shop", "web").container(spec))
        .unwrap();
    let status = now(node.container_status(&pod.container_ids[0]))
        .unwrap()
        .unwrap();
    let job: Vec<Arc<str>> = vec![node.image(JOB).unwrap().id.clone()];
    assert_eq!(status.image_volumes, job);
}
