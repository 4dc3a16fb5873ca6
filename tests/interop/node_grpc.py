"""The node's queries over gRPC with reflection, over REST and over the RPC: the same answers, value by value.

Usage: node_grpc.py RPC REST GRPC
"""

import base64
import json
import sys
import urllib.parse
import urllib.request

import grpc
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import MessageToDict
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

rpc, rest, address = sys.argv[1:]
channel = grpc.insecure_channel(address)
database = ProtoReflectionDescriptorDatabase(channel)
services = set(database.get_services())
pool = DescriptorPool(database)
assert {"svc.pp.v1.Query", "svc.cs.v1.Query", "cosmos.bank.v1beta1.Query", "cosmos.tx.v1beta1.Service"} <= services, services


def message_class(name):
    return GetMessageClass(pool.FindMessageTypeByName(name))


def by_grpc(method, request):
    service, name = method.rsplit("/", 1)
    found = pool.FindServiceByName(service).methods_by_name[name]
    asked = message_class(found.input_type.full_name)(**request)
    answer = message_class(found.output_type.full_name)
    call = channel.unary_unary("/" + method, request_serializer=lambda one: one.SerializeToString(), response_deserializer=answer.FromString)
    return found, asked, call(asked)


def by_rpc(method, asked):
    params = {"path": "/" + method, "data": asked.SerializeToString().hex()}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "abci_query", "params": params}).encode()
    request = urllib.request.Request(rpc, body, {"content-type": "application/json"})
    response = json.load(urllib.request.urlopen(request))["result"]["response"]
    assert response["code"] == 0, response
    return base64.b64decode(response["value"] or "")


def by_rest(path, request):
    return json.load(urllib.request.urlopen(rest + path + "?" + urllib.parse.urlencode(request)))


def plain(value):
    """JSON without members that say nothing: the gateway prints an absent message as null."""
    if isinstance(value, dict):
        return {name: plain(member) for name, member in value.items() if member is not None}
    return [plain(item) for item in value] if isinstance(value, list) else value


compared = 0
for method, path, request in [
    ("svc.co.v1.Query/ListCorporations", "/co/v1/list", {}),
    ("svc.ec.v1.Query/ListEcosystems", "/ec/v1/list", {}),
    ("svc.cs.v1.Query/ListCredentialSchemas", "/svc/cs/v1/list", {}),
    ("svc.pp.v1.Query/ListParticipants", "/svc/pp/v1/list", {"response_max_size": 50}),
    ("svc.pp.v1.Query/ListParticipantSessions", "/svc/pp/v1/list_session", {}),
    ("svc.de.v1.Query/ListOperatorAuthorizations", "/svc/de/v1/authz/list", {}),
    ("svc.xr.v1.Query/ListExchangeRates", "/svc/xr/v1/list", {}),
    ("svc.xr.v1.Query/Params", "/svc-labs/svc/xr/v1/params", {}),
    ("cosmos.bank.v1beta1.Query/TotalSupply", "/cosmos/bank/v1beta1/supply", {}),
    ("cosmos.group.v1.Query/Groups", "/cosmos/group/v1/groups", {}),
    ("cosmos.auth.v1beta1.Query/Params", "/cosmos/auth/v1beta1/params", {}),
    ("cosmos.base.node.v1beta1.Service/Config", "/cosmos/base/node/v1beta1/config", {}),
]:
    found, asked, answer = by_grpc(method, request)
    assert by_rpc(method, asked) == answer.SerializeToString(deterministic=True) or by_rpc(method, asked) == answer.SerializeToString(), method
    shown = MessageToDict(answer, preserving_proto_field_name=True, always_print_fields_with_no_presence=True, descriptor_pool=pool)
    gateway = plain(by_rest(path, request))
    known = {name: value for name, value in gateway.items() if name != "pagination"}
    own = {name: value for name, value in plain(shown).items() if name != "pagination"}

    def compare(left, right, place):
        """The gateway prints times with their zone as REST does; all else is equal."""
        if isinstance(left, dict) and isinstance(right, dict):
            for name in left.keys() | right.keys():
                assert name in left and name in right, f"{place}.{name} is on one side alone"
                compare(left[name], right[name], f"{place}.{name}")
        elif isinstance(left, list) and isinstance(right, list):
            assert len(left) == len(right), place
            for index, (one, other) in enumerate(zip(left, right)):
                compare(one, other, f"{place}[{index}]")
        else:
            assert str(left) == str(right), f"{place}: {left!r} and {right!r}"

    compare(own, known, method)
    compared += 1
try:
    by_grpc("cosmos.auth.v1beta1.Query/Account", {"address": "nobody"})
    raise SystemExit("an account that is not there was found")
except grpc.RpcError as error:
    assert error.code() == grpc.StatusCode.NOT_FOUND, error
print(f"node_grpc: {len(services)} services by reflection, {compared} queries equal over gRPC, REST and RPC")
