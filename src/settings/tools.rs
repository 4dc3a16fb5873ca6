//! The tools of a deployment, and the place where clients find them.

use super::setting::{
    Process::{Client, Serve},
    SettingType::{self, Boolean, Choice, Text},
    row, rows,
};

const PATTERNS: SettingType =
    Text("a comma-separated list of tool names with * for any text, such as svc.idx.*,svc.ledger.es.*");

rows! {
    SVC_TOOLSETS = row(Text("all, or a comma-separated list of toolsets"), &[Serve], "`all`, or surfaces, modules and `core` \
        behind commas: `ledger.es,ledger.gf,idx`, `core,vsa`. The wallet surface is always there").otherwise("all");
    SVC_READ_ONLY = row(Boolean, &[Serve], "`true`: no tool that changes anything").default("false");
    SVC_TOOLS_ALLOW = row(PATTERNS, &[Serve], "patterns over names, `*` for any text: only these");
    SVC_TOOLS_DENY = row(PATTERNS, &[Serve], "patterns over names, `*` for any text: not these");
    SVC_TOOL_POLICY = row(Text("a comma-separated list of pattern=allow, ask, confirm or deny, such as \
        svc.ledger.pp.slash*=deny,svc.ledger.*=confirm"), &[Serve], "`pattern=verdict` behind commas; the first that matches counts");
    SVC_STRICT_CONFIRM = row(Boolean, &[Serve], "`ask` becomes `confirm`").default("false")
        .see("[Confirmation](tools.md#confirmation)");
    SVC_TOOL_NAMES = row(Choice(&["dotted", "underscored"]), &[Serve], "`underscored` lists `svc_idx_es_getEcosystem`, for hosts \
        that refuse dots; both spellings are understood at any time").default("dotted");
    SVC_MCP_URL = row(Text("the URL of the MCP endpoint of a tool server"), &[Client],
        "MCP endpoint that the commands of a client ask, where `--url` names no other").default("http://127.0.0.1:3000/mcp");
}
