//! The section `[profiles]`: agent commands by name.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use weaver_agent::Profile;

use crate::config::handlers::explained;
use crate::exit::Failure;

pub(crate) const PROFILES: &str = "profiles";

pub(crate) type Profiles = BTreeMap<String, Profile>;

#[derive(Deserialize)]
struct Section {
    profiles: Profiles,
}

pub(super) fn read(path: &Path, text: &str) -> Result<Profiles, Failure> {
    toml::from_str::<Section>(text)
        .map(|section| section.profiles)
        .map_err(|error| explained(path, text, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_for_agents_are_profiles_when_they_are_uncommented() {
        let example = include_str!("../../../../examples/agents.toml");
        assert!(
            toml::from_str::<toml::Table>(example).unwrap().is_empty(),
            "everything in it is commented out"
        );
        let written = |line: &&str| line.starts_with("#") && !line.starts_with("# ") && line.len() > 1;
        let uncommented: String =
            example.lines().filter(written).map(|line| line[1..].to_owned() + "\n").collect();
        let profiles = read(Path::new("weaver.toml"), &uncommented).unwrap();
        assert!(profiles.len() >= 4, "{profiles:?}");
        for (name, profile) in profiles {
            let command = weaver_agent::command::AgentCommand::new(&profile.command);
            assert!(command.is_ok(), "{name}: {command:?}");
        }
    }

    #[test]
    fn a_typo_in_a_profile_is_refused_with_its_line_and_the_nearest() {
        let text = "[profiles.a]\ncommand = [\"a\"]\npas_env = []\n";
        let said = read(Path::new("weaver.toml"), text).unwrap_err().message;
        assert!(said.starts_with("weaver.toml:3: ") && said.ends_with("did you mean `pass_env`?"), "{said}");
    }
}
