//! The committed bindings match their protocol files. `KUBEGC_UPDATE_BINDINGS=1 cargo test -p
//! kubegc-cri --test bindings` generates them again.

use std::{env, fs, path::Path};

/// The bindings of one protocol file, as the generator writes them: the messages, and the calls of a client.
fn generate(proto: &str, with_client: bool) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let file = root.join(proto);
    let directory = file.parent().expect("a file lies in a directory");
    let described = protox::compile([&file], [directory]).expect("the protocol file is correct");
    let out = tempfile::tempdir().expect("a directory can be made");
    tonic_prost_build::configure()
        .build_client(with_client)
        .build_server(false)
        .build_transport(false)
        .btree_map(".")
        .out_dir(out.path())
        .compile_fds(described)
        .expect("bindings can be made");
    fs::read_to_string(out.path().join("runtime.v1.rs")).expect("one package, one file")
}

#[test]
fn committed_bindings_are_current() {
    for (proto, committed, with_client) in [
        ("proto/cri.proto", "generated/client.rs", true),
        ("tests/proto/build.proto", "tests/generated/build.rs", false),
    ] {
        let expected = generate(proto, with_client);
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(committed);
        if env::var_os("KUBEGC_UPDATE_BINDINGS").is_some() {
            fs::write(&path, &expected).expect("writable");
        }
        let found = fs::read_to_string(&path).expect("the bindings are in the repository");
        assert!(
            found == expected,
            "{committed} does not match {proto}: run this test with KUBEGC_UPDATE_BINDINGS=1"
        );
    }
}
