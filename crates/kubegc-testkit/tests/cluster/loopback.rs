//! The cluster on a socket: plain HTTP, watches, a `kube::Client` over TCP, shutdown.

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpStream,
};

use futures_util::TryStreamExt;
use http::Request;
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client, Config, client::Body, runtime::watcher};
use kubegc_testkit::{Cluster, Fault, Loopback, Rule};

use crate::support::{config_map, config_maps, create};

const URL: &str = "/api/v1/namespaces/default/configmaps";

/// A client over TCP.
fn tcp(loopback: &Loopback) -> Client {
    Client::try_from(Config::new(loopback.url().parse().unwrap())).unwrap()
}

/// A request for ConfigMaps of a client that has a name of its own.
fn get(query: &str) -> Request<Body> {
    let request = Request::get(format!("{URL}{query}")).header("user-agent", "curl/8.0 (test)");
    request.body(Body::empty()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_socket_serves_requests_and_watches_until_it_is_stopped() {
    let cluster = Cluster::new();
    let loopback = cluster.serve().await.unwrap();
    let client = tcp(&loopback);
    let missing = client.send(get("/a")).await.unwrap();
    assert_eq!(missing.status(), 404);
    let body = missing.into_body().collect().await.unwrap().to_bytes();
    let body = String::from_utf8_lossy(&body);
    assert!(body.contains("\"reason\":\"NotFound\""), "{body}");

    let watch = client.send(get("?watch=true&resourceVersion=0")).await.unwrap();
    assert_eq!(watch.headers()["transfer-encoding"], "chunked");
    create(&config_maps(&cluster), &config_map("a", &[], &[])).await;
    let mut events = watch.into_body();
    let event = events.frame().await.unwrap().unwrap().into_data().unwrap();
    let event = String::from_utf8_lossy(&event);
    assert!(event.contains("\"type\":\"ADDED\""), "{event}");
    // Stopping ends the watch and closes the connection.
    loopback.stop().await;
    assert!(events.frame().await.is_none());
    assert!(client.send(get("/a")).await.is_err());
    assert_eq!(cluster.audit().by("curl").len(), 2);
}

/// As Go clients send it: a prefix, a message with API version and kind, and in it a ConfigMap that has
/// metadata with the name `a`.
const CONFIG_MAP: &[u8] = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x05\x0a\x03\x0a\x01a";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_in_go_use_protobuf() {
    const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
    let cluster = Cluster::new();
    let expire = Fault::ExpireWatch { after_events: 1 };
    cluster.faults().add(Rule::new(expire).resource("configmaps"));
    let loopback = cluster.serve().await.unwrap();
    let client = tcp(&loopback);
    let send = async |request: http::request::Builder, body: &[u8]| {
        let accepted = format!("{PROTOBUF},application/json");
        let request = request.header("user-agent", "go/1").header("accept", accepted);
        let request = request.body(Body::from(body.to_vec())).unwrap();
        let (head, body) = client.send(request).await.unwrap().into_parts();
        (head, body.collect().await.unwrap().to_bytes())
    };
    let post = Request::post(URL).header("content-type", PROTOBUF);
    let (head, created) = send(post, CONFIG_MAP).await;
    assert_eq!(head.status, 201);
    assert!(created.starts_with(&CONFIG_MAP[..22]));
    let stored: ConfigMap = cluster.find("default", "a").unwrap();
    let audit = cluster.audit().by("go");
    let entry = audit.entries().next().unwrap();
    assert_eq!((&*entry.name, entry.body_bytes), ("a", CONFIG_MAP.len()));
    assert_eq!(Some(entry.uid.to_string()), stored.metadata.uid);

    let (head, events) = send(Request::get(format!("{URL}?watch=true")), &[]).await;
    assert_eq!(head.headers["content-type"], format!("{PROTOBUF};stream=watch"));
    // Each event has its length in four bytes, and its type.
    let mut rest = &*events;
    for event_type in ["ADDED", "ERROR"] {
        let (length, events) = rest.split_first_chunk::<4>().unwrap();
        let event;
        (event, rest) = events.split_at(u32::from_be_bytes(*length) as usize);
        let expected = [b"\x0a\x05".as_slice(), event_type.as_bytes()].concat();
        assert_eq!(event[..7], expected);
    }
    assert!(rest.is_empty());
}

#[tokio::test]
async fn a_client_over_tcp_works_as_one_without_sockets() {
    let cluster = Cluster::new();
    let loopback = cluster.serve().await.unwrap();
    assert_eq!(loopback.url(), format!("http://{}", loopback.address()));
    let api: Api<ConfigMap> = Api::default_namespaced(tcp(&loopback));
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

#[tokio::test]
async fn clients_on_sockets_have_names() {
    let cluster = Cluster::new();
    let any = cluster.serve().await.unwrap();
    let named = cluster.serve_as("operator").await.unwrap();
    for loopback in [&any, &named] {
        tcp(loopback).send(get("/a")).await.unwrap();
    }
    let audit = cluster.audit();
    let clients: Vec<&str> = audit.entries().map(|entry| &*entry.client).collect();
    assert_eq!(clients, ["curl/8.0", "operator"]);
}
