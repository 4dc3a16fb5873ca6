//! Compares the compiled descriptors with the table of the chain, and tests the registry under another namespace.

use std::collections::BTreeMap;

use super::{DescriptorComparison, DescriptorSource, Namespace, NodeGeneration, ProtoRegistry, input_schema};
use prost_reflect::{Cardinality, Kind, MessageDescriptor};
use serde_json::{Value, json};

pub(super) fn table() -> Value {
    serde_json::from_str(include_str!("../../tests/fixtures/messages.json")).expect("fixture is JSON")
}

pub(super) fn compiled() -> ProtoRegistry {
    ProtoRegistry::compiled(&Namespace::compiled()).expect("compiled descriptors load")
}

fn kind_name(kind: &Kind) -> String {
    match kind {
        Kind::Message(message) => message.full_name().to_owned(),
        Kind::Enum(kind) => kind.full_name().to_owned(),
        scalar => format!("{scalar:?}").to_lowercase(),
    }
}

pub(super) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// The fields of a message by their numbers: name, type, and whether it is a list.
pub(super) type Fields = BTreeMap<u64, (String, String, bool)>;

/// The fields of a row of the table.
pub(super) fn fields_of_row(row: &Value) -> Fields {
    let fields = row["fields"].as_array().expect("fields").iter();
    fields
        .map(|field| {
            let number = field["number"].as_u64().expect("number");
            (number, (text(field, "name").into(), text(field, "type").into(), field["repeated"] == true))
        })
        .collect()
}

/// The fields of a message of the descriptors.
pub(super) fn fields_of_message(message: &MessageDescriptor) -> Fields {
    let fields = message.fields().map(|field| {
        let repeated = field.cardinality() == Cardinality::Repeated;
        (u64::from(field.number()), (field.name().to_owned(), kind_name(&field.kind()), repeated))
    });
    fields.collect()
}

/// Compares rows of the table with the descriptors; returns the number of their fields.
fn compare_messages(rows: &Value, registry: &ProtoRegistry) -> usize {
    let mut fields = 0;
    for row in rows.as_array().expect("messages") {
        let name = text(row, "name");
        let message = registry.message_descriptor(name).unwrap_or_else(|error| panic!("{name}: {error}"));
        let (found, expected) = (fields_of_message(&message), fields_of_row(row));
        assert_eq!(found, expected, "{name}");
        fields += found.len();
        if let Some(signer) = row["signer"].as_str() {
            assert_eq!(registry.signer_fields(&message), [signer], "{name}");
            assert!(registry.msg_type_urls().contains(&format!("/{name}")), "{name}");
        }
    }
    fields
}

#[test]
fn every_message_and_field_equals_that_of_the_chain() {
    let table = table();
    assert_eq!(compare_messages(&table["messages"], &compiled()), 603);
    let newest = compiled().of_generation(NodeGeneration::N4).expect("descriptors");
    assert_eq!(compare_messages(&table["newer"]["messages"], &newest), 12);
    let shown = ("/svc.poa.v1.Query/Council", "svc.poa.v1.QueryCouncilResponse");
    assert!(newest.rpc_methods().any(|rpc| (rpc.path.as_str(), rpc.response.full_name()) == shown));
}

#[test]
fn every_enum_and_rpc_equals_that_of_the_chain() {
    let (table, registry) = (table(), compiled());
    let rpcs: BTreeMap<_, _> = registry
        .rpc_methods()
        .map(|rpc| (rpc.path, (rpc.request.full_name().to_owned(), rpc.response.full_name().to_owned())))
        .collect();
    let mut seen = 0;
    for service in ["msg_services", "query_services"] {
        for rpc in
            table[service].as_array().expect("services").iter().flat_map(|row| row["rpcs"].as_array().expect("rpcs"))
        {
            let expected = (text(rpc, "request").to_owned(), text(rpc, "response").to_owned());
            assert_eq!(rpcs.get(text(rpc, "grpc_path")), Some(&expected), "{rpc}");
            seen += 1;
        }
    }
    assert_eq!(seen, 79);
    for row in table["enums"].as_array().expect("enums") {
        let holder = registry
            .rpc_methods()
            .flat_map(|rpc| [rpc.request, rpc.response])
            .flat_map(|message| message.parent_pool().all_enums().collect::<Vec<_>>())
            .find(|kind| kind.full_name() == text(row, "name"))
            .unwrap_or_else(|| panic!("{} is missing", row["name"]));
        let found: Vec<_> =
            holder.values().map(|value| json!({"name": value.name(), "number": value.number()})).collect();
        assert_eq!(Value::Array(found), row["values"], "{}", row["name"]);
    }
}

#[test]
fn platform_messages_equal_those_of_the_chain() {
    let (table, registry) = (table(), compiled());
    for row in table["external"]["messages"].as_array().expect("messages") {
        let message = registry.message_descriptor(text(row, "name")).unwrap_or_else(|error| panic!("{error}"));
        for field in row["fields"].as_array().expect("fields") {
            let number = u32::try_from(field["number"].as_u64().expect("number")).expect("small");
            let found = message.get_field(number).unwrap_or_else(|| panic!("{} lacks {field}", row["name"]));
            assert_eq!(found.name(), text(field, "name"), "{}", row["name"]);
            assert_eq!(found.is_list(), field["repeated"] == true, "{field}");
            let kind = kind_name(&found.kind());
            assert!(kind == text(field, "type") || kind.starts_with(text(field, "type")), "{kind} {field}");
        }
    }
}

#[test]
fn every_name_of_the_registry_is_in_the_namespace_of_the_network() {
    let other = ProtoRegistry::compiled(&Namespace::new("acme").expect("valid")).expect("renames");
    assert_eq!(other.namespace().as_str(), "acme");
    assert!(other.message_descriptor("svc.ec.v1.MsgCreateEcosystem").is_err());
    let live = ProtoRegistry::from_live(&other.file_descriptors()).expect("a node's answer loads");
    assert_eq!((live.namespace().as_str(), live.source()), ("acme", DescriptorSource::Live));
    let message = live.message_descriptor("/acme.ec.v1.MsgCreateEcosystem").expect("renamed");
    assert_eq!(live.signer_fields(&message), ["operator"], "annotations survive the renaming");
    let versions =
        live.message_descriptor("acme.ec.v1.EcosystemWithVersions").expect("renamed").get_field_by_name("versions");
    let Some(Kind::Message(inner)) = versions.map(|field| field.kind()) else { panic!("versions is a message") };
    assert_eq!(inner.full_name(), "acme.gf.v1.GovernanceFrameworkVersionWithDocs");
    assert_eq!(live.compare_with_compiled(&compiled()), DescriptorComparison::default());
    for bad in ["", "Acme", "9a", "a.b", "a-b"] {
        assert!(Namespace::new(bad).is_err(), "{bad}");
    }
}

#[test]
fn encoding_takes_every_json_form_of_a_value() {
    let registry = compiled();
    let url = "/svc.co.v1.MsgCreateCorporation";
    let given = json!({
        "signer": "svc1a", "members": [{"address": "svc1b", "weight": "1"}], "did": "did:web:a", "language": "en",
        "decision_policy": {"@type": "/cosmos.group.v1.ThresholdDecisionPolicy", "threshold": "1",
            "windows": {"voting_period": "60s", "min_execution_period": "0s"}},
    });
    let bytes = registry.encode(url, &given).expect("encodes");
    let back = registry.decode(url, &bytes).expect("decodes");
    assert_eq!(back["decision_policy"]["windows"]["voting_period"], "60s");
    assert_eq!(back["decision_policy"]["@type"], "/cosmos.group.v1.ThresholdDecisionPolicy");
    assert_eq!(back["doc_url"], "");
    assert_eq!(registry.signers(url, &bytes).expect("reads"), ["svc1a"]);

    let archive = "/svc.ec.v1.MsgArchiveEcosystem";
    let number = registry.encode(archive, &json!({"id": 7, "archive": true})).expect("number");
    assert_eq!(number, registry.encode(archive, &json!({"id": "7", "archive": true})).expect("text"));
    let unknown = registry.encode(archive, &json!({"identifier": 7})).expect_err("unknown members are refused");
    assert!(unknown.to_string().contains("identifier"), "{unknown}");
    assert!(registry.encode(archive, &json!({"id": -1})).is_err());

    let start = "/svc.pp.v1.MsgStartParticipantOP";
    let short = registry.encode(start, &json!({"role": "ISSUER"})).expect("short enum name");
    assert_eq!(registry.decode(start, &short).expect("decodes")["role"], "ISSUER");
    let state = "svc.xr.v1.QueryListExchangeRatesRequest";
    let prefixed = registry
        .message_descriptor(state)
        .expect("known")
        .fields()
        .find(|field| matches!(field.kind(), Kind::Enum(kind) if kind.name() == "StateFilter"));
    let field = prefixed.expect("a filter by state");
    assert_eq!(
        registry.encode(state, &json!({field.name(): "ACTIVE"})).expect("short"),
        registry.encode(state, &json!({field.name(): "STATE_FILTER_ACTIVE"})).expect("long")
    );
}

#[test]
fn an_any_of_an_unknown_type_decodes_to_base64_bytes() {
    use prost::Message;
    let any = prost_types::Any { type_url: "/other.v1.Thing".into(), value: vec![1, 2, 3] };
    let proposal = crate::proto::cosmos::group::v1::MsgSubmitProposal { messages: vec![any], ..Default::default() };
    let printed = compiled().decode("cosmos.group.v1.MsgSubmitProposal", &proposal.encode_to_vec()).expect("decodes");
    assert_eq!(printed["messages"], json!([{"@type": "/other.v1.Thing", "value": "AQID"}]));
}

#[test]
fn an_input_schema_has_no_hidden_fields_and_refuses_unknown_members() {
    let registry = compiled();
    let message = registry.message_descriptor("svc.de.v1.MsgGrantOperatorAuthorization").expect("known");
    let schema = input_schema(&message, &["corporation", "operator"]);
    assert_eq!(schema["additionalProperties"], false);
    assert!(schema["properties"].get("operator").is_none());
    assert_eq!(schema["properties"]["expiration"]["format"], "date-time");
    assert_eq!(schema["properties"]["authz_spend_limit"]["items"]["$ref"], "#/$defs/cosmos.base.v1beta1.Coin");
    assert_eq!(
        schema["$defs"]["cosmos.base.v1beta1.Coin"]["properties"]["amount"]["description"],
        "Base-10 integer as text."
    );
}

#[test]
fn the_delegable_message_types_equal_those_of_the_chain() {
    let namespace = Namespace::compiled();
    let mut ours: Vec<_> =
        crate::syntax::DELEGABLE_MESSAGES.iter().map(|(module, name)| namespace.type_url(module, name)).collect();
    ours.sort();
    assert_eq!(json!(ours), table()["meta"]["delegable_type_urls"]);
}
