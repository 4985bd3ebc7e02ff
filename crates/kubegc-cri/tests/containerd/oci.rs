//! Builds images by hand: one static program, and a layer of filling that makes their sizes and ids differ.

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::json;
use sha2::{Digest, Sha256};

/// One image of the layout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ImageSpec<'a> {
    /// Names with tag.
    pub(crate) names: &'a [&'a str],
    /// Bytes of filling.
    pub(crate) filling_bytes: usize,
}

/// An archive with an OCI image layout, as `ctr images import` reads it.
pub(crate) fn layout(busybox: &Path, images: &[ImageSpec<'_>]) -> Vec<u8> {
    let busybox = fs::read(busybox).expect("busybox was found");
    let program = archive(&[("bin/busybox", &busybox)]);
    let mut blobs = Blobs::default();
    let mut manifests = Vec::new();
    for image in images {
        // The filling contains the image's name: no two layers are equal.
        let mut filling = image.names.join(" ").into_bytes();
        filling.resize(image.filling_bytes.max(filling.len()), 0);
        let layers = [program.clone(), archive(&[("filling", &filling)])];
        let layers = layers.map(|layer| blobs.add(LAYER, layer));
        let config = json!({
            "architecture": architecture(),
            "os": "linux",
            "config": { "Entrypoint": ["/bin/busybox"], "Cmd": ["sleep", "1000000"] },
            "rootfs": { "type": "layers", "diff_ids": [layers[0]["digest"], layers[1]["digest"]] },
        });
        let config = blobs.add(
            "application/vnd.oci.image.config.v1+json",
            config.to_string().into_bytes(),
        );
        let manifest =
            json!({ "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers });
        let manifest = blobs.add(MANIFEST, manifest.to_string().into_bytes());
        for name in image.names {
            let mut named = manifest.clone();
            named["annotations"] = json!({ "io.containerd.image.name": name });
            manifests.push(named);
        }
    }
    let index = json!({ "schemaVersion": 2, "manifests": manifests }).to_string();
    let mut files = vec![
        ("oci-layout", r#"{"imageLayoutVersion":"1.0.0"}"#.as_bytes()),
        ("index.json", index.as_bytes()),
    ];
    files.extend(
        blobs
            .0
            .iter()
            .map(|(path, bytes)| (path.as_str(), bytes.as_slice())),
    );
    archive(&files)
}

const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// Blobs by their path in the layout.
#[derive(Default)]
struct Blobs(BTreeMap<String, Vec<u8>>);

impl Blobs {
    /// Adds a blob; its descriptor.
    fn add(&mut self, media_type: &str, bytes: Vec<u8>) -> serde_json::Value {
        let digest: String = Sha256::digest(&bytes)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let descriptor =
            json!({ "mediaType": media_type, "digest": format!("sha256:{digest}"), "size": bytes.len() });
        self.0.insert(format!("blobs/sha256/{digest}"), bytes);
        descriptor
    }
}

/// An archive of files that all may run.
fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (path, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o755);
        archive
            .append_data(&mut header, path, *bytes)
            .expect("memory takes all");
    }
    archive.into_inner().expect("memory takes all")
}

/// This machine's architecture, by its name in Go.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
