//! Binding of the TCP listeners that the front ends serve on.

use std::{
    io,
    net::{SocketAddr, TcpListener},
};

/// Binds a non-blocking listener; needs no tokio runtime. Fails when the address is in use or not available.
pub fn bind_listener(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}
