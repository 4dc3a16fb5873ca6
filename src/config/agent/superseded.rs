//! Variables of agents of the first generation: one that is taken over must not listen elsewhere in silence.

use crate::config::environment::Environment;

/// Former names, and those of now.
const RENAMED: [(&str, &str); 4] = [
    ("ADMIN_LOG_LEVEL", "ADMIN_API_LOG_LEVEL"),
    ("ADMIN_PORT", "ADMIN_API_PORT"),
    ("AGENT_PORT", "PUBLIC_API_PORT"),
    ("MASTER_LIST_CSCA_LOCATION", "MRTD_MASTER_LIST_CSCA_LOCATION"),
];
/// Names that nothing has taken the place of.
const GONE: [&str; 9] = [
    "AGENT_ENDPOINT",
    "AGENT_ENDPOINTS",
    "AGENT_INVITATION_BASE_URL",
    "AGENT_INVITATION_IMAGE_URL",
    "AGENT_LABEL",
    "AGENT_NAME",
    "REDIRECT_DEFAULT_URL_TO_INVITATION_URL",
    "UI_WELCOME_MESSAGE",
    "USER_PROFILE_AUTODISCLOSE",
];

/// An environment in which a variable of a former name counts under the one of now, unless that is set too.
pub struct WithFormerNames<'a, E>(pub &'a E);

impl<E: Environment> Environment for WithFormerNames<'_, E> {
    fn get(&self, name: &str) -> Option<String> {
        let former = || RENAMED.iter().find(|(_, now)| *now == name).and_then(|(former, _)| self.0.get(former));
        self.0.get(name).or_else(former)
    }

    fn names(&self) -> Vec<String> {
        let mut names = self.0.names();
        let renamed = RENAMED.iter().filter(|(former, now)| self.0.get(former).is_some() && self.0.get(now).is_none());
        names.extend(renamed.map(|(_, now)| (*now).to_owned()));
        names
    }
}

/// One warning for each variable of a former name.
pub(super) fn former_names(environment: &impl Environment) -> Vec<String> {
    let renamed = RENAMED.iter().filter(|(former, _)| environment.get(former).is_some()).map(|(former, now)| {
        match environment.get(now) {
            Some(_) => format!("{former} is not used: {now} is set"),
            None => format!("{former} is taken as {now}, its name of now"),
        }
    });
    let gone = GONE.iter().filter(|name| environment.get(name).is_some());
    renamed.chain(gone.map(|name| format!("{name} is not used: this release has nothing like it"))).collect()
}
