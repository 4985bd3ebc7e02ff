//! Nodes simulated by closures: logs, commands, attachments, forwarded ports.

use futures_util::{AsyncBufReadExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, Config,
    api::{AttachParams, AttachedProcess, LogParams, TerminalSize},
};
use kubegc_testkit::{Cluster, Exit, Log, NodeError, Process, Timestamp, http::ExecRequest};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const POD: &str = "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {nodeName: node-1, containers: [{name: app, image: app}]}}";

fn cluster() -> Cluster {
    Cluster::builder().yaml(POD).build().unwrap()
}

fn pods(cluster: &Cluster) -> Api<Pod> {
    Api::default_namespaced(cluster.client_as("operator"))
}

#[tokio::test]
async fn a_log_is_limited_as_the_client_requests() {
    let cluster = cluster();
    let second = |second: i64| Timestamp::from_secs(1_767_225_600 + second);
    cluster.nodes().on_log(move |request| {
        if request.previous {
            let target = &request.target;
            let message = format!(
                "previous terminated container {:?} in pod {:?} not found",
                target.container, target.pod
            );
            return Err(NodeError::new(400, &message));
        }
        Ok(Log::new()
            .line(second(0), "one")
            .line(second(10), "two")
            .line(second(20), "three"))
    });
    cluster.advance(std::time::Duration::from_secs(25)).await;
    let pods = pods(&cluster);
    let all = LogParams::default();
    for (params, expected) in [
        (all.clone(), "one\ntwo\nthree\n"),
        (
            LogParams {
                tail_lines: Some(1),
                ..all.clone()
            },
            "three\n",
        ),
        (
            LogParams {
                since_seconds: Some(15),
                ..all.clone()
            },
            "two\nthree\n",
        ),
        (
            LogParams {
                limit_bytes: Some(6),
                ..all.clone()
            },
            "one\ntw",
        ),
        (
            LogParams {
                tail_lines: Some(1),
                timestamps: true,
                ..all.clone()
            },
            "2026-01-01T00:00:20.000000000Z three\n",
        ),
    ] {
        assert_eq!(pods.logs("web", &params).await.unwrap(), expected, "{params:?}");
    }
    let refused = pods
        .logs(
            "web",
            &LogParams {
                previous: true,
                ..all
            },
        )
        .await
        .unwrap_err();
    let kube::Error::Api(status) = refused else {
        panic!("{refused}")
    };
    assert_eq!(
        (status.code, &*status.message),
        (
            400,
            "previous terminated container \"app\" in pod \"web\" not found"
        )
    );
}

#[tokio::test]
async fn a_followed_log_continues_until_its_stream_ends() {
    let cluster = cluster();
    let other = cluster.clone();
    cluster.nodes().on_log(move |request| {
        // A closure may read from the cluster.
        assert!(other.get("v1", "Pod", "default", &request.target.pod).is_some());
        let more = stream::iter(["later".to_owned(), "last".to_owned()]);
        Ok(Log::text("now\n").then(more))
    });
    let pods = pods(&cluster);
    assert_eq!(pods.logs("web", &LogParams::default()).await.unwrap(), "now\n");
    let follow = LogParams {
        follow: true,
        ..LogParams::default()
    };
    let lines: Vec<String> = pods
        .log_stream("web", &follow)
        .await
        .unwrap()
        .lines()
        .try_collect()
        .await
        .unwrap();
    assert_eq!(lines, ["now", "later", "last"]);
    assert_eq!(
        cluster
            .audit()
            .by("operator")
            .entries()
            .next()
            .unwrap()
            .to_string(),
        "+0s operator get pods default/web/log -> 200"
    );
}

/// A shell that knows `cat`, `fail` and `size`.
async fn shell(request: ExecRequest, mut process: Process) -> Exit {
    match request.command.first().map(String::as_str) {
        Some("cat") => {
            let mut input = Vec::new();
            process.stdin.read_to_end(&mut input).await.unwrap();
            process.stdout.write_all(&input).await.unwrap();
            Exit::SUCCESS
        }
        Some("size") => {
            let size = process.terminal_sizes.recv().await;
            process
                .stdout
                .write_all(format!("{size:?}").as_bytes())
                .await
                .unwrap();
            Exit::SUCCESS
        }
        Some(other) => {
            process
                .stderr
                .write_all(format!("{other}: failed").as_bytes())
                .await
                .unwrap();
            Exit::Code(3)
        }
        None => Exit::Failed("no command".to_owned()),
    }
}

async fn read(stream: Option<impl tokio::io::AsyncRead + Unpin>) -> String {
    let mut text = String::new();
    stream.unwrap().read_to_string(&mut text).await.unwrap();
    text
}

async fn status(process: &mut AttachedProcess) -> String {
    let status = process.take_status().unwrap().await.unwrap();
    format!(
        "{} {}",
        status.status.unwrap_or_default(),
        status.message.unwrap_or_default()
    )
}

/// Runs commands over a client.
async fn commands_run(pods: Api<Pod>) {
    let mut cat = pods
        .exec("web", ["cat"], &AttachParams::default().stdin(true))
        .await
        .unwrap();
    let mut stdin = cat.stdin().unwrap();
    let sent = "a line\n".repeat(40_000);
    let (sent_copy, stdout) = (sent.clone(), cat.stdout());
    let writing = async move {
        stdin.write_all(sent_copy.as_bytes()).await.unwrap();
        stdin.shutdown().await.unwrap();
    };
    let ((), answered) = tokio::join!(writing, read(stdout));
    assert_eq!(answered, sent);
    assert_eq!(status(&mut cat).await, "Success ");
    cat.join().await.unwrap();

    let mut fail = pods
        .exec("web", ["fail", "now"], &AttachParams::default())
        .await
        .unwrap();
    assert_eq!(read(fail.stderr()).await, "fail: failed");
    assert_eq!(
        status(&mut fail).await,
        "Failure command terminated with non-zero exit code: error executing command [fail now], exit code 3"
    );

    let terminal = AttachParams::interactive_tty();
    let mut size = pods.exec("web", ["size"], &terminal).await.unwrap();
    let mut sizes = size.terminal_size().unwrap();
    futures_util::SinkExt::send(
        &mut sizes,
        TerminalSize {
            width: 80,
            height: 24,
        },
    )
    .await
    .unwrap();
    assert_eq!(read(size.stdout()).await, "Some((80, 24))");

    let mut attached = pods.attach("web", &AttachParams::default()).await.unwrap();
    assert_eq!(read(attached.stdout()).await, "");
    assert_eq!(
        status(&mut attached).await,
        "Failure Internal error occurred: error executing command in container: no command"
    );
}

fn with_shell(cluster: &Cluster) {
    cluster.nodes().pod("default", "web").on_exec(shell);
    cluster.nodes().container("app").on_attach(shell);
    cluster
        .nodes()
        .pod("default", "other")
        .on_exec(|_, _| async { Exit::Code(1) });
}

#[tokio::test]
async fn commands_run_without_sockets() {
    let cluster = cluster();
    with_shell(&cluster);
    commands_run(pods(&cluster)).await;
    let first = cluster.audit().entries().next().unwrap().to_string();
    assert_eq!(first, "+0s operator get pods default/web/exec -> 101");
    cluster.settle().await.unwrap();
}

#[cfg(feature = "loopback")]
#[tokio::test]
async fn commands_run_over_sockets() {
    let cluster = cluster();
    with_shell(&cluster);
    let loopback = cluster.serve().await.unwrap();
    let config = Config::new(loopback.url().parse().unwrap());
    commands_run(Api::default_namespaced(Client::try_from(config).unwrap())).await;
    loopback.stop().await;
}

#[tokio::test]
async fn an_older_release_does_not_close_streams() {
    let cluster = Cluster::builder()
        .version("1.20.2".parse().unwrap())
        .yaml(POD)
        .build()
        .unwrap();
    cluster.nodes().on_exec(|_, mut process| async move {
        let mut line = [0; 4];
        process.stdin.read_exact(&mut line).await.unwrap();
        process.stdout.write_all(&line).await.unwrap();
        Exit::SUCCESS
    });
    let pods = pods(&cluster);
    let mut process = pods
        .exec("web", ["head"], &AttachParams::default().stdin(true))
        .await
        .unwrap();
    process.stdin().unwrap().write_all(b"abcd").await.unwrap();
    assert_eq!(read(process.stdout()).await, "abcd");
}

#[tokio::test]
async fn a_process_is_dropped_when_its_client_leaves() {
    let cluster = cluster();
    let (dropped, when_dropped) = tokio::sync::oneshot::channel::<()>();
    let dropped = std::sync::Mutex::new(Some(dropped));
    cluster.nodes().on_exec(move |_, _| {
        let dropped = dropped.lock().unwrap().take();
        async move {
            let _dropped = dropped;
            std::future::pending().await
        }
    });
    let process = pods(&cluster)
        .exec("web", ["sleep"], &AttachParams::default())
        .await
        .unwrap();
    drop(process);
    assert!(when_dropped.await.is_err());
}

#[tokio::test]
async fn ports_are_forwarded() {
    let cluster = cluster();
    cluster
        .nodes()
        .on_port_forward(|target, port, mut stream| async move {
            if port == 81 {
                return Err("connection refused".to_owned());
            }
            let mut received = [0; 4];
            stream
                .read_exact(&mut received)
                .await
                .map_err(|error| error.to_string())?;
            let answer = format!("{}:{port}:{}", target.pod, String::from_utf8_lossy(&received));
            stream
                .write_all(answer.as_bytes())
                .await
                .map_err(|error| error.to_string())
        });
    let mut forwarder = pods(&cluster).portforward("web", &[80, 81]).await.unwrap();
    let mut stream = forwarder.take_stream(80).unwrap();
    stream.write_all(b"ping").await.unwrap();
    let mut answer = vec![0; "web:80:ping".len()];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, b"web:80:ping");
    let error = forwarder.take_error(81).unwrap().await;
    assert_eq!(
        error.as_deref(),
        Some("error forwarding port 81 to pod web, uid : connection refused")
    );
}

#[tokio::test]
async fn a_request_without_a_closure_is_a_server_error() {
    let cluster = cluster();
    let refused = pods(&cluster)
        .exec("web", ["ls"], &AttachParams::default())
        .await
        .err()
        .unwrap();
    assert!(
        refused.to_string().contains("nodes \"node-1\" not found"),
        "{refused}"
    );
    cluster.nodes().on_exec(|_, _| async { Exit::SUCCESS });
    let service = cluster.service("curl");
    for (headers, code, text) in [
        (vec![], 400, "Upgrade request required"),
        (
            vec![("connection", "Upgrade"), ("upgrade", "SPDY/3.1")],
            400,
            "and not SPDY/3.1",
        ),
        (
            vec![
                ("connection", "Upgrade"),
                ("upgrade", "websocket"),
                ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
                ("sec-websocket-protocol", "v1.channel.k8s.io"),
            ],
            403,
            "client supports [v1.channel.k8s.io], server accepts [v5.channel.k8s.io v4.channel.k8s.io]",
        ),
    ] {
        let mut request = http::Request::get("/api/v1/namespaces/default/pods/web/exec?command=ls");
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let request = request
            .body(http_body_util::Empty::<bytes::Bytes>::new())
            .unwrap();
        let response = tower_service::Service::call(&mut service.clone(), request)
            .await
            .unwrap();
        assert_eq!(response.status(), code);
        let body = http_body_util::BodyExt::collect(response.into_body())
            .await
            .unwrap()
            .to_bytes();
        let body = String::from_utf8_lossy(&body);
        assert!(body.contains(text), "{body}");
    }
    cluster.nodes().clear();
    assert!(
        pods(&cluster)
            .exec("web", ["ls"], &AttachParams::default())
            .await
            .is_err()
    );
}
