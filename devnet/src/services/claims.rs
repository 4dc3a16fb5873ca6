//! The claims of the devnet's credentials, and the documents that they name by URL and digest.

use serde_json::{Map, Value, json};
use svc_trust::{
    EssentialCredential,
    digest::{DigestAlgorithm, sri_digest},
};

use super::page_server::PageStore;

/// An image of one pixel, in base64.
const SMALLEST_PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg==";

/// A document that claims name.
struct ClaimDocument {
    /// The property of its URL without `Uri`.
    property: &'static str,
    path: &'static str,
    content_type: &'static str,
    body: &'static str,
}

const LOGO: ClaimDocument = ClaimDocument {
    property: "logo",
    path: "/documents/logo.svg",
    content_type: "image/svg+xml",
    body: r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8"><circle cx="4" cy="4" r="4" fill="#268"/></svg>"##,
};
const TERMS: ClaimDocument = ClaimDocument {
    property: "termsAndConditions",
    path: "/documents/terms.txt",
    content_type: "text/plain",
    body: "Nothing in a devnet is worth anything, and everybody may use it.\n",
};
const PRIVACY: ClaimDocument = ClaimDocument {
    property: "privacyPolicy",
    path: "/documents/privacy.txt",
    content_type: "text/plain",
    body: "A devnet knows no person.\n",
};

/// Serves the documents.
pub(super) fn publish_documents(pages: &PageStore) {
    for document in [LOGO, TERMS, PRIVACY] {
        pages.put(document.path.to_owned(), document.content_type, document.body.to_owned());
    }
}

/// The claims of an essential credential about a holder of this name, without its DID. `origin` serves the documents.
pub(super) fn essential_claims(
    origin: &str,
    essential: EssentialCredential,
    name: &str,
    description: &str,
) -> Map<String, Value> {
    let claims = match essential {
        EssentialCredential::Service => {
            json!({"name": name, "type": "DevnetService", "description": description, "minimumAgeRequired": 0})
        }
        EssentialCredential::Organization => json!({
            "name": format!("{name} company"), "registryId": format!("DEV-{name}"), "address": "1 Loopback Road",
            "countryCode": "EE",
        }),
        EssentialCredential::Persona => json!({"name": format!("keeper of {name}"), "controllerCountryCode": "EE"}),
        EssentialCredential::UserAgent => json!({"version": "1"}),
        EssentialCredential::Badge => {
            json!({"badgeNumber": "1", "name": name, "photo": format!("data:image/png;base64,{SMALLEST_PNG}")})
        }
    };
    let documents: &[ClaimDocument] = match essential {
        EssentialCredential::Service => &[LOGO, TERMS, PRIVACY],
        EssentialCredential::Organization => &[LOGO],
        _ => &[],
    };
    let mut claims = claims.as_object().cloned().unwrap_or_default();
    for ClaimDocument { property, path, body, .. } in documents {
        claims.insert(format!("{property}Uri"), format!("{origin}{path}").into());
        let digest = sri_digest(body.as_bytes(), DigestAlgorithm::Sha384);
        claims.insert(format!("{property}DigestSri"), digest.into());
    }
    claims
}
