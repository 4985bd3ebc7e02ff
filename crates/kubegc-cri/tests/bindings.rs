//! The committed bindings match their protocol files. `KUBEGC_UPDATE_BINDINGS=1 cargo test -p
//! kubegc-cri --test bindings` generates them again.

use std::{env, fs, path::Path};

/// The side that bindings are generated for. The messages are in the client's module; the server's module
/// uses them.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Client,
    Server,
}

/// The bindings of one protocol file, as the generator writes them.
fn generate(proto: &str, side: Side) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let file = root.join(proto);
    let directory = file.parent().expect("a file lies in a directory");
    let described = protox::compile([&file], [directory]).expect("the protocol file is correct");
    let out = tempfile::tempdir().expect("a directory can be made");
    let mut settings = tonic_prost_build::configure();
    if side == Side::Server {
        settings = settings.extern_path(".runtime.v1", "crate::bindings::cri");
    }
    settings
        .build_client(side == Side::Client)
        .build_server(side == Side::Server)
        .build_transport(false)
        .btree_map(".")
        .out_dir(out.path())
        .compile_fds(described)
        .expect("bindings can be made");
    fs::read_to_string(out.path().join("runtime.v1.rs")).expect("one package, one file")
}

#[test]
fn committed_bindings_are_current() {
    for (proto, committed, side) in [
        ("proto/cri.proto", "generated/client.rs", Side::Client),
        ("proto/cri.proto", "tests/generated/server.rs", Side::Server),
        (
            "tests/proto/build.proto",
            "tests/generated/build.rs",
            Side::Client,
        ),
    ] {
        let expected = generate(proto, side);
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
