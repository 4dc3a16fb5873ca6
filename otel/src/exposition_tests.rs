//! The Prometheus text of one metric of each kind.

use std::time::Duration;

use crate::{Telemetry, metrics, render_metrics};
use tracing::level_filters::LevelFilter;

#[tokio::test]
async fn each_kind_of_instrument_is_exported_with_its_help_text_labels_and_buckets() {
    assert_eq!(render_metrics(), "", "before telemetry is started");
    let telemetry = Telemetry::start(LevelFilter::WARN, "1.0.0").expect("the first start");
    assert!(Telemetry::start(LevelFilter::WARN, "1.0.0").is_err());
    metrics::record_tx_timeout();
    metrics::record_tx_timeout();
    metrics::record_tx_queue(7, 2, 0, 1);
    metrics::record_tx_queue(3, 2, 0, 1);
    metrics::record_mailbox_depth("signer", 1);
    metrics::record_mailbox_depth("signer", 1);
    metrics::record_mailbox_depth("signer", -1);
    metrics::record_message_duration("signer", "submit", "ok", Duration::from_millis(30));
    let text = render_metrics();
    for expected in [
        "# HELP svc_mcp_tx_timeout_total Calls answered with BCAST_TIMEOUT.",
        "# TYPE svc_mcp_tx_timeout_total counter",
        "svc_mcp_tx_timeout_total 2",
        "# TYPE svc_mcp_tx_waiting gauge",
        "svc_mcp_tx_waiting 3",
        "svc_actor_mailbox_depth{actor=\"signer\"} 1",
        "# TYPE svc_actor_message_duration_seconds histogram",
        "svc_actor_message_duration_seconds_bucket{actor=\"signer\",message=\"submit\",outcome=\"ok\",le=\"0.01\"} 0",
        "svc_actor_message_duration_seconds_bucket{actor=\"signer\",message=\"submit\",outcome=\"ok\",le=\"0.05\"} 1",
        "svc_actor_message_duration_seconds_sum{actor=\"signer\",message=\"submit\",outcome=\"ok\"} 0.03",
    ] {
        assert!(text.lines().any(|line| line == expected), "{expected}\n{text}");
    }
    tokio::task::spawn_blocking(|| telemetry.stop()).await.expect("stopped");
}
