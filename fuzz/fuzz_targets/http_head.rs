//! Feeds random bytes to the HTTP parser with the limits of the listener, and each request that it takes to the check of hosts. Neither
//! may panic, and a request whose host is served names one host only.
#![no_main]

use std::{convert::Infallible, sync::LazyLock};

use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use libfuzzer_sys::fuzz_target;
use svc_net::listener::{HostRule, ListenerSettings};
use tokio::{io::AsyncWriteExt, runtime::Runtime};

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime"));
static RULE: LazyLock<HostRule> = LazyLock::new(|| HostRule::new(["svc.example".to_owned()]));

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    if RULE.check(request.uri(), request.headers()).is_ok() {
        assert!(request.headers().get_all(header::HOST).iter().count() <= 1);
        assert!(HostRule::check_form(request.uri(), request.headers()).is_ok());
    }
    let _ = request.into_body().collect().await;
    Ok(Response::new(Full::new(Bytes::from_static(b"ok"))))
}

fuzz_target!(|data: &[u8]| {
    RUNTIME.block_on(async {
        let (mut client, server) = tokio::io::duplex(1 << 20);
        let _ = client.write_all(data).await;
        let _ = client.shutdown().await;
        let served = http1::Builder::new()
            .header_read_timeout(None)
            .max_buf_size(ListenerSettings::default().max_head_bytes)
            .serve_connection(TokioIo::new(server), service_fn(answer));
        let _ = served.await;
    });
});
