//! The committed bindings are what their protocol files say. `KUBEGC_UPDATE_BINDINGS=1 cargo test -p kubegc-cri --test bindings` writes them anew.

use std::{env, fs, path::Path};

/// The bindings of one protocol file, as the generator writes them.
fn generate(proto: &str, client: bool, server: bool) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let file = root.join(proto);
    let folder = file.parent().expect("a file lies in a folder");
    let described = protox::compile([&file], [folder]).expect("the protocol file is correct");
    let out = tempfile::tempdir().expect("a folder can be made");
    tonic_prost_build::configure()
        .build_client(client)
        .build_server(server)
        .build_transport(false)
        .btree_map(".")
        .out_dir(out.path())
        .compile_fds(described)
        .expect("bindings can be made");
    fs::read_to_string(out.path().join("runtime.v1.rs")).expect("one package, one file")
}

#[test]
fn committed_bindings_are_current() {
    for (proto, committed, client, server) in [
        ("proto/cri.proto", "generated/client.rs", true, false),
        ("proto/cri.proto", "tests/generated/server.rs", false, true),
        ("tests/proto/build.proto", "tests/generated/build.rs", true, false),
    ] {
        let expected = generate(proto, client, server);
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(committed);
        if env::var_os("KUBEGC_UPDATE_BINDINGS").is_some() {
            fs::write(&path, &expected).expect("writable");
        }
        let found = fs::read_to_string(&path).expect("the bindings are in the repository");
        assert!(
            found == expected,
            "{committed} is not what {proto} says: run this test with KUBEGC_UPDATE_BINDINGS=1"
        );
    }
}
