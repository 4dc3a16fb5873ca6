//! The indexer on PostgreSQL, in a server that the test starts.

use std::{
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use serde_json::Value;
use svc_indexer::{IndexerConfig, TrustConfig, read_endpoints};
use tempfile::TempDir;

use super::{
    IndexerReplica, MARKETPLACE_SCENARIO, await_indexed, await_verdicts, read_ok, read_shapes::send_sample,
    start_chain_and_indexer,
};

/// A PostgreSQL server with its own directory and port and without a password, which ends with the test.
struct PostgresServer {
    server: Child,
    port: u16,
    _home: TempDir,
}

/// Returns the directory of the server's programs: Debian installs them by version, outside the path.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let mut found: Vec<PathBuf> = versions.flatten().map(|version| version.path().join("bin")).collect();
    found.retain(|path| path.join("initdb").exists());
    found.sort();
    found.pop()
}

/// Returns the command of a program. PostgreSQL refuses to run as root, so root runs it as the user of its package.
fn command(program: PathBuf) -> Command {
    if !rustix::process::getuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--init-groups"]).arg(program);
    command
}

impl PostgresServer {
    fn start(programs: &std::path::Path) -> Self {
        use std::os::unix::fs::PermissionsExt;
        let home = tempfile::tempdir().expect("a directory");
        std::fs::set_permissions(home.path(), std::fs::Permissions::from_mode(0o777)).expect("open to its user");
        let data = home.path().join("data");
        let made = command(programs.join("initdb"))
            .args(["--auth=trust", "--username=svc", "--encoding=UTF8", "--no-sync", "-D"])
            .arg(&data)
            .output()
            .expect("initdb runs");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let port =
            std::net::TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port").port();
        let mut server = command(programs.join("postgres"))
            .args(["-p", &port.to_string(), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="])
            .arg("-D")
            .arg(&data)
            .stderr(Stdio::piped())
            .spawn()
            .expect("postgres runs");
        let mut lines = BufReader::new(server.stderr.take().expect("its log")).lines();
        let is_ready = |line: &String| line.contains("ready to accept connections");
        assert!(lines.by_ref().map_while(Result::ok).any(|line| is_ready(&line)), "it ended before it was ready");
        // The server blocks unless its log is read to the end.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Self { server, port, _home: home }
    }

    fn url(&self) -> String {
        format!("postgres://svc@127.0.0.1:{}/postgres", self.port)
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        // SIGINT is PostgreSQL's fast shutdown, which ends its child processes.
        let pid = rustix::process::Pid::from_child(&self.server);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
        let _ = self.server.wait();
    }
}

/// Without the messages of reasons: a failed lookup of a name may appear as one or as a timeout.
fn without_messages(mut body: Value) -> Value {
    for reason in body["reasons"].as_array_mut().into_iter().flatten() {
        reason["message"].take();
    }
    body
}

#[tokio::test(flavor = "multi_thread")]
async fn postgresql_gives_the_same_answers_as_sqlite() {
    let Some(programs) = programs() else {
        assert!(std::env::var_os("CI").is_none(), "the gate installs PostgreSQL");
        eprintln!("skipped: Debian's package postgresql is not installed");
        return;
    };
    let postgres = PostgresServer::start(&programs);
    let grounds = start_chain_and_indexer(MARKETPLACE_SCENARIO).await;
    let origin = grounds.indexer_origin();
    let newest = read_ok(&origin, "/v4/indexer/block-height").await["height"].as_u64().expect("a height");
    // The chain produces no block with which a late verdict could be published.
    let trust = TrustConfig { wait_limit: Some(super::super::harness::TEST_TIMEOUT), ..TrustConfig::default() };
    let config = IndexerConfig { trust, ..IndexerConfig::new(grounds.devnet.node.origin(), postgres.url()) };
    let replica = IndexerReplica::launch(config.clone()).await;
    await_verdicts(&replica.origin, newest).await;
    for endpoint in read_endpoints().expect("the table of reads") {
        for at in [newest, newest - 2, newest / 2] {
            let [lite, postgres] = [
                send_sample(&origin, endpoint, &grounds, Some(at)).await,
                send_sample(&replica.origin, endpoint, &grounds, Some(at)).await,
            ];
            let path = &endpoint.path;
            let [lite, postgres] = [lite, postgres].map(|answer| (answer.status, without_messages(answer.body)));
            assert_eq!(lite, postgres, "{path} at {at}");
        }
    }
    for path in [
        "/v4/participant/list?only_slashed=true&min_weight=1&sort=id",
        "/v4/ecosystem/list?participant_corporation_id=3&archived=false",
        "/v4/indexer/events?dids=did:web:grantor.devnet.example&corporation_id=3&limit=5",
        "/v4/corporation/list?did=%27%3B%20DROP%20TABLE%20entity%3B--",
    ] {
        assert_eq!(read_ok(&replica.origin, path).await, read_ok(&origin, path).await, "{path}");
    }
    // The indexer continues at its checkpoint, and refuses the database of another chain.
    drop(replica);
    let again = IndexerReplica::launch(config.clone()).await;
    let height = super::produce_blocks(&grounds, 2).await;
    await_indexed(&again.origin, height).await;
    let other = super::super::harness::network_config(100);
    let other = svc_devnet::Devnet::launch(svc_devnet::DevnetConfig { chain_id: "other-1".to_owned(), ..other.devnet });
    let other = other.await.expect("another chain");
    let refused = svc_indexer::Indexer::launch(IndexerConfig::new(other.node.origin(), postgres.url())).await;
    let error = refused.err().expect("refused").to_string();
    assert!(error.contains("holds chain \"svc-devnet-1\""), "{error}");
}
