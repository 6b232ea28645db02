//! A configuration without its secrets, which may be kept where others can read it.

use std::collections::BTreeMap;

use super::Config;

/// Parts of the names of options that hold secrets.
const SECRET_WORDS: [&str; 7] = ["key", "secret", "token", "password", "credential", "sas", "delegation"];

impl Config {
    /// Returns the configuration without those options of services that may hold a secret. Text such as `${NAME}` stays: the value is in the environment.
    pub(crate) fn without_secrets(&self) -> Config {
        let mut config = self.clone();
        for tier in config.tiers.iter_mut().filter(|tier| tier.service.is_some()) {
            leave_out_secrets(&mut tier.options);
            tier.targets.iter_mut().for_each(|target| leave_out_secrets(&mut target.options));
        }
        config.origins.iter_mut().for_each(|origin| leave_out_secrets(&mut origin.options));
        config
    }
}

fn leave_out_secrets(options: &mut BTreeMap<String, String>) {
    options.retain(|name, value| {
        let name = name.to_ascii_lowercase();
        let is_variable = value.starts_with("${") && value.ends_with('}');
        // As in https://user:password@host.
        let names_user = value.split_once("://").is_some_and(|(_, rest)| rest.contains('@'));
        is_variable || !names_user && !SECRET_WORDS.iter().any(|word| name.contains(word))
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_left_out_and_variables_stay() {
        let text = "[[tier]]\nname = 'b'\nkind = 'object'\nservice = 'fs'\n\
            options = { region = 'r', secret_access_key = 'x', password = '${PASSWORD}', endpoint = 'http://u:p@host/' }\n\
            targets = [{ path = '/a', options = { bucket = 'runs', Session_Token = 'x' } }]\n";
        let config = Config::parse(text, "test").expect("parses").without_secrets();
        let names = |options: &BTreeMap<String, String>| options.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&config.tiers[0].options), ["password", "region"]);
        assert_eq!(names(&config.tiers[0].targets[0].options), ["bucket"]);
    }
}
