//! The committed bindings match their protocol file. `KUBEGC_UPDATE_BINDINGS=1 cargo test -p
//! kubegc-cri --test bindings` generates them again.

use std::{env, fs, path::Path};

/// The messages of the protocol file, as the generator writes them.
fn generate(root: &Path) -> String {
    let described = protox::compile([root.join("proto/cri.proto")], [root.join("proto")])
        .expect("the protocol file is correct");
    let out = tempfile::tempdir().expect("a directory can be made");
    tonic_prost_build::configure()
        .build_client(false)
        .build_server(false)
        .btree_map(".")
        .out_dir(out.path())
        .compile_fds(described)
        .expect("bindings can be made");
    fs::read_to_string(out.path().join("runtime.v1.rs")).expect("one package, one file")
}

#[test]
fn committed_bindings_are_current() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (path, expected) = (root.join("generated/messages.rs"), generate(root));
    if env::var_os("KUBEGC_UPDATE_BINDINGS").is_some() {
        fs::write(&path, &expected).expect("writable");
    }
    let found = fs::read_to_string(&path).expect("the bindings are in the repository");
    assert!(
        found == expected,
        "generated/messages.rs does not match proto/cri.proto: run this test with KUBEGC_UPDATE_BINDINGS=1"
    );
}
