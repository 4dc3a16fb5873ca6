//! The description of the admin API as a page that needs no other host.

use axum::{
    http::{StatusCode, header},
    response::{Html, IntoResponse, Response},
};
use minijinja::{Environment, UndefinedBehavior, context};
use utoipa::openapi::OpenApi;

use super::format::answer::{no_store, set_header};

const TEMPLATE: &str = include_str!("docs.html");

/// Answers with the page.
pub(super) fn docs_page(document: &OpenApi) -> Response {
    match render(document) {
        Ok(page) => {
            let mut response = no_store(Html(page).into_response());
            // The page has no script and loads nothing.
            let policy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";
            set_header(&mut response, header::CONTENT_SECURITY_POLICY, policy);
            response
        }
        Err(error) => {
            tracing::error!(%error, "the page of the admin API cannot be rendered");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

fn render(document: &OpenApi) -> Result<String, minijinja::Error> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Chainable);
    environment.add_filter("last_part", |text: Option<String>| {
        text.as_deref().and_then(|text| text.rsplit('/').next()).unwrap_or_default().to_owned()
    });
    environment
        .add_filter("pretty", |value: minijinja::Value| serde_json::to_string_pretty(&value).unwrap_or_default());
    let document: minijinja::Value =
        serde_json::to_value(document).and_then(serde_json::from_value).unwrap_or_default();
    environment.render_named_str("docs.html", TEMPLATE, context! { document })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::openapi;

    #[test]
    fn the_page_names_every_operation_and_loads_nothing() {
        let page = render(&openapi()).expect("rendered").replace("&#x2f;", "/");
        for text in [
            "POST /v2/auth/token",
            "PATCH /v2/vt/service-endpoints/{serviceEndpointId}",
            "id=\"NewServiceEndpoint\"",
            ">409<",
        ] {
            assert!(page.contains(text), "{text}: {page}");
        }
        assert!(
            !page.contains("<script")
                && !page.contains("src=")
                && !page.contains("http://")
                && !page.contains("https://")
        );
    }
}
