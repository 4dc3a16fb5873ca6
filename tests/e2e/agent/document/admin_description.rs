//! The description of the admin API, compared with its answers.

use svc_agent::DidMethod;

use crate::e2e::agent::{AgentServer, Mode, request, sqlite_url};

#[tokio::test(flavor = "multi_thread")]
async fn the_description_names_the_routes_as_they_answer() {
    let directory = tempfile::tempdir().expect("a directory");
    let server =
        AgentServer::start(directory.path(), &sqlite_url(directory.path()), DidMethod::Web, Mode::Internal).await;
    let document = server.send("GET", "/openapi.json", None).await.body;
    assert_eq!(document["openapi"], "3.1.0");
    let paths = document["paths"].as_object().expect("paths");
    let mut operations = Vec::new();
    for (path, methods) in paths {
        for (method, operation) in methods.as_object().expect("methods") {
            let path = ["serviceEndpointId", "id", "credentialId", "connectionId", "credentialExchangeId"]
                .iter()
                .fold(path.clone(), |path, name| path.replace(&format!("{{{name}}}"), "none"));
            let answer = server.send(&method.to_uppercase(), &path, (method != "get").then_some("{}")).await;
            let described = operation["responses"].as_object().expect("responses");
            let is_login = path.starts_with("/v2/auth/");
            // Logins are not served in this mode.
            assert!(
                is_login || described.contains_key(&answer.status.to_string()),
                "{method} {path}: {}",
                answer.status
            );
            operations.push(operation["operationId"].as_str().expect("an id").to_owned());
        }
    }
    operations.sort();
    let expected = [
        "acceptCredential",
        "acceptCredentialOffer",
        "acceptCredentialRequest",
        "addLinkedCredential",
        "addServiceEndpoint",
        "challenge",
        "createCredentialOffer",
        "declineCredentialExchange",
        "deleteConnection",
        "deleteCredentialExchange",
        "deleteServiceEndpoint",
        "editCredentialClaims",
        "endFlow",
        "exportStore",
        "getAgentInfo",
        "getConnection",
        "getCredentialExchange",
        "getFlow",
        "getLiveness",
        "getReadiness",
        "getSetup",
        "issueCredential",
        "listAccessGrants",
        "listBasicMessages",
        "listConnections",
        "listCredentialExchanges",
        "listDeadLetters",
        "listFlows",
        "listGaps",
        "listIssuedCredentials",
        "listLinkedCredentials",
        "listProtocols",
        "listSchemaCredentials",
        "listServiceEndpoints",
        "openConnection",
        "openFlow",
        "presentForAccess",
        "refillGaps",
        "rejectFlow",
        "removeDeadLetter",
        "removeLinkedCredential",
        "requestAccess",
        "resendFlow",
        "resolvePeer",
        "retryDeadLetter",
        "revokeAccessGrant",
        "rotateAccessKey",
        "rotateKeys",
        "sendBasicMessage",
        "sendInvitation",
        "sendOobLink",
        "startValidation",
        "token",
        "updateServiceEndpoint",
        "validateFlow",
        "voidAccessTokens",
    ];
    assert_eq!(operations, expected);
    let page = request("GET", &format!("{}/docs", server.admin)).send().await.expect("answered");
    assert!(
        page.headers()["content-security-policy"].to_str().is_ok_and(|policy| policy.starts_with("default-src 'none'"))
    );
    server.stop().await;
}
