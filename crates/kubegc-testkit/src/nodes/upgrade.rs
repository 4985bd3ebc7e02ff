//! Upgrades of requests to WebSockets, without sockets.
//!
//! Clients take the upgraded connection out of the response with `hyper::upgrade::on`, and only hyper's own
//! connections put one there. So each upgrade runs hyper's client over a pipe in memory.

use std::{future::Future, pin::Pin};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, header};
use http_body_util::Empty;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{handshake::derive_accept_key, protocol::Role},
};

use super::NodeError;
use crate::{body::ResponseBody, service::BoxError};

/// The bytes that the pipe holds before the writer waits.
const PIPE_BYTES: usize = 64 * 1024;

pub(super) type Socket = WebSocketStream<DuplexStream>;
type Session = Box<dyn FnOnce(Socket) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// A request that is to become a WebSocket connection.
pub(crate) struct Upgrade {
    accept: String,
    protocol: &'static str,
    session: Session,
}

/// The subprotocol that both the client and the server support.
///
/// # Errors
/// The error names the missing part of the request.
pub(super) fn negotiate(
    headers: &HeaderMap,
    served: &'static [&'static str],
) -> Result<(String, &'static str), NodeError> {
    let text = |name| {
        let values = headers.get_all(name).iter();
        let values: Vec<&str> = values.filter_map(|value| value.to_str().ok()).collect();
        values.join(",")
    };
    let upgrade = text(header::UPGRADE);
    let upgrades = text(header::CONNECTION)
        .split(',')
        .any(|option| option.trim().eq_ignore_ascii_case("upgrade"));
    if !upgrades || upgrade.is_empty() {
        return Err(NodeError::new(400, "Upgrade request required"));
    }
    let key = text(header::SEC_WEBSOCKET_KEY);
    if !upgrade.eq_ignore_ascii_case("websocket") || key.is_empty() {
        let message = format!(
            "unable to upgrade: the test cluster serves WebSockets and not {upgrade}: kubectl uses them from 1.31 on, or with KUBECTL_REMOTE_COMMAND_WEBSOCKETS=true"
        );
        return Err(NodeError::new(400, &message));
    }
    let offered = text(header::SEC_WEBSOCKET_PROTOCOL);
    let offered: Vec<&str> = offered.split(',').map(str::trim).collect();
    let protocol = served.iter().copied().find(|served| offered.contains(served));
    let protocol = protocol.ok_or_else(|| {
        let (offered, served) = (offered.join(" "), served.join(" "));
        let message = format!(
            "unable to upgrade: unable to negotiate protocol: client supports [{offered}], server accepts [{served}]"
        );
        NodeError::new(403, &message)
    })?;
    Ok((derive_accept_key(key.as_bytes()), protocol))
}

impl Upgrade {
    pub(super) fn new<F, T>(accept: String, protocol: &'static str, session: F) -> Self
    where
        F: FnOnce(Socket) -> T + Send + 'static,
        T: Future<Output = ()> + Send + 'static,
    {
        Self {
            accept,
            protocol,
            session: Box::new(|socket| Box::pin(session(socket))),
        }
    }

    /// Begins the session and responds with 101: the response holds the client's end of the connection.
    pub(crate) async fn begin(self) -> Result<Response<ResponseBody>, BoxError> {
        let (client, mut server) = tokio::io::duplex(PIPE_BYTES);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(client)).await?;
        // Ends with the upgraded connection; that this broke off is the client's concern.
        tokio::spawn(async move { connection.with_upgrades().await.ok() });
        let request = Request::get("/")
            .header(header::CONNECTION, "Upgrade")
            .header(header::UPGRADE, "websocket")
            .body(Empty::<Bytes>::new())?;
        let head = format!(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Accept: {}\r\nSec-WebSocket-Protocol: {}\r\n\r\n",
            self.accept, self.protocol
        );
        let serve = async move {
            let mut received = Vec::new();
            // Ends: the client's request has a head.
            while !received.ends_with(b"\r\n\r\n") {
                received.push(server.read_u8().await?);
            }
            server.write_all(head.as_bytes()).await?;
            Ok::<_, std::io::Error>(server)
        };
        let (response, server) = tokio::join!(sender.send_request(request), serve);
        let (response, server) = (response?, server?);
        let session = self.session;
        tokio::spawn(async move {
            session(WebSocketStream::from_raw_socket(server, Role::Server, None).await).await;
        });
        Ok(response.map(|_| ResponseBody::whole(Bytes::new())))
    }
}
