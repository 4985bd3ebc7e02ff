//! The cluster on a socket: plain HTTP, watches, a `kube::Client` over TCP, shutdown.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
};

use futures_util::TryStreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client, Config, runtime::watcher};
use kubegc_testkit::{Cluster, Fault, Rule};

use crate::support::{config_map, config_maps, create};

/// Reads the head of a response, and leaves the body.
fn head(stream: &mut BufReader<TcpStream>) -> String {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(stream.read_line(&mut head).unwrap(), 0, "{head}");
    }
    head
}

/// Reads one chunk of a chunked body; empty at its end.
fn chunk(stream: &mut BufReader<TcpStream>) -> String {
    String::from_utf8(chunk_bytes(stream)).unwrap()
}

fn chunk_bytes(stream: &mut BufReader<TcpStream>) -> Vec<u8> {
    let mut size = String::new();
    stream.read_line(&mut size).unwrap();
    let size = usize::from_str_radix(size.trim(), 16).unwrap();
    let mut chunk = vec![0; size + 2];
    stream.read_exact(&mut chunk).unwrap();
    chunk.truncate(size);
    chunk
}

/// Reads a body after its head.
fn body(stream: &mut BufReader<TcpStream>, head: &str) -> Vec<u8> {
    let head = head.to_lowercase();
    let (_, length) = head.split_once("content-length: ").unwrap();
    let mut body = vec![0; length.lines().next().unwrap().parse().unwrap()];
    stream.read_exact(&mut body).unwrap();
    body
}

fn ask(stream: &mut BufReader<TcpStream>, path: &str) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: testkit\r\nUser-Agent: curl/8.0 (test)\r\n\r\n");
    stream.get_mut().write_all(request.as_bytes()).unwrap();
}

/// Sockets are read in a blocking way here: the server has threads of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_connection_serves_requests_and_then_a_watch() {
    let cluster = Cluster::new();
    let api = config_maps(&cluster);
    let loopback = cluster.serve().await.unwrap();
    let mut stream = BufReader::new(TcpStream::connect(loopback.address()).unwrap());
    ask(&mut stream, "/api/v1/namespaces/default/configmaps/a");
    let first = head(&mut stream);
    assert!(first.starts_with("HTTP/1.1 404 Not Found\r\n"), "{first}");
    let body = String::from_utf8(body(&mut stream, &first)).unwrap();
    assert!(body.contains("\"reason\":\"NotFound\""));

    ask(
        &mut stream,
        "/api/v1/namespaces/default/configmaps?watch=true&resourceVersion=0",
    );
    let head = head(&mut stream).to_lowercase();
    assert!(head.contains("transfer-encoding: chunked"), "{head}");
    create(&api, &config_map("a", &[], &[])).await;
    let event = chunk(&mut stream);
    assert!(event.contains("\"type\":\"ADDED\""), "{event}");
    // Stopping ends the watch and closes the connection.
    loopback.stop().await;
    assert_eq!(chunk(&mut stream), "");
    assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0);
    assert_eq!(cluster.audit().by("curl").len(), 2);
}

/// As Go clients send it: a prefix, a message with API version and kind, and in it a ConfigMap that has
/// metadata with the name `a`.
const CONFIG_MAP: &[u8] = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x05\x0a\x03\x0a\x01a";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_in_go_use_protobuf() {
    const URL: &str = "/api/v1/namespaces/default/configmaps";
    const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
    let cluster = Cluster::new();
    let expire = Fault::ExpireWatch { after_events: 1 };
    cluster.faults().add(Rule::new(expire).resource("configmaps"));
    let loopback = cluster.serve().await.unwrap();
    let mut stream = BufReader::new(TcpStream::connect(loopback.address()).unwrap());
    let headers = format!("Host: testkit\r\nUser-Agent: go/1\r\nAccept: {PROTOBUF},application/json\r\n");
    let length = CONFIG_MAP.len();
    let post = format!(
        "POST {URL} HTTP/1.1\r\n{headers}Content-Type: {PROTOBUF}\r\nContent-Length: {length}\r\n\r\n"
    );
    stream
        .get_mut()
        .write_all(&[post.as_bytes(), CONFIG_MAP].concat())
        .unwrap();
    let created = head(&mut stream);
    assert!(created.starts_with("HTTP/1.1 201 Created\r\n"), "{created}");
    assert!(body(&mut stream, &created).starts_with(&CONFIG_MAP[..22]));
    let stored: ConfigMap = cluster.find("default", "a").unwrap();
    let audit = cluster.audit().by("go");
    let entry = audit.entries().next().unwrap();
    assert_eq!((&*entry.name, entry.body_bytes), ("a", length));
    assert_eq!(Some(entry.uid.to_string()), stored.metadata.uid);

    let watch = format!("GET {URL}?watch=true HTTP/1.1\r\n{headers}\r\n");
    stream.get_mut().write_all(watch.as_bytes()).unwrap();
    let head = head(&mut stream);
    assert!(head.contains(&format!("{PROTOBUF};stream=watch")), "{head}");
    // Each event is one frame: its length in four bytes, and its type.
    for event_type in ["ADDED", "ERROR"] {
        let event = chunk_bytes(&mut stream);
        let (length, event) = event.split_first_chunk::<4>().unwrap();
        assert_eq!(u32::from_be_bytes(*length) as usize, event.len());
        assert_eq!(
            &event[..7],
            [b"\x0a\x05".as_slice(), event_type.as_bytes()].concat()
        );
    }
    assert_eq!(chunk(&mut stream), "");
}

#[tokio::test]
async fn a_client_over_tcp_works_as_one_without_sockets() {
    let cluster = Cluster::new();
    let loopback = cluster.serve().await.unwrap();
    assert_eq!(loopback.url(), format!("http://{}", loopback.address()));
    let config = Config::new(loopback.url().parse().unwrap());
    let api: Api<ConfigMap> = Api::default_namespaced(Client::try_from(config).unwrap());
    let mut changes = std::pin::pin!(watcher(api.clone(), watcher::Config::default()));
    changes.try_next().await.unwrap();
    changes.try_next().await.unwrap();
    create(&api, &config_map("a", &[], &[])).await;
    let change = changes.try_next().await.unwrap().unwrap();
    assert!(matches!(change, watcher::Event::Apply(_)), "{change:?}");
    cluster.faults().add(Rule::new(Fault::Disconnect));
    assert!(api.get("a").await.is_err());
    assert!(api.get("a").await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropping_the_server_closes_its_port() {
    let cluster = Cluster::new();
    let loopback = cluster.serve().await.unwrap();
    let address = loopback.address();
    drop(TcpStream::connect(address).unwrap());
    drop(loopback);
    while TcpStream::connect(address).is_ok() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn clients_can_read_the_kubeconfig() {
    let cluster = Cluster::new();
    let loopback = cluster.serve().await.unwrap();
    let kubeconfig = kube::config::Kubeconfig::from_yaml(&loopback.kubeconfig()).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &Default::default())
        .await
        .unwrap();
    assert_eq!(config.cluster_url.to_string(), format!("{}/", loopback.url()));
    let client = Client::try_from(config).unwrap();
    client.apiserver_version().await.unwrap();
}

#[tokio::test]
async fn a_body_that_is_too_large_is_not_read_to_its_end() {
    let cluster = Cluster::new();
    let loopback = cluster.serve().await.unwrap();
    let address = loopback.address();
    let answer = tokio::task::spawn_blocking(move || {
        let mut stream = BufReader::new(TcpStream::connect(address).unwrap());
        // A gigabyte is promised, and little more than the limit sent.
        let head = "POST /api/v1/namespaces HTTP/1.1\r\nHost: testkit\r\nContent-Length: 1000000000\r\n\r\n";
        stream.get_mut().write_all(head.as_bytes()).unwrap();
        stream
            .get_mut()
            .write_all(&vec![b' '; 3 * 1024 * 1024 + 1])
            .unwrap();
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        line
    });
    assert_eq!(answer.await.unwrap(), "HTTP/1.1 413 Payload Too Large\r\n");
    assert_eq!(cluster.audit().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_on_sockets_have_names() {
    let cluster = Cluster::new();
    let (any, named) = (
        cluster.serve().await.unwrap(),
        cluster.serve_as("operator").await.unwrap(),
    );
    for loopback in [&any, &named] {
        let mut stream = BufReader::new(TcpStream::connect(loopback.address()).unwrap());
        ask(&mut stream, "/api/v1/namespaces/default/configmaps/a");
        head(&mut stream);
    }
    let audit = cluster.audit();
    let clients: Vec<&str> = audit.entries().map(|entry| &*entry.client).collect();
    assert_eq!(clients, ["curl/8.0", "operator"]);
}
