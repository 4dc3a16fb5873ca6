//! Variables of agents of the first generation: one that is taken over must not listen elsewhere in silence.

use super::PASSPORTS;
use crate::{
    config::environment::Environment,
    settings::{Setting, SettingName, agent, former},
};

/// Former names, and those of now.
const RENAMED: [(&Setting, &Setting); 3] = [
    (former::ADMIN_LOG_LEVEL, agent::ADMIN_API_LOG_LEVEL),
    (former::ADMIN_PORT, agent::ADMIN_API_PORT),
    (former::AGENT_PORT, agent::PUBLIC_API_PORT),
];
/// The levels of a log by the numbers of the first generation. Its levels for tests and for the end of the program are the nearest of now.
const LEVELS: [&str; 8] = ["trace", "trace", "debug", "info", "warn", "error", "error", "off"];
/// Names that nothing has taken the place of.
const GONE: [&Setting; 9] = [
    former::AGENT_ENDPOINT,
    former::AGENT_ENDPOINTS,
    former::AGENT_INVITATION_BASE_URL,
    former::AGENT_INVITATION_IMAGE_URL,
    former::AGENT_LABEL,
    former::AGENT_NAME,
    former::REDIRECT_DEFAULT_URL_TO_INVITATION_URL,
    former::UI_WELCOME_MESSAGE,
    former::USER_PROFILE_AUTODISCLOSE,
];

/// An environment in which a variable of a former name counts under the one of now, unless that is set too.
pub struct WithFormerNames<'a, E>(pub &'a E);

impl<E: Environment> Environment for WithFormerNames<'_, E> {
    fn get(&self, name: SettingName<'_>) -> Option<String> {
        let renamed = RENAMED.iter().find(|(_, now)| now.key() == name);
        self.0
            .get(name)
            .or_else(|| renamed.and_then(|(former, _)| Some(value_of_now(former, self.0.get(former.key())?))))
    }

    fn former_name(&self, name: &str) -> Option<&'static str> {
        let (former, now) = RENAMED.iter().find(|(_, now)| now.name == name)?;
        let is_renamed = self.0.get(now.key()).is_none() && self.0.get(former.key()).is_some();
        is_renamed.then_some(former.name)
    }

    fn names(&self) -> Vec<String> {
        let mut names = self.0.names();
        let is_set = |setting: &Setting| self.0.get(setting.key()).is_some();
        let renamed = RENAMED.iter().filter(|(former, now)| is_set(former) && !is_set(now));
        names.extend(renamed.map(|(_, now)| now.name.to_owned()));
        names
    }
}

/// The value of a former variable in the words of now.
fn value_of_now(former: &Setting, value: String) -> String {
    let number = value.parse().ok().filter(|_: &usize| former.name == former::ADMIN_LOG_LEVEL.name);
    number.and_then(|number| LEVELS.get(number)).map_or(value, |level| (*level).to_owned())
}

/// One warning for each variable of a former name.
pub(super) fn former_names(environment: &impl Environment) -> Vec<String> {
    let is_set = |setting: &Setting| environment.get(setting.key()).is_some();
    let renamed = RENAMED.iter().filter(|(former, _)| is_set(former)).map(|(former, now)| {
        let (former, name) = (former.name, now.name);
        if is_set(now) {
            format!("{former} is not used: {name} is set")
        } else {
            format!("{former} is taken as {name}, its name of now")
        }
    });
    let gone = GONE.iter().filter(|setting| is_set(setting));
    let gone = gone.map(|gone| format!("{} is not used: this release has nothing like it", gone.name));
    // Its name of now is not used either.
    let passports = Some(former::MASTER_LIST_CSCA_LOCATION).filter(|setting| is_set(setting));
    let passports = passports.map(|one| format!("{} is not used: {PASSPORTS}", one.name));
    renamed.chain(gone).chain(passports).collect()
}
