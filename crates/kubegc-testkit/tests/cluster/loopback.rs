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
    let mut size = String::new();
    stream.read_line(&mut size).unwrap();
    let size = usize::from_str_radix(size.trim(), 16).unwrap();
    let mut chunk = vec![0; size + 2];
    stream.read_exact(&mut chunk).unwrap();
    chunk.truncate(size);
    String::from_utf8(chunk).unwrap()
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
    let length = first.to_lowercase();
    let length = length
        .split("content-length: ")
        .nth(1)
        .unwrap()
        .split('\r')
        .next()
        .unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    stream.read_exact(&mut body).unwrap();
    assert!(
        String::from_utf8(body)
            .unwrap()
            .contains("\"reason\":\"NotFound\"")
    );

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
