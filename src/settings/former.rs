//! Settings of agents of the first generation.

use super::setting::{
    Process::{self, Agent},
    SettingType::{self, Text},
    row, rows,
};

const AGENT: &[Process] = &[Agent];
const ANY: SettingType = Text("not used");
const GONE: &str = "is named in a warning: this release has nothing like it";

rows! {
    ADMIN_LOG_LEVEL = row(ANY, AGENT, "former name of ADMIN_API_LOG_LEVEL");
    ADMIN_PORT = row(ANY, AGENT, "former name of ADMIN_API_PORT");
    AGENT_PORT = row(ANY, AGENT, "former name of PUBLIC_API_PORT");
    MASTER_LIST_CSCA_LOCATION = row(ANY, AGENT, "former name of MRTD_MASTER_LIST_CSCA_LOCATION");
    MRTD_MASTER_LIST_CSCA_LOCATION = row(ANY, AGENT, "is named in a warning: passports are not read");
    AGENT_ENDPOINT = row(ANY, AGENT, GONE);
    AGENT_ENDPOINTS = row(ANY, AGENT, GONE);
    AGENT_INVITATION_BASE_URL = row(ANY, AGENT, GONE);
    AGENT_INVITATION_IMAGE_URL = row(ANY, AGENT, GONE);
    AGENT_LABEL = row(ANY, AGENT, GONE);
    AGENT_NAME = row(ANY, AGENT, GONE);
    REDIRECT_DEFAULT_URL_TO_INVITATION_URL = row(ANY, AGENT, GONE);
    UI_WELCOME_MESSAGE = row(ANY, AGENT, GONE);
    USER_PROFILE_AUTODISCLOSE = row(ANY, AGENT, GONE);
}
