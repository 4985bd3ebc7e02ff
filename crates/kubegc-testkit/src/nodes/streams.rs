//! Sessions over WebSockets: the streams of a process, and forwarded ports.
//!
//! # Upstream
//! `pkg/kubelet/cri/streaming/remotecommand/{websocket,exec}.go` and
//! `pkg/kubelet/cri/streaming/portforward/websocket.go`, 1.20.2; closed streams:
//! `apimachinery/pkg/util/remotecommand/constants.go`, 1.30.0.

use std::{fmt, io, sync::Arc};

use bytes::Bytes;
use futures_util::{
    SinkExt as _, StreamExt as _,
    stream::{FuturesUnordered, SplitSink},
};
use http::HeaderMap;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream, ReadHalf},
    sync::mpsc,
};
use tokio_tungstenite::tungstenite::Message;

use super::{
    ExecHandler, Forwarding, Handler, NodeError,
    upgrade::{Socket, Upgrade, negotiate},
};
use crate::{
    cluster::Inner,
    http::{ExecRequest, NodeRequest},
};

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
const RESIZE: u8 = 4;
/// Marks the end of a stream, in `v5.channel.k8s.io`.
const CLOSE: u8 = 255;

/// The bytes that a stream holds before its writer waits.
const STREAM_BYTES: usize = 64 * 1024;

/// The streams of a process that a closure simulates.
#[non_exhaustive]
pub struct Process {
    /// Standard input: at its end at once if the client sends none.
    pub stdin: Box<dyn AsyncRead + Send + Unpin>,
    /// Standard output.
    pub stdout: Box<dyn AsyncWrite + Send + Unpin>,
    /// Standard error.
    pub stderr: Box<dyn AsyncWrite + Send + Unpin>,
    /// Width and height of the terminal, whenever the client sets them.
    pub terminal_sizes: mpsc::UnboundedReceiver<(u16, u16)>,
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process").finish_non_exhaustive()
    }
}

/// The result of a process.
#[expect(clippy::exhaustive_enums, reason = "closures build it")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Exit {
    /// With this code; 0 is success.
    Code(i32),
    /// It could not be run.
    Failed(String),
}

impl Exit {
    /// Ends with code 0.
    pub const SUCCESS: Self = Self::Code(0);

    /// The status that the client gets.
    fn status(&self, command: &[String]) -> Value {
        match self {
            Self::Code(0) => json!({"metadata": {}, "status": "Success"}),
            Self::Code(code) => json!({
                "metadata": {},
                "status": "Failure",
                "message": format!(
                    "command terminated with non-zero exit code: error executing command [{}], exit code {code}",
                    command.join(" ")
                ),
                "reason": "NonZeroExitCode",
                "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
            }),
            Self::Failed(why) => json!({
                "metadata": {},
                "status": "Failure",
                "message": format!("Internal error occurred: error executing command in container: {why}"),
                "reason": "InternalError",
                "details": {"causes": [{"message": format!("error executing command in container: {why}")}]},
                "code": 500,
            }),
        }
    }
}

impl Upgrade {
    /// The session of a request that a closure serves. `served` are the subprotocols of the release.
    ///
    /// # Errors
    /// The refusal of a request that cannot be upgraded.
    pub(crate) fn of(
        inner: &Arc<Inner>,
        request: NodeRequest,
        handler: Handler,
        headers: &HeaderMap,
        served: &'static [&'static str],
    ) -> Result<Option<Self>, NodeError> {
        let inner = Arc::clone(inner);
        Ok(match (request, handler) {
            (NodeRequest::Exec(request), Handler::Exec(process))
            | (NodeRequest::Attach(request), Handler::Attach(process)) => {
                let (accept, protocol) = negotiate(headers, served)?;
                Some(Self::new(accept, protocol, move |socket| {
                    run(inner, socket, request, process)
                }))
            }
            (NodeRequest::PortForward(request), Handler::Forward(serve)) => {
                // The last subprotocol is that of forwarded ports in every release.
                let served = served.get(served.len().saturating_sub(1)..).unwrap_or_default();
                let (accept, protocol) = negotiate(headers, served)?;
                let forwarding = Forwarding { request, serve };
                Some(Self::new(accept, protocol, move |socket| {
                    forward(inner, socket, forwarding)
                }))
            }
            _ => None,
        })
    }
}

/// The sending side of a connection.
struct Sender {
    inner: Arc<Inner>,
    sink: SplitSink<Socket, Message>,
}

impl Sender {
    /// Sends a part of a channel. Fails if the client has disconnected.
    async fn send(&mut self, channel: u8, data: &[u8]) -> Result<(), io::Error> {
        let mut frame = Vec::with_capacity(data.len() + 1);
        frame.push(channel);
        frame.extend_from_slice(data);
        let sent = self.sink.send(Message::binary(frame)).await;
        self.inner.pulse.beat();
        sent.map_err(io::Error::other)
    }

    async fn close(mut self) {
        // A client that has disconnected needs no close frame.
        let _gone = self.sink.close().await;
        self.inner.pulse.beat();
    }
}

/// The data that a client sent on a channel; `None` for frames without data.
fn channel(message: &Message) -> Option<(u8, Bytes)> {
    let bytes: Bytes = match message {
        Message::Binary(bytes) => bytes.clone(),
        Message::Text(text) => Bytes::copy_from_slice(text.as_bytes()),
        _ => return None,
    };
    let channel = *bytes.first()?;
    Some((channel, bytes.slice(1..)))
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct TerminalSize {
    width: u16,
    height: u16,
}

/// Forwards the client's data until the client has sent all of it or the reader is closed.
async fn pass_on(mut sent: mpsc::UnboundedReceiver<Bytes>, mut to: impl AsyncWrite + Unpin) {
    while let Some(data) = sent.recv().await {
        if to.write_all(&data).await.is_err() {
            return;
        }
    }
}

/// Runs a process for a client.
async fn run(inner: Arc<Inner>, socket: Socket, request: ExecRequest, process: ExecHandler) {
    let (sink, mut received) = socket.split();
    let mut sender = Sender { inner, sink };
    let (to_stdin, stdin) = tokio::io::duplex(STREAM_BYTES);
    let (mut from_stdout, stdout) = tokio::io::duplex(STREAM_BYTES);
    let (mut from_stderr, stderr) = tokio::io::duplex(STREAM_BYTES);
    let (sizes, terminal_sizes) = mpsc::unbounded_channel();
    let (input, sent_input) = mpsc::unbounded_channel();
    let mut input = request.stdin.then_some(input);
    let mut passing_on = std::pin::pin!(pass_on(sent_input, to_stdin));
    let mut passes_on = true;
    let streams = Process {
        stdin: Box::new(stdin),
        stdout: Box::new(stdout),
        stderr: Box::new(stderr),
        terminal_sizes,
    };
    let command = request.command.clone();
    // The first frame shows the client that it is connected.
    let lowest = if request.stdout {
        STDOUT
    } else if request.stderr {
        STDERR
    } else {
        ERROR
    };
    if sender.send(lowest, &[]).await.is_err() {
        return;
    }
    let (send_stdout, send_stderr) = (request.stdout, request.stderr);
    let mut process = Some(process(request, streams));
    let mut exit = None;
    let (mut stdout_buffer, mut stderr_buffer) = ([0; 4096], [0; 4096]);
    let (mut stdout_open, mut stderr_open) = (true, true);
    // Ends with the process and its streams, or with the connection.
    while exit.is_none() || stdout_open || stderr_open {
        let ended = async {
            match &mut process {
                Some(process) => process.await,
                None => std::future::pending().await,
            }
        };
        let sent = tokio::select! {
            code = ended => {
                exit = Some(code);
                process = None;
                Ok(())
            }
            read = from_stdout.read(&mut stdout_buffer), if stdout_open => match read {
                Ok(bytes) if bytes > 0 => {
                    if send_stdout { sender.send(STDOUT, &stdout_buffer[..bytes]).await } else { Ok(()) }
                }
                _ => {
                    stdout_open = false;
                    Ok(())
                }
            },
            read = from_stderr.read(&mut stderr_buffer), if stderr_open => match read {
                Ok(bytes) if bytes > 0 => {
                    if send_stderr { sender.send(STDERR, &stderr_buffer[..bytes]).await } else { Ok(()) }
                }
                _ => {
                    stderr_open = false;
                    Ok(())
                }
            },
            () = &mut passing_on, if passes_on => {
                passes_on = false;
                Ok(())
            }
            message = received.next() => match message {
                None | Some(Err(_) | Ok(Message::Close(_))) => return,
                Some(Ok(message)) => {
                    sender.inner.pulse.beat();
                    match channel(&message) {
                        Some((STDIN, data)) => {
                            if let Some(input) = &input {
                                // A process may have stopped reading.
                                let _unread = input.send(data);
                            }
                        }
                        Some((CLOSE, which)) if which.first() == Some(&STDIN) => input = None,
                        Some((RESIZE, data)) => {
                            if let Ok(size) = serde_json::from_slice::<TerminalSize>(&data) {
                                // A process may ignore the size.
                                let _ignored = sizes.send((size.width, size.height));
                            }
                        }
                        _ => {}
                    }
                    Ok(())
                }
            },
        };
        if sent.is_err() {
            return;
        }
    }
    let status = exit.unwrap_or(Exit::SUCCESS).status(&command).to_string();
    if sender.send(ERROR, status.as_bytes()).await.is_ok() {
        sender.close().await;
    }
}

/// Forwards ports: each has a channel for data and one for an error, and both begin with the number of the
/// port.
async fn forward(inner: Arc<Inner>, socket: Socket, forwarding: Forwarding) {
    let Forwarding { request, serve } = forwarding;
    let (sink, mut received) = socket.split();
    let mut sender = Sender { inner, sink };
    let mut inputs = Vec::new();
    let (mut reads, mut writes) = (FuturesUnordered::new(), FuturesUnordered::new());
    let mut serving = FuturesUnordered::new();
    for (index, &port) in request.ports.iter().enumerate() {
        let Some(data) = u8::try_from(index).ok().and_then(|index| index.checked_mul(2)) else {
            return;
        };
        for channel in [data, data + 1] {
            if sender.send(channel, &port.to_le_bytes()).await.is_err() {
                return;
            }
        }
        let (ours, theirs) = tokio::io::duplex(STREAM_BYTES);
        let (reader, writer) = tokio::io::split(ours);
        let (input, sent_input) = mpsc::unbounded_channel();
        inputs.push(input);
        writes.push(pass_on(sent_input, writer));
        reads.push(read_some(data, reader));
        let served = serve(request.target.clone(), port, theirs);
        serving.push(async move { (data + 1, port, served.await) });
    }
    // Ends with all connections of the pod, or with that of the client.
    while !reads.is_empty() || !serving.is_empty() {
        let sent = tokio::select! {
            Some((data, bytes, reader)) = reads.next() => {
                if bytes.is_empty() {
                    Ok(())
                } else {
                    reads.push(read_some(data, reader));
                    sender.send(data, &bytes).await
                }
            }
            Some(()) = writes.next() => Ok(()),
            Some((error, port, served)) = serving.next() => match served {
                Ok(()) => Ok(()),
                Err(why) => {
                    let pod = &request.target.pod;
                    let text = format!("error forwarding port {port} to pod {pod}, uid : {why}");
                    sender.send(error, text.as_bytes()).await
                }
            },
            message = received.next() => match message {
                None | Some(Err(_) | Ok(Message::Close(_))) => return,
                Some(Ok(message)) => {
                    sender.inner.pulse.beat();
                    if let Some((number, data)) = channel(&message)
                        && number % 2 == 0
                        && let Some(input) = inputs.get(usize::from(number / 2))
                    {
                        // The pod may have closed this connection.
                        let _unread = input.send(data);
                    }
                    Ok(())
                }
            },
        };
        if sent.is_err() {
            return;
        }
    }
    sender.close().await;
}

/// Reads from a connection of a pod; no bytes at its end.
async fn read_some(channel: u8, mut reader: ReadHalf<DuplexStream>) -> (u8, Bytes, ReadHalf<DuplexStream>) {
    let mut buffer = vec![0; 4096];
    let read = reader.read(&mut buffer).await.unwrap_or_default();
    buffer.truncate(read);
    (channel, buffer.into(), reader)
}
