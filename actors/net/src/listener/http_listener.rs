//! The loop that accepts connections, and the task of each.

use std::{convert::Infallible, future::poll_fn, io, net::SocketAddr, pin::pin, sync::Arc, task::Poll, time::Duration};

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use hyper::{
    body::{Body, Incoming},
    server::conn::http1,
    service::{Service, service_fn},
};
use hyper_util::rt::{TokioIo, TokioTimer};
use svc_otel::metrics;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream, UnixListener},
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    client_stream::StreamChange,
    connection::{ClientConnection, ConnectionEnds},
    connection_table::{ConnectionSlot, ConnectionTable},
    descriptors::DescriptorPermit,
    exchange::{OpenExchange, RequestBody, ResponseBody},
    guarded_stream::GuardedStream,
    refusal::Refusal,
    settings::ListenerSettings,
    tls::TlsIdentity,
    unread_body::UnreadBody,
};

/// Pause after a failed accept: the process has no descriptor, or the kernel no memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// A connection without a deadline is looked at again when it goes on.
const NO_DEADLINE: Duration = Duration::from_secs(365 * 24 * 3600);

/// A bound listener, ready to serve.
#[derive(Debug)]
pub struct HttpListener {
    name: &'static str,
    socket: ListenerSocket,
    settings: Arc<ListenerSettings>,
    tls: Option<Arc<TlsIdentity>>,
    change: Option<StreamChange>,
}

#[derive(Debug)]
enum ListenerSocket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl HttpListener {
    /// A listener on a bound, non-blocking TCP socket. `name` is its label in metrics and logs.
    ///
    /// # Errors
    /// When the runtime cannot use the socket.
    pub fn tcp(name: &'static str, socket: std::net::TcpListener, settings: ListenerSettings) -> io::Result<Self> {
        let socket = ListenerSocket::Tcp(TcpListener::from_std(socket)?);
        Ok(Self { name, socket, settings: Arc::new(settings), tls: None, change: None })
    }

    /// A listener on a local socket.
    pub fn unix(name: &'static str, socket: UnixListener, settings: ListenerSettings) -> Self {
        Self { name, socket: ListenerSocket::Unix(socket), settings: Arc::new(settings), tls: None, change: None }
    }

    /// Encrypts the connections of a TCP socket.
    #[must_use]
    pub fn with_tls(mut self, tls: Option<Arc<TlsIdentity>>) -> Self {
        self.tls = tls;
        self
    }

    /// Changes the streams of a TCP socket that is not encrypted.
    #[must_use]
    pub fn with_stream_change(mut self, change: StreamChange) -> Self {
        self.change = Some(change);
        self
    }

    /// Serves until `shutdown` is cancelled and the open requests have ended. Connections that were upgraded are not waited for. The open
    /// connections end when the future is dropped.
    pub async fn serve<S, B>(self, service: S, shutdown: CancellationToken)
    where
        S: Service<Request<RequestBody>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
        S::Future: Send,
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let Self { name, socket, settings, tls, change } = self;
        let table = ConnectionTable::new(name, Arc::clone(&settings));
        let server = Arc::new(ListenerTask { settings, table, tls, change, shutdown });
        let (connections, dropped) = (TaskTracker::new(), CancellationToken::new());
        let _ends_connections = dropped.clone().drop_guard();
        loop {
            let accepted = tokio::select! {
                biased;
                () = server.shutdown.cancelled() => break,
                accepted = accept(&socket) => accepted,
            };
            let client = match accepted {
                Ok(client) => client,
                // The client has gone already.
                Err(error) if is_of_the_client(&error) => continue,
                Err(error) => {
                    server.table.record_refusal(Refusal::Descriptors, None, &error.to_string());
                    server.table.give_one_up();
                    sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let ends = client.ends(server.tls.is_some());
            let Some(descriptor) = DescriptorPermit::acquire() else {
                server.table.record_refusal(Refusal::Descriptors, ends.peer, "");
                server.table.give_one_up();
                client.reset();
                continue;
            };
            let slot = match server.table.admit(ends) {
                Ok((slot, None)) => slot,
                Ok((slot, Some(replaced))) => {
                    server.table.record_refusal(replaced, ends.peer, "");
                    slot
                }
                Err(refusal) => {
                    server.table.record_refusal(refusal, ends.peer, "");
                    client.reset();
                    continue;
                }
            };
            metrics::record_http_connections(name, server.table.len());
            let (server, service, dropped) = (Arc::clone(&server), service.clone(), dropped.clone());
            connections.spawn(async move {
                dropped.run_until_cancelled(server.run(client, slot, descriptor, service)).await;
                metrics::record_http_connections(name, server.table.len());
            });
        }
        drop(socket);
        connections.close();
        connections.wait().await;
    }
}

/// An accepted socket.
enum AcceptedSocket {
    Tcp(TcpStream, SocketAddr),
    Unix(tokio::net::UnixStream),
}

async fn accept(socket: &ListenerSocket) -> io::Result<AcceptedSocket> {
    match socket {
        ListenerSocket::Tcp(listener) => {
            let (stream, peer) = listener.accept().await?;
            // Without it each small answer waits for the client's delayed acknowledgement.
            let _ = stream.set_nodelay(true);
            Ok(AcceptedSocket::Tcp(stream, peer))
        }
        ListenerSocket::Unix(listener) => Ok(AcceptedSocket::Unix(listener.accept().await?.0)),
    }
}

fn is_of_the_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

impl AcceptedSocket {
    fn ends(&self, is_encrypted: bool) -> ConnectionEnds {
        match self {
            Self::Tcp(stream, peer) => {
                ConnectionEnds { peer: Some(*peer), local: stream.local_addr().ok(), is_encrypted }
            }
            Self::Unix(_) => ConnectionEnds::default(),
        }
    }

    /// Closes at once, without a state that the kernel keeps for a while.
    fn reset(self) {
        if let Self::Tcp(stream, _) = self {
            let _ = stream.set_zero_linger();
        }
    }
}

/// A listener that serves.
struct ListenerTask {
    settings: Arc<ListenerSettings>,
    table: Arc<ConnectionTable>,
    tls: Option<Arc<TlsIdentity>>,
    change: Option<StreamChange>,
    shutdown: CancellationToken,
}

impl ListenerTask {
    /// Serves one connection to its end.
    async fn run<S, B>(&self, client: AcceptedSocket, slot: ConnectionSlot, descriptor: DescriptorPermit, service: S)
    where
        S: Service<Request<RequestBody>, Response = Response<B>, Error = Infallible> + Send + 'static,
        S::Future: Send,
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let connection = slot.connection.clone();
        let patience = self.settings.unread_body_timeout();
        let refusal = match (client, &self.tls) {
            (AcceptedSocket::Unix(stream), _) => {
                self.drive(GuardedStream::new(stream, connection.clone(), descriptor, patience), &connection, service)
                    .await
            }
            (AcceptedSocket::Tcp(stream, _), None) => {
                let stream = GuardedStream::new(stream, connection.clone(), descriptor, patience);
                match self.change {
                    Some(change) => self.drive(change(Box::new(stream)), &connection, service).await,
                    None => self.drive(stream, &connection, service).await,
                }
            }
            (AcceptedSocket::Tcp(stream, _), Some(tls)) => {
                let handshake = timeout(self.settings.header_timeout, tls.acceptor().accept(stream));
                let handshake = tokio::select! {
                    handshake = handshake => handshake.map_err(|_| "no handshake in time".to_owned()),
                    () = connection.replaced().cancelled() => return,
                    () = self.shutdown.cancelled() => return,
                };
                match handshake.and_then(|stream| stream.map_err(|error| error.to_string())) {
                    Ok(stream) => {
                        let stream = GuardedStream::new(stream, connection.clone(), descriptor, patience);
                        self.drive(stream, &connection, service).await
                    }
                    Err(reason) => {
                        self.table.record_refusal(Refusal::Tls, connection.peer(), &reason);
                        None
                    }
                }
            }
        };
        // The connection that replaces another one has recorded it.
        if let Some(refusal) = refusal.filter(|refusal| *refusal != Refusal::Replaced) {
            self.table.record_refusal(refusal, connection.peer(), "");
        }
    }

    /// Serves the requests of a stream. Returns the reason when the listener ends it.
    async fn drive<IO, S, B>(&self, stream: IO, connection: &ClientConnection, service: S) -> Option<Refusal>
    where
        IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        S: Service<Request<RequestBody>, Response = Response<B>, Error = Infallible> + Send + 'static,
        S::Future: Send,
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let of_requests = connection.clone();
        let patience = self.settings.unread_body_timeout();
        let answer = service_fn(move |request: Request<Incoming>| {
            let (connection, unread) = (of_requests.clone(), UnreadBody::default());
            let exchange = OpenExchange::begin(connection.clone());
            let waits_for_continue = request.headers().contains_key(header::EXPECT);
            let mut request = request.map(|body| RequestBody::new(body, connection.clone(), unread.clone()));
            request.extensions_mut().insert(connection.clone());
            let answer = service.call(request);
            async move {
                let mut response: Response<B> = answer.await?;
                // An upgraded connection is no more one of requests.
                if response.status() != StatusCode::SWITCHING_PROTOCOLS {
                    unread.settle(&connection, waits_for_continue, patience, response.headers_mut()).await;
                }
                Ok::<Response<ResponseBody<B>>, Infallible>(response.map(|body| exchange.answer_with(body)))
            }
        });
        let served = http1::Builder::new()
            .timer(TokioTimer::new())
            // The deadlines below cover it.
            .header_read_timeout(None)
            .max_buf_size(self.settings.max_head_bytes)
            .serve_connection(TokioIo::new(stream), answer)
            .with_upgrades();
        let mut served = pin!(served);
        let mut stopped = pin!(self.shutdown.cancelled());
        let mut replaced = pin!(connection.replaced().cancelled());
        let mut timer = pin!(sleep_until(Instant::now() + NO_DEADLINE));
        let (mut armed, mut is_stopping) = (None, false);
        poll_fn(|cx| {
            if !is_stopping && stopped.as_mut().poll(cx).is_ready() {
                is_stopping = true;
                served.as_mut().graceful_shutdown();
            }
            if replaced.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Some(Refusal::Replaced));
            }
            if let Poll::Ready(ended) = served.as_mut().poll(cx) {
                return Poll::Ready(ended.err().and_then(|error| refusal_of(&error)));
            }
            // Reads, writes and bodies have moved the deadline meanwhile.
            let deadline = connection.with_progress(|progress| progress.deadline(&self.settings));
            if deadline != armed {
                armed = deadline;
                timer.as_mut().reset(deadline.map_or_else(|| Instant::now() + NO_DEADLINE, |(at, _)| at));
            }
            timer.as_mut().poll(cx).map(|()| armed.map(|(_, refusal)| refusal))
        })
        .await
    }
}

fn refusal_of(error: &hyper::Error) -> Option<Refusal> {
    if error.is_parse_too_large() {
        Some(Refusal::HeadTooLarge)
    } else if error.is_parse() {
        Some(Refusal::Malformed)
    } else {
        // The client has gone.
        None
    }
}
