//! Subscribers that only count their messages.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use rustix::{
    event::epoll,
    net::{RecvFlags, recv},
};

pub struct SubscriberPool {
    sockets: Vec<TcpStream>,
    poll: rustix::fd::OwnedFd,
}

impl SubscriberPool {
    /// Connects so many, subscribes each, and waits for each acknowledgement.
    pub fn connect(port: u16, count: usize, subscribe: impl Fn(usize) -> String) -> Self {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC).expect("epoll");
        let mut sockets = Vec::with_capacity(count);
        for client in 0..count {
            let mut socket = TcpStream::connect(("127.0.0.1", port)).expect("connects");
            socket.set_read_timeout(Some(Duration::from_secs(30))).expect("set");
            let request = format!(
                "GET /v4/indexer/subscribe HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: Upgrade\r\n\
                 Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
            );
            socket.write_all(request.as_bytes()).expect("sent");
            until(&mut socket, b"\"ready\"");
            let payload = subscribe(client);
            let length = u8::try_from(payload.len()).expect("short");
            let mut frame = vec![0x81, 0x80 | length, 0, 0, 0, 0];
            frame.extend(payload.as_bytes());
            socket.write_all(&frame).expect("sent");
            until(&mut socket, b"\"subscribed\"");
            socket.set_nonblocking(true).expect("set");
            let data = epoll::EventData::new_u64(client as u64);
            epoll::add(&poll, &socket, data, epoll::EventFlags::IN).expect("added");
            sockets.push(socket);
        }
        Self { sockets, poll }
    }

    /// Returns when every client has received as many bytes as it should; they are thrown away uncopied.
    pub fn receive(&mut self, expected: &[usize]) {
        let mut missing = expected.to_vec();
        let mut open = missing.iter().filter(|bytes| **bytes > 0).count();
        let mut room = vec![0_u8; 1 << 20];
        let mut events = Vec::with_capacity(1_024);
        while open > 0 {
            events.clear();
            let spare = rustix::buffer::spare_capacity(&mut events);
            epoll::wait(&self.poll, spare, Some(&rustix::event::Timespec { tv_sec: 60, tv_nsec: 0 })).expect("events");
            assert!(!events.is_empty(), "{open} clients have waited for a minute");
            for event in &events {
                let client = usize::try_from(event.data.u64()).expect("an index");
                let Ok((_, bytes)) = recv(&self.sockets[client], &mut room[..], RecvFlags::TRUNC) else { continue };
                assert!(
                    bytes > 0 && bytes <= missing[client],
                    "client {client}: {bytes} bytes, {} expected",
                    missing[client]
                );
                missing[client] -= bytes;
                open -= usize::from(missing[client] == 0);
            }
        }
    }
}

/// Reads until a message with a word in it is complete.
fn until(socket: &mut TcpStream, word: &[u8]) {
    let mut seen = Vec::new();
    let mut room = [0_u8; 1_024];
    loop {
        let bytes = socket.read(&mut room).expect("an answer");
        assert!(bytes > 0, "closed: {}", String::from_utf8_lossy(&seen));
        seen.extend(&room[..bytes]);
        if seen.windows(word.len()).any(|window| window == word) && seen.ends_with(b"}") {
            return;
        }
    }
}
