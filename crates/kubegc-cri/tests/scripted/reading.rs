//! Large listings.

use std::collections::BTreeMap;

use kubegc_core::{Runtime, RuntimeError};
use kubegc_cri::{CriRuntime, Options};

use crate::{
    server::Server,
    tables::{Reported, Tables, container},
    wire,
};

#[tokio::test]
async fn a_long_listing_is_read_and_one_beyond_the_limit_is_an_error() {
    let annotations: BTreeMap<_, _> = [("note".to_owned(), "x".repeat(10_000))].into();
    let wordy = |index: usize| wire::Container {
        annotations: annotations.clone(),
        ..container(&format!("c{index}"))
    };
    let server = Server::start(Reported::new(Tables {
        containers: (0..600).map(wordy).collect(),
        ..Tables::default()
    }));
    let runtime = server.connect().await;
    assert_eq!(
        runtime
            .containers()
            .await
            .expect("6 MB are below the limit")
            .len(),
        600
    );
    server.backend.tables().containers.extend((600..1_700).map(wordy));
    let error = runtime.containers().await.expect_err("17 MB are above the limit");
    let RuntimeError::Refused { message } = &error else {
        panic!("{error:?}")
    };
    assert!(
        message.starts_with(
            "rpc error: code = OutOfRange desc = Error, decoded message length too large: found 17"
        ) && message.ends_with("bytes, the limit is: 16777216 bytes"),
        "{message}"
    );
    let mut options = Options::default();
    options.message_bytes_max = 32 * 1024 * 1024;
    let roomy = CriRuntime::connect(&server.endpoint(), options)
        .await
        .expect("it speaks CRI v1");
    assert_eq!(roomy.containers().await.expect("32 MiB are allowed").len(), 1_700);
    assert_eq!(
        runtime.images().await.map(|images| images.len()),
        Ok(0),
        "the connection is still good"
    );
}
